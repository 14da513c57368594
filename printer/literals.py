"""Printing of constants."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from tsarchive.errors import SaveError
from tsarchive.ir.classes import InterfaceType
from tsarchive.ir.constants import Device, EnumMember, GeneratorSeed, ObjectValue, TableConstant
from tsarchive.ir.graph import CONSTANT, Node
from tsarchive.ir.names import checked_value_name
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.types import (
    ANY,
    NUMBER,
    DictType,
    ListType,
    OptionalType,
    Rename,
    TupleType,
    Type,
    UnionType,
    annotation,
    own_name,
)

_ESCAPES = {
    "\\": "\\\\", "'": "\\'", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip
_UNPRINTABLE = (*range(0x20), *range(0x7F, 0x100))
_ESCAPED = str.maketrans({**{byte: f"\\{byte:03o}" for byte in _UNPRINTABLE}, **_ESCAPES})
_ESCAPED_IN_QUOTES = re.compile(r'["\\\n]')
_SMALLEST_NORMAL = 2.0**-1022


class ConstantTable(Protocol):
    """The archive-wide table behind ``CONSTANTS.cN``."""

    def index(self, value: Any, type_: Type) -> int:
        """Return the index of ``value``; equal tensors share one, other values get a new one."""

    def expected(self, values: Sequence[Any]) -> list[int] | None:
        """Return the indices that values would get, one after the other; nothing is added.

        None where they do not depend on the values alone, or text says more of them.
        """
        return None if values else []


def float_text(value: float) -> str:
    if value == 0:
        return "-0." if math.copysign(1, value) < 0 else "0."
    if _is_short(value) and abs(value) < 1e10:
        return f"{int(value)}."
    text = _format_general(value)
    # Whole numbers from 1e10 need the point as well, or they read back as integers.
    return f"{text}." if text.lstrip("-").isdigit() else text


def part_text(value: float) -> str:
    """Print a part of a complex number or a float inside ``str(x)``: no -0, no bound at 1e10."""
    if value == 0:
        return "0."
    if _is_short(value) and -(2.0**63) <= value < 2.0**63:
        return f"{int(value)}."
    return _format_general(value)


def enum_value_text(value: Any) -> str:
    """Return the text of an enum member's value, an int, float or str, as one literal.

    Raises SaveError for nan.
    """
    if isinstance(value, str):
        return quoted(value)
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        raise SaveError(
            "an enum value that is nan has no literal that torch.jit reads back",
            hint="Keep nan out of enums that TorchScript code uses",
        )
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return part_text(value) if value else float_text(value)


def _format_general(value: float) -> str:
    """Format like C's ``%.17g``, which also shows the sign of a nan."""
    if math.isnan(value):
        return "-nan" if math.copysign(1, value) < 0 else "nan"
    return f"{value:.17g}"


def _is_short(value: float) -> bool:
    return math.isfinite(value) and abs(value) >= _SMALLEST_NORMAL and value == math.trunc(value)


def complex_text(value: complex) -> str:
    sign = "+" if value.imag >= 0 else "-"
    return f"{part_text(value.real)}{sign}{part_text(abs(value.imag))}j"


def check_zeros(values: Any) -> None:
    """Raise SaveError for 0.0 beside -0.0 in one expression, since torch reads both as one."""
    if len(set(_signs_of_zeros(values))) > 1:
        raise SaveError(
            "0.0 and -0.0 in one constant, or in the defaults of one function, read back as one",
            hint="Use zeros of one sign there",
        )


def _signs_of_zeros(value: Any) -> Iterator[bool]:
    match value:
        case float() if value == 0:
            yield math.copysign(1, value) < 0
        case tuple() | list():
            for item in value:
                yield from _signs_of_zeros(item)
        case dict():
            for pair in value.items():
                yield from _signs_of_zeros(pair)


def string_text(value: str) -> str:
    """Quote a string; bytes that are neither printable nor have an escape of their own go octal.

    ``\\r`` is among these: torch writes that escape and does not read it.
    """
    shown = value.encode("utf-8", "surrogateescape").decode("latin-1")
    return '"' + shown.translate(_ESCAPED) + '"'


