"""Where functions and values are used: called functions, used items of results, last uses.

After the last use of a tensor its memory can be freed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.types import ANY, TENSOR, TupleType, Type

Wanted = frozenset[int] | None
"""Which items of the tuple that a function returns are used; None stands for all of the result."""

NOTHING: Final[Wanted] = frozenset()
CALLS: Final = frozenset({"prim::CallFunction", "prim::CallMethod"})


def called_function(node: Node) -> Function | None:
    """The archive function that a call reaches; None for interfaces, native classes, no call."""
    if node.kind not in CALLS:
        return None
    type_ = node.input.type
    if node.kind == "prim::CallFunction":
        return type_.function if isinstance(type_, FunctionType) else None
    if isinstance(type_, ClassType) and not type_.is_native:
        return type_.methods.get(node.name)
    return None


def wanted_of_call(call: Node, live: Container[Value]) -> Wanted:
    """The items of the result of a call that the code around it uses."""
    result = call.output
    if result not in live:
        return NOTHING
    if not isinstance(result.type, TupleType):
        return None
    found: set[int] = set()
    for user, _ in result.uses:
        if user.kind == "prim::TupleUnpack":
            found.update(index for index, item in enumerate(user.outputs) if item in live)
        elif user.kind == "prim::TupleIndex" and user.inputs[1].node.is_constant:
            found.add(user.inputs[1].node.attributes["value"] % len(result.type.elements))
        else:
            return None
    return frozenset(found) if len(found) < len(result.type.elements) else None


def wanted_values(graph: Block, wanted: Wanted) -> Sequence[Value]:
    """The values behind the wanted part of the result."""
    if wanted is None:
        return graph.returns
    if not wanted:
        return ()
    (result,) = graph.returns
    # A tuple that is made for the result alone.
    is_made = result.node.kind == "prim::TupleConstruct" and len(result.uses) == 1
    return [result.node.inputs[index] for index in wanted] if is_made else graph.returns


ALIASES = frozenset(
    {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "prim::Uninitialized"}
)
"""Nodes whose result is their operand under another static type, or nothing at all."""

_OWNED_ELSEWHERE = ALIASES | {"prim::Constant", "prim::GetAttr"}


def all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """``nodes`` with what is in their blocks, the return nodes of those included."""
    for node in nodes:
        yield node
        for block in node.blocks:
            yield from all_nodes(block.nodes)
            yield block.return_node


def last_uses(
    nodes: Sequence[Node], live: Container[Node], given: Iterable[Value] = ()
) -> dict[Node, list[Value]]:
    """For each of ``nodes``, which run in sequence, the values that it uses last.

    Those that they are ``given`` may end as well. Values that something outside of ``nodes`` uses
    do not end.
    """
    running = [node for node in nodes if node in live]
    ends: dict[Value, Node] = {v: v.node for v in given if holds_memory(v.type)}
    for node in running:
        for value in node.outputs:
            if node.kind not in _OWNED_ELSEWHERE and holds_memory(value.type):
                ends[value] = node
        for inner in all_nodes([node]):
            for value in map(_origin, inner.inputs):
                if value in ends:
                    ends[value] = node
    inside = set(all_nodes(nodes))
    found: defaultdict[Node, list[Value]] = defaultdict(list)
    for value, node in ends.items():
        if not _escapes(value, inside):
            found[node].append(value)
    return found


def _origin(value: Value) -> Value:
    """The value that an alias stands for."""
    while value.node.kind in ALIASES and value.node.inputs:
        value = value.node.input
    return value


def _escapes(value: Value, inside: Container[Node]) -> bool:
    return any(
        user not in inside
        or (user.kind in ALIASES and any(_escapes(output, inside) for output in user.outputs))
        for user, _ in value.uses
    )


def holds_memory(type_: Type) -> bool:
    """Return whether values of this type may hold tensors; objects keep theirs in any case."""
    if isinstance(type_, ClassType):
        return False
    return type_ in (TENSOR, ANY) or any(map(holds_memory, type_.parts()))
