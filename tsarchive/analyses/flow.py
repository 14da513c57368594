"""Where values come from: through control flow, calls and attributes, against their direction.

Text is followed further, as far as it is written down: through string operators too, and through
attributes to the pickled state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Final, NamedTuple

from tsarchive.findings import COMPUTED
from tsarchive.frontend.context import EARLY_RETURN
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import PARAM, Node, Value, carried_values, nested_blocks, walk

from .program import Program

CALLS: Final = frozenset({"prim::CallFunction", "prim::CallMethod"})
_MOST_PLACES: Final = 32


class Origin(NamedTuple):
    """A value, and the function in whose graph it stands."""

    function: Function
    value: Value


@dataclass(eq=False)
class Flow:
    """Goes one step back at a time; ``most`` bounds the callers and writers that are looked at."""

    program: Program
    most: int | None = _MOST_PLACES
    # The node around each block of a graph, by the node of the block's parameters.
    _around: dict[Function, dict[Node, Node]] = field(default_factory=dict)

    def through_control(self, origin: Origin) -> list[Origin]:
        """Return what a result of control flow, or a value inside of it, may be."""
        function, value = origin
        node = value.node
        index = node.outputs.index(value)
        found: Sequence[Value] = ()
        if node.kind == "prim::If":
            returns = [block.returns for block in node.blocks]
            found = [values[index] for values in returns if index < len(values)]
        elif node.kind == "prim::Loop":
            found = _carried(node, index)
        elif node.kind == PARAM and node is not function.graph.param_node:
            around = self._node_around(function, node)
            if around is not None and around.kind == "prim::Loop":
                found = _carried(around, index - 1) if index else ()
            elif around is not None:  # what a closure takes from around it
                found = around.inputs[index : index + 1]
        return [Origin(function, value) for value in found]

    def _node_around(self, function: Function, param: Node) -> Node | None:
        if function not in self._around:
            nodes = walk(function.graph.nodes)
            self._around[function] = {b.param_node: n for n in nodes for b in nested_blocks(n)}
        return self._around[function].get(param)

    def through_calls(self, origin: Origin) -> list[Origin]:
        """Return what a parameter may be: its default, and what calls give."""
        function, value = origin
        index = function.graph.params.index(value)
        found: list[Origin] = []
        default = self.program.default(function, value.name or "")
        if default is not None:
            found.append(Origin(function, default))
        calls = (
            (caller, node)
            for caller in self.program.functions_mentioning(function.name)
            for node in walk(caller.graph.nodes)
            if node.kind in CALLS and self.callee(node) is function
        )
        for caller, call in islice(calls, self.most):
            place = index + (call.kind == "prim::CallFunction")
            if place < len(call.inputs):
                found.append(Origin(caller, call.inputs[place]))
        return found

    def through_result(self, call: Node) -> list[Origin]:
        """Return what a call of a function of the archive may give."""
        function = self.callee(call) if call.kind in CALLS else None
        if function is None:
            return []
        early = (node.input for node in walk(function.graph.nodes) if node.kind == EARLY_RETURN)
        return [Origin(function, value) for value in (*function.graph.returns, *early)]

    def through_attribute(self, owner: ClassType, attribute: str) -> list[Origin]:
        """Return what code assigns to an attribute of a class."""
        writes = (
            Origin(writer, node.inputs[1])
            for writer in self.program.functions_mentioning(attribute)
            for node in walk(writer.graph.nodes)
            if node.kind == "prim::SetAttr" and node.name == attribute and node.input.type is owner
        )
        return list(islice(writes, self.most))

    def callee(self, call: Node) -> Function | None:
        """Return the function or method that a call certainly runs."""
        if call.kind == "prim::CallFunction":
            value = call.input.node.attributes.get("value")
            return value if isinstance(value, Function) else None
        type_ = call.input.type
        return type_.methods.get(call.name) if isinstance(type_, ClassType) else None


def _carried(loop: Node, index: int) -> Sequence[Value]:
    if len(loop.outputs) != len(loop.inputs) - 2:
        return ()  # it was refused before it was whole
    carried = list(carried_values(loop))[index]
    return carried.first, carried.last


# Text of attributes by class and attribute, as the pickles hold it.
PickledText = Mapping[tuple[str, str], Iterable[str]]
_MOST_TEXTS: Final = 8
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
        return tuple(known)[:_MOST_TEXTS] or (COMPUTED,)

    def _texts(self, origin: Origin, depth: int) -> list[str]:
        """Return the texts that a value may be; each value is looked at once."""
        if depth == 0:
            return [COMPUTED]
        found = self._known.get(origin.value)
        if found is None:
            self._known[origin.value] = [COMPUTED]  # while it is being looked at
            texts = dict.fromkeys(text[:_LONGEST] for text in self._all_texts(origin, depth - 1))
            found = self._known[origin.value] = list(texts)[:_MOST_TEXTS]
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
