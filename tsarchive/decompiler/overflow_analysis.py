"""Overflow analysis: which functions compute with ints that may exceed 64 bits, and must wrap.

Ints grow so far where one goes round, in a loop or from call to call in an attribute, and is
multiplied, shifted, raised or added to itself on its way. From there they flow through variables,
containers, attributes, arguments and results; all functions that compute with them wrap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node, Value, carried_values, closure, nested_blocks
from tsarchive.ir.types import INT, DictType, ListType, OptionalType, TupleType, Type
from tsarchive.operators.python_forms import WRAPPING
from tsarchive.run.passes.liveness import called_function

# A value of a graph, or an attribute of a class by its name.
_Place: TypeAlias = Value | tuple[Type, str]
_Edges: TypeAlias = Mapping[_Place, Sequence[_Place]]

_WIDE = 1 << 31
# No count is so large: these are factors of hashes and of random numbers.
_LARGE_FACTOR = 1 << 24
_SHIFT = "aten::__lshift__.int"
_PRODUCT = "aten::mul.int"
_FACTORS = frozenset({_PRODUCT, _SHIFT, "aten::pow.int_to_int"})
_SUMS = frozenset({"aten::add.int", "aten::sub.int"})
_BOUNDING = frozenset({"aten::remainder.int", "aten::__and__.int"})
_LENGTHS = frozenset({"aten::len", "aten::size", "aten::dim", "aten::numel"})
_HALVING = "aten::floordiv.int"
_REPEATING = frozenset({"prim::Loop", "prim::SetAttr"})


def functions_that_wrap(functions: Iterable[Function]) -> set[Function]:
    """Return the functions that compute with such ints; ``functions`` hold all that they call."""
    flows = {function: _Flow(function) for function in functions}
    growth = _Growth(flows)
    beginnings: list[_Place] = []
    for flow in flows.values():
        for node in growth.nodes_that_grow(flow):
            beginnings += node.outputs
            called = called_function(node)
            if called is not None:
                beginnings += called.graph.params
    wide = _reached(beginnings, _edges_of_all(flows.values()))
    return {function for function, flow in flows.items() if flow.computes_with(wide)}


def counters(nodes: Iterable[Node]) -> set[Node]:
    """Return the sums that only count: from a constant, by constants, however often they are done.

    ``nodes`` are all of one function. No run is so long that such an int exceeds 64 bits.
    """
    sources: dict[Value, list[Value]] = {}
    counting: list[Node] = []
    for node in nodes:
        if node.kind == "prim::Loop":
            for first, param, last, output in carried_values(node):
                sources[param] = sources[output] = [first, last]
        elif node.kind == "prim::If":
            for output, *returned in zip(
                node.outputs, *(block.returns for block in node.blocks), strict=True
            ):
                sources[output] = returned
        elif node.kind == "prim::Uninitialized":
            sources[node.output] = []
        elif node.operator in _SUMS and any(map(_is_small, node.inputs)):
            sources[node.output] = [v for v in node.inputs if not _is_small(v)]
            counting.append(node)

    def leads_to(value: Value) -> Sequence[Value]:
        return sources.get(value, ())

    def is_known(value: Value) -> bool:
        return value in sources or _is_small(value)

    return {node for node in counting if all(map(is_known, closure([node.output], leads_to)))}


def _is_small(value: Value) -> bool:
    return value.node.is_constant and value.type == INT and abs(value.constant) < _WIDE


class _Flow:
    """The flow of ints through one function."""

    def __init__(self, function: Function) -> None:
        self.nodes: list[Node] = []
        self.edges: dict[_Place, list[_Place]] = defaultdict(list)
        self._block(function.graph, is_repeated=False)
        self.repeats = any(node.kind in _REPEATING for node in self.nodes)

    def _block(self, block: Block, *, is_repeated: bool) -> None:
        for node in block.nodes:
            self.nodes.append(node)
            for source, target in _flowing(node, is_repeated=is_repeated):
                if _holds_ints(source) and _holds_ints(target):
                    self.edges[source].append(target)
            for inner in nested_blocks(node):
                self._block(inner, is_repeated=is_repeated or node.kind == "prim::Loop")

    def computes_with(self, wide: set[_Place]) -> bool:
        return any(
            _is_wide_itself(node)
            or (node.operator in WRAPPING and not wide.isdisjoint((*node.inputs, *node.outputs)))
            for node in self.nodes
        )


class _Growth:
    """Finds what makes ints grow."""

    def __init__(self, flows: Mapping[Function, _Flow]) -> None:
        self._flows = flows
        self._known: dict[tuple[Function, tuple[int, ...]], bool] = {}

    def nodes_that_grow(self, flow: _Flow) -> Iterator[Node]:
        """Yield nodes that work on large ints, or that make what goes round through them grow.

        A call is one where the called function does it.
        """
        for node in flow.nodes:
            if _is_wide_itself(node):
                yield node
            elif flow.repeats and _may_grow(node):
                coming_back = _reached(node.outputs, flow.edges)
                if self._is_factor(node, coming_back) or _is_sum(node, coming_back, flow):
                    yield node

    def _multiplies(self, function: Function, positions: tuple[int, ...]) -> bool:
        """Return whether parameters of a function are multiplied on the way to its result."""
        key = function, positions
        flow = self._flows.get(function)
        if flow is None:
            return False
        if key not in self._known:
            self._known[key] = False
            given = _reached([function.graph.params[i] for i in positions], flow.edges)
            returned = set(function.graph.returns)
            self._known[key] = any(
                self._is_factor(node, given)
                and not returned.isdisjoint(_reached(node.outputs, flow.edges))
                for node in flow.nodes
            )
        return self._known[key]

    def _is_factor(self, node: Node, given: set[_Place]) -> bool:
        """Return whether a node multiplies values of ``given``."""
        called = called_function(node)
        if called is not None:
            arguments = enumerate(_arguments(node))
            positions = tuple(i for i, value in arguments if value in given)
            return bool(positions) and self._multiplies(called, positions)
        is_given = not given.isdisjoint(node.inputs)
        return is_given and node.operator in _FACTORS and _may_grow(node)


def _is_sum(node: Node, coming_back: set[_Place], flow: _Flow) -> bool:
    """Return whether both summands are made of the sum, and not as their middle."""
    if node.operator not in _SUMS or not coming_back.issuperset(node.inputs):
        return False
    ways = {
        place: [t for t in targets if not (isinstance(t, Value) and t.node.operator == _HALVING)]
        for place, targets in flow.edges.items()
    }
    return set(node.inputs) <= _reached(node.outputs, ways)


def _arguments(call: Node) -> Sequence[Value]:
    return call.inputs[1:] if call.kind == "prim::CallFunction" else call.inputs


def _reached(beginnings: Iterable[_Place], edges: _Edges) -> set[_Place]:
    return closure(beginnings, lambda place: edges.get(place, ()))


def _edges_of_all(flows: Iterable[_Flow]) -> _Edges:
    """Return the edges of all functions, with those from arguments and to results."""
    edges: dict[_Place, list[_Place]] = defaultdict(list)
    for flow in flows:
        for source, targets in flow.edges.items():
            edges[source] += targets
        for node in flow.nodes:
            called = called_function(node)
            if called is not None:
                _join(edges, _arguments(node), called.graph.params)
                _join(edges, called.graph.returns, node.outputs)
    return edges


def _join(
    edges: dict[_Place, list[_Place]], sources: Sequence[Value], targets: Sequence[Value]
) -> None:
    for source, target in zip(sources, targets, strict=False):
        if _holds_ints(source):
            edges[source].append(target)


def _flowing(node: Node, *, is_repeated: bool) -> Iterator[tuple[_Place, _Place]]:
    """Yield where values flow in a node, as pairs of source and target."""
    special = _SPECIAL.get(node.kind)
    # A bounding node keeps ints below a constant of 32 bits.
    is_bounding = node.operator in _BOUNDING and any(0 < n < _WIDE for n in _constants(node))
    if special is not None:
        yield from special(node)
    elif not (is_bounding or node.kind in _LENGTHS):
        yield from ((value, output) for value in node.inputs for output in node.outputs)
    arguments = node.schema.arguments if node.schema is not None else ()
    is_first_written = bool(arguments) and arguments[0].is_write
    if is_repeated and is_first_written and isinstance(node.input.type, _CONTAINERS):
        yield from ((value, node.input) for value in node.inputs[1:])
        if node.input.node.kind == "prim::GetAttr":
            yield node.input, _attribute(node.input.node)


def _through_loop(node: Node) -> Iterator[tuple[_Place, _Place]]:
    for first, param, last, output in carried_values(node):
        for value in (first, last):
            yield value, param
            yield value, output


def _through_branches(node: Node) -> Iterator[tuple[_Place, _Place]]:
    for block in node.blocks:
        yield from zip(block.returns, node.outputs, strict=True)


def _attribute(node: Node) -> tuple[Type, str]:
    return node.input.type, node.name


_SPECIAL: Mapping[str, Callable[[Node], Iterable[tuple[_Place, _Place]]]] = {
    "prim::Loop": _through_loop,
    "prim::If": _through_branches,
    "prim::GetAttr": lambda node: [(_attribute(node), node.output)],
    "prim::SetAttr": lambda node: [(node.inputs[1], _attribute(node))],
}
_CONTAINERS = (ListType, DictType)


def _holds_ints(place: _Place) -> bool:
    return isinstance(place, tuple) or _is_of_ints(place.type)


def _is_of_ints(type_: Type) -> bool:
    if isinstance(type_, OptionalType | TupleType | DictType | ListType):
        return any(map(_is_of_ints, type_.parts()))
    return type_ == INT


def _constants(node: Node) -> Iterator[int]:
    return (value.constant for value in node.inputs if value.node.is_constant)


def _is_wide_itself(node: Node) -> bool:
    """Return whether a node computes with ints so large that their sums and products may wrap."""
    operator = node.operator
    if operator == _SHIFT:
        return True
    limit = _LARGE_FACTOR if operator == _PRODUCT else _WIDE
    return operator in WRAPPING and any(abs(n) >= limit for n in _constants(node))


def _may_grow(node: Node) -> bool:
    if called_function(node) is not None:
        return any(map(_holds_ints, node.outputs))
    if node.operator in _SUMS:
        return True
    return node.operator in _FACTORS and all(abs(n) > 1 for n in _constants(node))
