"""Constant propagation of text: what strings flow into a value, as far as they are written down.

Text is followed through string operators, control flow, parameters to the calls of the function,
attributes to the pickled state, and constants of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, product
from typing import Final

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import PARAM, Node, Value, carried_values, nested_blocks, walk

from .program import Program, owner_of

COMPUTED: Final = "{...}"
"""What stands for text that is computed."""
# Text of attributes by class and attribute, as the pickles hold it.
PickledText = Mapping[tuple[str, str], Iterable[str]]
_MOST: Final = 8
# Letters of a text: systems take no longer names, and texts that are joined grow.
_LONGEST: Final = 4096
_MOST_VALUES: Final = 32
_DEPTH: Final = 12
_JOINING: Final = frozenset({"aten::add", "aten::add_", "aten::__add__"})
_PASSING: Final = frozenset({"aten::format", "aten::percentFormat", "prim::unchecked_cast"})
_CALLS: Final = frozenset({"prim::CallFunction", "prim::CallMethod"})


class Texts:
    """Looks for text in the functions of a program."""

    def __init__(self, program: Program, pickled: PickledText) -> None:
        self.program = program
        self.pickled = pickled
        self._known: dict[Value, list[str]] = {}
        # The node around each block of a graph, and its number, by the node of its parameters.
        self._around: dict[str, Mapping[Node, Node]] = {}

    def given_to(self, function: str, call: Node) -> tuple[str, ...]:
        """Return the texts in the arguments of a call; ``COMPUTED`` where nothing is known."""
        given = [v for v in call.inputs if not (v.node.is_constant and v.node.place is None)]
        found = [text for value in given for text in self._texts(function, value, _DEPTH)]
        known = dict.fromkeys(text for text in found if text != COMPUTED)
        return tuple(known)[:_MOST] or (COMPUTED,)

    def _texts(self, function: str, value: Value, depth: int) -> list[str]:
        """Return the texts that a value may be; each value is looked at once."""
        if depth == 0:
            return [COMPUTED]
        found = self._known.get(value)
        if found is None:
            self._known[value] = [COMPUTED]  # while it is being looked at
            all_texts = self._all_texts(function, value, depth - 1)
            texts = dict.fromkeys(text[:_LONGEST] for text in all_texts)
            found = self._known[value] = list(texts)[:_MOST]
        return found

    def _all_texts(self, function: str, value: Value, depth: int) -> Iterator[str]:
        node = value.node
        if node.is_constant and isinstance(node.attributes["value"], str):
            yield node.attributes["value"]
        elif node.kind in _JOINING and len(node.inputs) >= 2:
            yield from self._joined(function, node.inputs[:2], depth)
        elif node.kind in _PASSING and node.inputs:
            yield from self._texts(function, node.input, depth)
        elif node.kind == "prim::GetAttr":
            yield from self._of_attribute(node, depth)
        elif node.kind == PARAM:
            yield from self._of_parameter(function, node, node.outputs.index(value), depth)
        else:
            sources = _sources(node, node.outputs.index(value))
            for source in sources:
                yield from self._texts(function, source, depth)
            if not sources:
                yield COMPUTED

    def _joined(self, function: str, parts: Sequence[Value], depth: int) -> Iterator[str]:
        for combination in product(*(self._texts(function, part, depth) for part in parts)):
            text = "".join(combination)
            yield COMPUTED if set(text) <= set(COMPUTED) else text

    def _of_parameter(self, function: str, node: Node, index: int, depth: int) -> Iterator[str]:
        graph = self.program.functions[function].graph
        if node is not graph.param_node:
            yield from self._of_inner_parameter(function, node, index, depth)
            return
        arguments = self.program.functions[function].schema.arguments
        default = arguments[index].default if index < len(arguments) else None
        if isinstance(default, str):
            yield default
        for caller, call in islice(self._calls_of(function), _MOST_VALUES):
            first = 1 if call.kind == "prim::CallFunction" else 0
            if first + index < len(call.inputs):
                yield from self._texts(caller, call.inputs[first + index], depth)
        yield COMPUTED

    def _of_inner_parameter(
        self, function: str, node: Node, index: int, depth: int
    ) -> Iterator[str]:
        """Follow a value that a loop carries, or one that a closure takes from around it."""
        if function not in self._around:
            nodes = walk(self.program.functions[function].graph.nodes)
            self._around[function] = {b.param_node: n for n in nodes for b in nested_blocks(n)}
        around = self._around[function].get(node)
        values: Sequence[Value] = ()
        if around is not None and around.kind == "prim::Loop" and index > 0:
            carried = list(carried_values(around))[index - 1]
            values = (carried.first, carried.last)
        elif around is not None and around.kind != "prim::Loop":
            values = around.inputs[index : index + 1]
        for value in values:
            yield from self._texts(function, value, depth)
        if not values:
            yield COMPUTED

    def _calls_of(self, function: str) -> Iterator[tuple[str, Node]]:
        for caller in self._callers.get(function, ()):
            for node in walk(self.program.functions[caller].graph.nodes):
                if node.kind in _CALLS and node.inputs and _callee(node) == function:
                    yield caller, node

    @cached_property
    def _callers(self) -> Mapping[str, Sequence[str]]:
        """The functions that lead to each function."""
        found: dict[str, list[str]] = {}
        for caller in self.program.functions:
            for name in self.program.facts(caller).leads_to:
                found.setdefault(name, []).append(caller)
        return found

    def _of_attribute(self, node: Node, depth: int) -> Iterator[str]:
        owner = owner_of(node.input)
        if owner is not None:
            yield from islice(self.pickled.get((owner, node.name), ()), _MOST_VALUES)
            for writer, given in islice(self._assigned(owner, node.name), _MOST_VALUES):
                yield from self._texts(writer, given, depth)
        yield COMPUTED

    def _assigned(self, owner: str, attribute: str) -> Iterator[tuple[str, Value]]:
        """Yield what code assigns to an attribute of a class."""
        for writer in self._writers.get((owner, attribute), ()):
            for node in walk(self.program.functions[writer].graph.nodes):
                if node.kind == "prim::SetAttr" and node.name == attribute:
                    yield writer, node.inputs[1]

    @cached_property
    def _writers(self) -> Mapping[tuple[str, str], Sequence[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for name in self.program.functions:
            for slot in self.program.facts(name).assigned:
                found.setdefault(slot, []).append(name)
        return found


def _sources(node: Node, index: int) -> Sequence[Value]:
    """Return the values that one result of control flow may be."""
    if node.kind == "prim::If":
        returns = [block.returns for block in node.blocks]
        return [values[index] for values in returns if index < len(values)]
    if node.kind == "prim::Loop" and len(node.outputs) == len(node.inputs) - 2:
        carried = list(carried_values(node))[index]
        return [carried.first, carried.last]
    return []


def _callee(node: Node) -> str | None:
    """Return the qualified name of the function that a call certainly runs."""
    if node.kind == "prim::CallFunction":
        value = node.input.node.attributes.get("value")
        return value.qualified_name if isinstance(value, Function) else None
    owner = owner_of(node.input)
    return None if owner is None else f"{owner}.{node.name}"
