"""The literals in the text of a constant, each of which is read back as a constant."""

from __future__ import annotations

import re

from tsarchive.ir.graph import CONSTANT, Node
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.types import TupleType
from tsarchive.ir.values import Device, EnumMember, GeneratorSeed, TableConstant

from .literals import Literal

# Equal to nothing else: every mention of an enum member is a new object, and no nan equals another.
UNIQUE = ""

_NANS = ("nan", "-nan")

# A number within a complex number. A minus between the parts is an operator.
_NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:e[+-]?\d+)?j?")


def marked_literal(literal: Literal, node: Node, *, in_closure: bool) -> TaggedText:
    """Return the text of the constant ``node``, marked with it or with the constants read from it.

    Read back, a container is built from its items, each a node of its own; but tuples of immutable
    constants are folded to one constant again.
    """
    marking = _Marking(node, in_closure=in_closure)
    marking.write(literal, node, is_folded=False)
    return marking.text


class _Marking:
    def __init__(self, node: Node, *, in_closure: bool) -> None:
        self.text = TaggedText()
        self._place = node.place
        self._in_closure = in_closure

    def write(self, literal: Literal, owner: Node, *, is_folded: bool) -> None:
        """Write ``literal``; ``is_folded`` inside a value that has no node of its own."""
        if isinstance(literal.value, tuple | list | dict):
            is_folded = is_folded or self._can_be_folded(literal)
            self._container(literal, owner, is_folded=is_folded)
        else:
            is_folded = is_folded or isinstance(literal.value, complex)
            self._mark(literal, None if is_folded else owner)
            self.text.write(str(literal), owner)

    def _container(self, literal: Literal, owner: Node, *, is_folded: bool) -> None:
        if not is_folded and isinstance(literal.type, TupleType) and literal.type.qualified_name:
            # Of the container constructors, only the call of a named tuple has a location.
            self.text.mark(self.text.length, owner, UNIQUE)
        for part in literal.parts:
            if isinstance(part, str):
                self.text.write(part, owner)
            else:
                item = owner if is_folded else Node(CONSTANT, place=self._place)
                self.write(part, item, is_folded=is_folded)

    def _mark(self, literal: Literal, node: Node | None) -> None:
        """Mark a literal. A folded one leaves only its numbers, which the whole function shares."""
        shown = str(literal)
        start = self.text.length
        match literal.value:
            case complex():
                for number in _NUMBER.finditer(shown):
                    self._mark_literal(start + number.start(), number[0], node)
            case EnumMember():
                self._mark_literal(start, shown, node, is_unique=True)
            case Device():
                pass
            case GeneratorSeed(_, seed):
                self._mark_literal(start + shown.rindex(str(seed)), str(seed), None)
            case _:
                self._mark_literal(start, shown, node, is_unique=shown in _NANS)

    def _mark_literal(
        self, start: int, shown: str, node: Node | None, *, is_unique: bool = False
    ) -> None:
        if node is not None or is_number(shown):
            # The location of a number is after its sign.
            start += shown[0] == "-"
            self.text.mark(start, node, UNIQUE if is_unique else shown)

    def _can_be_folded(self, literal: Literal) -> bool:
        """Return whether reading back folds a tuple.

        A closure captures its numbers, so it folds none.
        """
        if isinstance(literal.value, list | dict | TableConstant | GeneratorSeed):
            return False
        if self._in_closure and is_number(str(literal)):
            return False
        return all(map(self._can_be_folded, literal.items))


def is_number(literal: str) -> bool:
    """Return whether a literal is a number: those are hoisted before everything else."""
    return literal.lstrip("-")[:1].isdigit()
