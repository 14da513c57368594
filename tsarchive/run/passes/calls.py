"""Calls between functions of an archive: which function a call reaches, and what it needs of it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.types import TupleType

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
    made = _returned_tuple(graph)
    return graph.returns if made is None else [made.inputs[index] for index in wanted]


def _returned_tuple(graph: Block) -> Node | None:
    """The node that makes the result, where it is a tuple made for that alone."""
    (result,) = graph.returns
    is_made = result.node.kind == "prim::TupleConstruct" and len(result.uses) == 1
    return result.node if is_made else None