def quoted(text: str) -> str:
    """Quote text unchanged, except for what would end the string or start an escape."""
    return '"' + _ESCAPED_IN_QUOTES.sub(lambda match: _ESCAPES[match[0]], text) + '"'


def has_non_ascii(value: Any) -> bool:
    """Return whether any string inside has a byte of 0x80 or above."""
    match value:
        case str():
            return not value.isascii()
        case list() | tuple():
            return any(has_non_ascii(item) for item in value)
        case dict():
            return any(has_non_ascii(item) for pair in value.items() for item in pair)
    return False


def can_be_inferred(element: Type) -> bool:
    """Return whether a list literal of this element type needs no annotation."""
    return element not in (ANY, NUMBER) and not isinstance(
        element, UnionType | OptionalType | InterfaceType
    )


@dataclass(frozen=True, slots=True)
class Literal:
    """The text of a constant. Items of a container are literals among its parts.

    The value is a TableConstant where the text is an entry of the table.
    """

    value: Any
    type: Type
    parts: tuple[str | Literal, ...]

    @property
    def items(self) -> Iterator[Literal]:
        return (part for part in self.parts if isinstance(part, Literal))

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


class Literals:
    """Prints constants; tensors, objects and non-ASCII text go to the constant table."""

    def __init__(self, constants: ConstantTable, rename: Rename, tag: Rename = own_name) -> None:
        self.constants = constants
        self.rename = rename
        self.tag = tag

    def text(self, value: Any, type_: Type) -> str:
        return str(self.literal(value, type_))

    def literal(self, value: Any, type_: Type) -> Literal:
        if isinstance(value, TableConstant | ObjectValue) or has_non_ascii(value):
            return self._entry(value, type_)
        if isinstance(value, tuple | list | dict):
            return Literal(value, type_, tuple(self._container(value, type_)))
        return Literal(value, type_, (self._scalar(value),))

    def _scalar(self, value: Any) -> str:
        match value:
            case None | bool() | int():
                return str(value)
            case float():
                return float_text(value)
            case complex():
                return complex_text(value)
            case str():
                return string_text(value)
            case Device(text):
                return f'torch.device("{text}")'
            case EnumMember(enum, name, _):
                return f"{checked_value_name(self.rename(enum))}.{name}"
            case GeneratorSeed(device, seed):
                return f'torch.Generator(device="{device}", seed={seed})'
        raise SaveError(f"a constant of type {type(value).__name__} cannot be written as source")

    def _entry(self, value: Any, type_: Type) -> Literal:
        """Add a constant to the table, where torch reads no tensors that require grad."""
        text = f"CONSTANTS.c{self.constants.index(value, type_)}"
        entry = value if isinstance(value, TableConstant) else TableConstant(value)
        if getattr(entry.value, "requires_grad", False):
            text = f"torch.requires_grad_(torch.detach({text}))"
        return Literal(entry, type_, (text,))

    def _container(self, value: Any, type_: Type) -> Iterator[str | Literal]:
        match type_, value:
            case TupleType(), tuple():
                return self._tuple(value, type_)
            case ListType(item), list():
                text = _join("[", ([self.literal(one, item)] for one in value), "]")
            case DictType(key, item), dict():
                pairs = (
                    (self.literal(k, key), ": ", self.literal(v, item)) for k, v in value.items()
                )
                text = _join("{", pairs, "}")
            case _:
                raise SaveError(f"constant {value!r} does not have the type {annotation(type_)}")
        if value and can_be_inferred(item):
            return text
        blank = " " if isinstance(value, list) else ""
        return chain([f"annotate({annotation(type_, self.tag)},{blank}"], text, ")")

    def _tuple(self, value: tuple[Any, ...], type_: TupleType) -> Iterator[str | Literal]:
        yield checked_value_name(self.rename(type_)) if type_.qualified_name else ""
        items = (self.literal(*pair) for pair in zip(value, type_.elements, strict=True))
        end = ",)" if len(value) == 1 else ")"
        yield from _join("(", ([item] for item in items), end)


def _join(
    begin: str, items: Iterable[Sequence[str | Literal]], end: str
) -> Iterator[str | Literal]:
    """Join items with commas."""
    separator = begin
    for item in items:
        yield separator
        yield from item
        separator = ", "
    yield end if separator != begin else begin + end


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
