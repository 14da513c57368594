"""Constant propagation of text: what strings flow into a value, as far as they are written down.

Text is followed through string operators, control flow, parameters to the calls of the function,
attributes to the pickled state, and constants of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Final

from tsarchive.findings import COMPUTED
from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import PARAM, Node, Value

from .flow import Flow, Origin
from .program import Program

# Text of attributes by class and attribute, as the pickles hold it.
PickledText = Mapping[tuple[str, str], Iterable[str]]
_MOST: Final = 8
# Letters of a text: systems take no longer names, and texts that are joined grow.
_LONGEST: Final = 4096
_MOST_VALUES: Final = 32
_DEPTH: Final = 12
_JOINING: Final = frozenset({"aten::add", "aten::add_", "aten::__add__"})
_PASSING: Final = frozenset({"aten::format", "aten::percentFormat", "prim::unchecked_cast"})


class Texts:
    """Looks for text in the functions of a program."""

    def __init__(self, program: Program, pickled: PickledText) -> None:
        self.program = program
        self.pickled = pickled
        self.flow = Flow(program)
        self._known: dict[Value, list[str]] = {}

    def given_to(self, function: str, call: Node) -> tuple[str, ...]:
        """Return the texts in the arguments of a call; ``COMPUTED`` where nothing is known."""
        given = [v for v in call.inputs if not (v.node.is_constant and v.node.place is None)]
        origins = [Origin(self.program.functions[function], value) for value in given]
        found = [text for origin in origins for text in self._texts(origin, _DEPTH)]
        known = dict.fromkeys(text for text in found if text != COMPUTED)
        return tuple(known)[:_MOST] or (COMPUTED,)

    def _texts(self, origin: Origin, depth: int) -> list[str]:
        """Return the texts that a value may be; each value is looked at once."""
        if depth == 0:
            return [COMPUTED]
        found = self._known.get(origin.value)
        if found is None:
            self._known[origin.value] = [COMPUTED]  # while it is being looked at
            texts = dict.fromkeys(text[:_LONGEST] for text in self._all_texts(origin, depth - 1))
            found = self._known[origin.value] = list(texts)[:_MOST]
        return found

    def _all_texts(self, origin: Origin, depth: int) -> Iterator[str]:
        node = origin.value.node
        if node.is_constant and isinstance(node.attributes["value"], str):
            yield node.attributes["value"]
        elif node.kind in _JOINING and len(node.inputs) >= 2:
            yield from self._joined(origin, depth)
        elif node.kind in _PASSING and node.inputs:
            yield from self._texts(origin._replace(value=node.input), depth)
        elif node.kind == "prim::GetAttr" and isinstance(node.input.type, ClassType):
            slot = node.input.type.qualified_name, node.name
            yield from islice(self.pickled.get(slot, ()), _MOST_VALUES)
            yield from self._all(self.flow.through_attribute(node.input.type, node.name), depth)
            yield COMPUTED
        elif node.kind == PARAM and node is origin.function.graph.param_node:
            yield from self._all(self.flow.through_calls(origin), depth)
            yield COMPUTED
        else:
            origins = self.flow.through_control(origin)
            yield from self._all(origins, depth)
            if not origins:
                yield COMPUTED

    def _all(self, origins: Iterable[Origin], depth: int) -> Iterator[str]:
        for origin in origins:
            yield from self._texts(origin, depth)

    def _joined(self, origin: Origin, depth: int) -> Iterator[str]:
        parts = [origin._replace(value=value) for value in origin.value.node.inputs[:2]]
        for combination in product(*(self._texts(part, depth) for part in parts)):
            text = "".join(combination)
            yield COMPUTED if set(text) <= set(COMPUTED) else text
