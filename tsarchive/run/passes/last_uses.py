"""Finds the last uses of tensors, after which their memory can be freed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Node, Value
from tsarchive.ir.types import ANY, TENSOR, Type

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
    """Whether values of this type may hold tensors; objects keep theirs in any case."""
    if isinstance(type_, ClassType):
        return False
    return type_ in (TENSOR, ANY) or any(map(holds_memory, type_.parts()))
