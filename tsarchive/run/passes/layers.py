"""Methods that run one operator on what their module holds, as those of most layers do.

Code that calls such a method can run the operator itself. In traces the method has nothing else;
in scripted code it calls others that do, and decides by constants, by flags of the module and by
the number of dimensions of what it is given. What decides is known here, or becomes a condition
under which the operator stands for the call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import Function, is_module
from tsarchive.ir.graph import Block, Node, Value, must_be_none
from tsarchive.ir.types import BOOL, TENSOR

from .liveness import ALIASES, CALLS, called_function
from .peephole import NEUTRAL

_LITERALS: Final = (bool, int, float, str, type(None))
_MOST_NODES: Final = 40
_MOST_CALLS: Final = 8  # one inside the other
_PLAIN: Final = ALIASES | CALLS | {
    "prim::Constant", "prim::GetAttr", "prim::If", "prim::ListConstruct", "prim::TupleConstruct",
}  # fmt: skip
_RAISES: Final = "prim::RaiseException"
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    f"aten::{name}": getattr(operator, name) for name in ("eq", "ge", "gt", "le", "lt", "ne")
}
_EQUALITIES: Final = frozenset({"aten::eq", "aten::ne"})
_IDENTITIES: Final = frozenset({"aten::__is__", "aten::__isnot__"})


class Flag(NamedTuple):
    """The operator stands for the call where a flag that ``read`` reads is not set."""

    read: Node


class Dims(NamedTuple):
    """The operator stands for the call where a tensor has ``rank`` dimensions, or has not.

    ``measured`` asks for them.
    """

    measured: Node
    rank: int
    has: bool


class Step(NamedTuple):
    """A function, and the node in it that calls the next one or is the operator."""

    function: Function
    node: Node


class Layer(NamedTuple):
    """A method that runs one operator.

    Its operands are parameters of the method, constants, attributes that it ``reads``, and
    ``lists`` that it makes of constants. ``conditions`` tell where the operator stands for a call,
    ``steps`` lead to it, and ``named`` are all operators of the functions on the way.
    """

    operator: Node
    reads: Sequence[Node]
    lists: Sequence[Node]
    conditions: Sequence[Flag | Dims]
    steps: Sequence[Step]
    named: tuple[str, ...]
    stands: Mapping[Value, Value]

    def source(self, value: Value) -> Value:
        """Return the operand that a value is."""
        return self.stands.get(value, value)


class Layers:
    """Finds such methods; one for all functions of an archive."""

    def __init__(self) -> None:
        self._known: dict[Function, Layer | None] = {}

    def of(self, function: Function) -> Layer | None:
        """What a method does that runs one operator on its attributes; else None."""
        original = function.original
        if original not in self._known:
            self._known[original] = layer_of(original)
        return self._known[original]


def layer_of(function: Function) -> Layer | None:
    """The operator that a method runs, and on what; None where it does more."""
    try:
        return _Following(function).layer()
    except (ArchiveError, _MoreThanOne):
        return None  # errors are to be raised where it is called


class _MoreThanOne(Exception):
    """The method does more than to run one operator, or may do so."""


class _Following:
    """Follows a method through the functions that it calls."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._self = function.graph.params[0]
        self._stands: dict[Value, Value] = {}
        self._known: dict[Value, Any] = {}
        self._unset: set[str] = set()
        self._dims: dict[Value, Node] = {}
        self._tests: dict[Value, Dims] = {}
        self._conditions: list[Flag | Dims] = []
        self._seen: list[Function] = []
        self._way: list[Step] = []
        self._steps: Sequence[Step] = ()
        self._operator: Node | None = None
        self._named: list[str] = []

    def layer(self) -> Layer:
        result = self._run(self._function)
        found = self._operator
        if found is None or result is not found.output:
            raise _MoreThanOne
        given = [self._source(value) for value in found.inputs]
        lists = [value.node for value in given if value.node.kind == "prim::ListConstruct"]
        for value in (*given, *(item for made in lists for item in made.inputs)):
            self._check_operand(value)
        reads = [value.node for value in given if value.node.kind == "prim::GetAttr"]
        reads += [one.read for one in self._conditions if isinstance(one, Flag)]
        return Layer(
            replace(found, inputs=given), list(dict.fromkeys(reads)), list(dict.fromkeys(lists)),
            self._conditions, self._steps, tuple(dict.fromkeys(self._named)), self._stands,
        )  # fmt: skip

    def _check_operand(self, value: Value) -> None:
        node = value.node
        if node.is_constant:
            is_plain = type(node.attributes["value"]) in _LITERALS
        elif node.kind == "prim::ListConstruct":
            is_plain = all(item.node.is_constant for item in node.inputs)
        else:
            is_param = value in self._function.graph.params and value is not self._self
            is_plain = is_param or node.kind == "prim::GetAttr"
        if not is_plain:
            raise _MoreThanOne

    def _source(self, value: Value) -> Value:
        return self._stands.get(value, value)

    def _run(self, function: Function) -> Value:
        """Follow a function, and return its result."""
        graph = function.graph
        is_short = len(graph.nodes) <= _MOST_NODES and len(graph.returns) == 1
        if function in self._seen or not is_short or len(self._way) > _MOST_CALLS:
            raise _MoreThanOne
        self._seen.append(function)
        self._name(graph)
        self._block(graph, function)
        return self._source(graph.returns[0])

    def _name(self, block: Block) -> None:
        """Collect the operators that a function names: the policy decides over all of them."""
        for node in block.nodes:
            if node.schema is not None and node.upgrader is None and node.stand_in is None:
                self._named.append(node.operator)
            elif node.kind not in _PLAIN:
                raise _MoreThanOne
            for inner in node.blocks:
                self._name(inner)

    def _block(self, block: Block, function: Function) -> None:
        for node in block.nodes:
            if node.is_constant or node.kind == "prim::ListConstruct":
                continue
            if node.kind in ALIASES and node.inputs:
                self._stands[node.output] = self._source(node.input)
            elif node.kind == "prim::GetAttr":
                self._read(node)
            elif node.kind in CALLS:
                self._call(node, function)
            elif node.kind == "prim::If":
                self._if(node, function)
            elif not self._is_decided(node):
                self._run_operator(node, function)

    def _read(self, node: Node) -> None:
        if self._source(node.input) is not self._self or is_module(node.output.type):
            raise _MoreThanOne

    def _call(self, node: Node, function: Function) -> None:
        callee, arguments = called_function(node), node.inputs
        if node.kind == "prim::CallFunction":
            arguments = arguments[1:]
        elif self._source(node.input) is not self._self or node.name.startswith("forward"):
            raise _MoreThanOne  # a module within, or one whose hooks run
        if callee is None:
            raise _MoreThanOne
        self._stands.update(zip(callee.graph.params, map(self._source, arguments), strict=True))
        self._way.append(Step(function, node))
        self._stands[node.output] = self._run(callee)
        self._way.pop()

    def _if(self, node: Node, function: Function) -> None:
        chosen = node.blocks[0 if self._decided(node) else 1]
        self._block(chosen, function)
        self._stands.update(zip(node.outputs, map(self._source, chosen.returns), strict=True))

    def _decided(self, node: Node) -> bool:
        """Return which branch is taken, under a condition where that is not known."""
        value = self._source(node.input)
        if value.node.is_constant:
            return bool(value.node.attributes["value"])
        if value in self._known:
            return bool(self._known[value])
        if self._operator is not None:
            raise _MoreThanOne  # which may have changed what decides
        if value in self._tests:
            fails = [any(n.kind == _RAISES for n in block.nodes) for block in node.blocks]
            dims = self._tests[value]
            if fails[0] == fails[1]:
                raise _MoreThanOne
            is_taken = fails[1]
            self._conditions.append(dims if is_taken else dims._replace(has=not dims.has))
            return is_taken
        if value.node.kind == "prim::GetAttr" and value.type == BOOL:
            if value.node.name not in self._unset:
                self._unset.add(value.node.name)
                self._conditions.append(Flag(value.node))
            return False
        raise _MoreThanOne

    def _is_decided(self, node: Node) -> bool:
        """Note what a node gives that decides over branches; false for another operator."""
        values = [self._source(value) for value in node.inputs]
        if node.kind == "aten::dim" and values[0] in self._function.graph.params:
            self._dims[node.output] = node
            return True
        if node.kind in _COMPARISONS and len(values) == 2 and node.output.type == BOOL:
            first, second = values
            if first in self._dims and node.kind in _EQUALITIES and _is_int(second):
                rank, has = second.node.attributes["value"], node.kind == "aten::eq"
                self._tests[node.output] = Dims(self._dims[first], rank, has)
                return True
            if all(map(_is_number, values)):
                numbers = [value.node.attributes["value"] for value in values]
                self._known[node.output] = _COMPARISONS[node.kind](*numbers)
                return True
        is_nothing = _is_nothing(values) if node.kind in _IDENTITIES else None
        if is_nothing is not None:
            self._known[node.output] = is_nothing is (node.kind == "aten::__is__")
        return is_nothing is not None

    def _run_operator(self, node: Node, function: Function) -> None:
        is_one = len(node.outputs) == 1 and node.output.type is TENSOR
        is_plain = node.schema is not None and not (node.kind in NEUTRAL or node.blocks)
        if self._operator is not None or not (is_one and is_plain):
            raise _MoreThanOne
        self._operator = node
        self._steps = (*self._way, Step(function, node))


def _is_nothing(values: Sequence[Value]) -> bool | None:
    """Return whether the first value is the second, which is None; None where that is unknown."""
    first, second = values
    if not must_be_none(second):
        return None
    is_list = first.node.kind == "prim::ListConstruct"
    is_known = is_list or first.node.is_constant or first.type is TENSOR
    return must_be_none(first) if is_known else None


def _is_number(value: Value) -> bool:
    return value.node.is_constant and type(value.node.attributes["value"]) in (bool, int, float)


def _is_int(value: Value) -> bool:
    return value.node.is_constant and type(value.node.attributes["value"]) is int
