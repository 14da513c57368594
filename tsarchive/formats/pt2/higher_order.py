"""Lowering of higher-order operators, which take graphs, to control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import MAX_TRIP_COUNT, Block, Node, Value
from tsarchive.ir.subtyping import is_subtype, unify
from tsarchive.ir.types import BOOL, INT, STRING, TENSOR, OptionalType, Type, annotation

from . import schema
from .arguments import argument_value, operands
from .building import Body
from .contexts import AUTOCAST, NO_GRAD, WITH_GRAD


class Program(Protocol):
    """The translation as far as the operators need it."""

    def inline(self, body: Body, graph: schema.Graph, given: Sequence[Value]) -> list[Value]:
        """Append the nodes of a graph to ``body``; return its results."""

    def context_class(self, qualified_name: str) -> ClassType:
        """Return a class of context managers."""


class HigherOrderCall(NamedTuple):
    """A node that calls a higher-order operator, and the context of its translation."""

    program: Program
    body: Body
    node: schema.Node
    values: Mapping[str, Value]

    def argument(self, position: int) -> schema.Argument:
        if position >= len(self.node.inputs):
            raise FormatError(f"its argument {position} is missing")
        return self.node.inputs[position].arg

    def literal(self, position: int, tag: str) -> Any:
        """Return the content of an argument that must be ``tag``."""
        argument = self.argument(position)
        if argument.tag != tag:
            raise FormatError(f"its argument {position} is {argument.tag}, not {tag}")
        return argument.value

    def graph(self, position: int) -> schema.Graph:
        found: schema.GraphArgument = self.literal(position, "as_graph")
        return found.graph

    def keywords(self) -> dict[str, schema.Argument]:
        """Return the named arguments. Raises FormatError for a duplicate name."""
        found: dict[str, schema.Argument] = {}
        for given in self.node.inputs:
            if given.name in found:
                raise FormatError(f"its argument {given.name!r} is given twice")
            if given.name:
                found[given.name] = given.arg
        return found

    def operands(self, position: int) -> list[Value]:
        """Return the values of one argument, which often is a list."""
        return operands(self.body, self.argument(position), self.values)

    def rest(self, position: int) -> list[Value]:
        """Return the values of all positional arguments from ``position`` on."""
        given = [one.arg for one in self.node.inputs[position:] if not _is_keyword(one)]
        return [value for one in given for value in operands(self.body, one, self.values)]

    def inline(self, body: Body, position: int, given: Sequence[Value]) -> list[Value]:
        """Inline the graph argument at ``position`` into ``body``; return its results."""
        return self.program.inline(body, self.graph(position), given)


def _is_keyword(given: schema.NamedArgument) -> bool:
    return given.kind == schema.ArgumentKind.KEYWORD


def _cond(call: HigherOrderCall) -> list[Value]:
    (condition,) = _exactly(call.operands(0), 1, "conditions")
    node = call.body.append("prim::If", [call.body.truth(condition)])
    given = call.operands(3)
    blocks = [node.add_block(), node.add_block()]
    results = [
        call.inline(call.body.inside(block), position, given)
        for position, block in enumerate(blocks, start=1)
    ]
    if len(results[0]) != len(results[1]):
        raise FormatError(f"its branches give {len(results[0])} and {len(results[1])} results")
    for one, other in zip(*results, strict=True):
        node.add_output(_common(one, other))
        blocks[0].add_return(one)
        blocks[1].add_return(other)
    return node.outputs


def _common(one: Value, other: Value) -> Type:
    type_ = unify(one.type, other.type)
    if type_ is None:
        shown = f"{annotation(one.type)} in one branch and {annotation(other.type)} in the other"
        raise FormatError(f"a result is {shown}")
    return type_


def _exactly(values: list[Value], count: int, what: str) -> list[Value]:
    if len(values) != count:
        raise FormatError(f"it has {len(values)} {what}, not {count}")
    return values


class Loop:
    """A loop with carried values, with its body under construction."""

    def __init__(
        self, body: Body, count: Value, condition: Value, carried: Sequence[Value]
    ) -> None:
        self.node: Node = body.append("prim::Loop", [count, condition, *carried])
        self.block: Block = self.node.add_block()
        self.counter = self.block.add_param(INT)
        self.carried = [self.block.add_param(value.type) for value in carried]
        for value in carried:
            self.node.add_output(value.type)
        self.body = body.inside(self.block)

    def end(self, condition: Value, results: Sequence[Value]) -> list[Value]:
        """Finish the body; return the results of the loop."""
        _exactly(list(results), len(self.carried), "carried results")
        for value, param in zip(results, self.carried, strict=True):
            if not is_subtype(value.type, param.type):
                raise FormatError(
                    f"a carried {annotation(param.type)} becomes a {annotation(value.type)}"
                )
        for value in (condition, *results):
            self.block.add_return(value)
        return self.node.outputs


def _while_loop(call: HigherOrderCall) -> list[Value]:
    body, extra = call.body, call.operands(3)
    # Without iterations the results must not alias the inputs.
    carried = [
        body.value("aten::clone", value) if value.type == TENSOR else value
        for value in call.operands(2)
    ]

    def proceeds(inside: Body, carried: Sequence[Value]) -> Value:
        results = call.inline(inside, 0, [*carried, *extra])
        return inside.truth(_exactly(results, 1, "conditions")[0])

    loop = Loop(body, body.integer(MAX_TRIP_COUNT), proceeds(body, carried), carried)
    results = call.inline(loop.body, 1, [*loop.carried, *extra])
    return loop.end(proceeds(loop.body, results), results)


def _map(call: HigherOrderCall) -> list[Value]:
    return _stacking(call, [], call.operands(1), call.operands(2))


def _scan(call: HigherOrderCall) -> list[Value]:
    return _stacking(call, call.operands(1), call.operands(2), call.operands(3))


def _stacking(
    call: HigherOrderCall, initial: list[Value], over: list[Value], extra: list[Value]
) -> list[Value]:
    """Loop over the first dimension of tensors; return the carry and the stacked results."""
    body = call.body
    if not over:
        raise FormatError("it goes over no tensors")
    always = body.constant(True, BOOL)
    count = body.value("aten::size", over[0], body.integer(0))
    kept = len(call.graph(0).outputs) - len(initial)
    lists = [body.list_of(TENSOR, ()) for _ in range(kept)]
    loop = Loop(body, count, always, initial)
    inside = loop.body
    first = inside.integer(0)
    items = [inside.value("aten::select", value, first, loop.counter) for value in over]
    results = call.inline(inside, 0, [*loop.carried, *items, *extra])
    stacked = results[len(initial) :]
    for list_, value in zip(lists, _exactly(stacked, len(lists), "results"), strict=True):
        inside.call("aten::append", list_, value)
    carried = loop.end(inside.constant(True, BOOL), results[: len(initial)])
    return [*carried, *(body.value("aten::stack", list_, body.integer(0)) for list_ in lists)]


def _associative_scan(call: HigherOrderCall) -> list[Value]:
    """Combine each row with the result for all rows before it, sequentially."""
    body, over, extra = call.body, call.operands(1), call.operands(2)
    if not over:
        raise FormatError("it goes over no tensors")
    zero, one = body.integer(0), body.integer(1)
    first = [body.value("aten::select", value, zero, zero) for value in over]
    lists = [body.list_of(TENSOR, [value]) for value in first]
    count = body.value("aten::size", over[0], zero)
    loop = Loop(body, body.value("aten::sub", count, one), body.constant(True, BOOL), first)
    inside = loop.body
    index = inside.value("aten::add", loop.counter, inside.integer(1))
    rows = [inside.value("aten::select", value, inside.integer(0), index) for value in over]
    results = call.inline(inside, 0, [*loop.carried, *rows, *extra])
    for list_, value in zip(lists, _exactly(results, len(over), "results"), strict=True):
        inside.call("aten::append", list_, value)
    loop.end(inside.constant(True, BOOL), results)
    return [body.value("aten::stack", list_, zero) for list_ in lists]


def _set_grad_enabled(call: HigherOrderCall) -> list[Value]:
    name = WITH_GRAD if call.literal(0, "as_bool") else NO_GRAD
    return _in_context(call, name, [], 1, call.rest(2))


def _autocast(call: HigherOrderCall) -> list[Value]:
    types: tuple[Type, ...] = (STRING, OptionalType(INT), BOOL, OptionalType(BOOL))
    given = [
        argument_value(call.body, call.argument(position), call.values, type_)
        for position, type_ in enumerate(types)
    ]
    return _in_context(call, AUTOCAST, given, len(types), call.rest(len(types) + 1))


def _in_context(
    call: HigherOrderCall, name: str, arguments: list[Value], graph: int, given: list[Value]
) -> list[Value]:
    """Return the results of a graph that runs inside a context."""
    body, class_ = call.body, call.program.context_class(name)
    manager = body.append("prim::CreateObject", (), class_).output
    body.call_method(manager, "__init__", arguments)
    entered = class_.methods["__enter__"].schema.return_type
    body.append("prim::Enter", [manager], entered)
    results = call.inline(body, graph, given)
    body.append("prim::Exit", [manager])
    return results


def _plain(graph: int, first: int) -> Callable[[HigherOrderCall], list[Value]]:
    """Translate an operator that only calls its graph, with the arguments from ``first`` on."""

    def inline(call: HigherOrderCall) -> list[Value]:
        return call.inline(call.body, graph, call.rest(first))

    return inline


def _hints_wrapper(call: HigherOrderCall) -> list[Value]:
    if call.literal(2, "as_string_to_argument"):
        raise UnsupportedError("it has keyword arguments")
    return call.inline(call.body, 0, call.operands(1))


GRAPH_CALLS: Final[Mapping[str, Callable[[HigherOrderCall], list[Value]]]] = MappingProxyType(
    {
        "associative_scan": _associative_scan,
        "cond": _cond,
        "hints_wrapper": _hints_wrapper,
        "invoke_subgraph": _plain(0, 2),
        "map_impl": _map,
        "run_const_graph": _plain(0, 1),
        "scan": _scan,
        "strict_mode": _plain(0, 1),
        "tag_activation_checkpoint": _plain(0, 1),
        "while_loop": _while_loop,
        "wrap": _plain(0, 1),
        "wrap_with_autocast": _autocast,
        "wrap_with_set_grad_enabled": _set_grad_enabled,
    }
)
