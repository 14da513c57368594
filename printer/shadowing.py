"""Builtins that local names of a function would shadow.

torch takes ``range`` or ``torch`` for the name of a value like any other, and then writes ``for i
in range(n)`` or ``torch.mul(x, y)`` in the scope of that value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node, Value, must_be_none, nested_blocks
from tsarchive.ir.names import to_identifier
from tsarchive.ir.values import Device, GeneratorSeed, TableConstant

from .literals import can_be_inferred

_BY_KIND = {
    "aten::Bool": "bool",
    "aten::Float": "float",
    "aten::FloatImplicit": "annotate",
    "aten::Int": "int",
    "aten::IntImplicit": "annotate",
    "aten::ScalarImplicit": "annotate",
    "aten::sorted": "sorted",
    "aten::str": "str",
    "prim::ConstantMKLDNNTensor": "torch",
    "prim::Loop": "range",
    "prim::Print": "print",
    "prim::Uninitialized": "uninitialized",
    "prim::awaitable": "awaitable",
    "prim::fork": "fork",
    "prim::isinstance": "isinstance",
    "prim::tolist": "annotate",
    "prim::unchecked_cast": "unchecked_cast",
    "prim::unchecked_unwrap_optional": "unchecked_cast",
}

_BUILTINS = frozenset({*_BY_KIND.values(), "CONSTANTS", "ops", "torch"})
_WITHOUT_NAME = frozenset({"aten::__getitem__", "prim::EnumName", "prim::EnumValue"})


def shadowed_builtins(function: Function, own_name: str | None) -> set[str]:
    """Return the builtins used by the body in the scope of a value of that name or ``own_name``."""
    in_sight = {to_identifier(argument.name) for argument in function.schema.arguments}
    if own_name is not None:
        in_sight.add(own_name)
    if _BUILTINS.isdisjoint(in_sight) and not _names_a_builtin(function.graph):
        return set()  # nearly every function
    return set(_shadowed(function.graph, in_sight))


def _names_a_builtin(block: Block) -> bool:
    return any(
        any(value.name in _BUILTINS for value in node.outputs)
        or any(_names_a_builtin(inner) for inner in nested_blocks(node))
        for node in (block.param_node, *block.nodes)
    )


def _shadowed(block: Block, outer: set[str]) -> Iterator[str]:
    in_sight = set(outer)
    for node in (*block.nodes, block.return_node):
        if node.is_constant:
            continue
        if node.kind == "prim::Loop":  # loop-carried values are assigned before its first line
            in_sight |= _names(node.outputs)
        yield from in_sight.intersection(_needed(node))
        for inner in nested_blocks(node):
            yield from _shadowed(inner, in_sight | _names(inner.params))
        in_sight |= _names(node.outputs)


def _names(values: Iterable[Value]) -> set[str]:
    return {to_identifier(value.name) for value in values if value.name is not None}


def _needed(node: Node) -> Iterator[str]:
    """Yield the builtins in the text of a node and of the constants that it uses."""
    if node.kind in _BY_KIND:
        yield _BY_KIND[node.kind]
    elif node.kind == "prim::ListConstruct" or node.kind == "prim::DictConstruct":
        if not (node.inputs and all(map(can_be_inferred, node.output.type.parts()))):
            yield "annotate"
    elif node.schema is not None and node.kind not in _WITHOUT_NAME:
        yield "torch" if node.kind.startswith("aten::") else "ops"
    if node.kind == "aten::_unwrap_optional" and must_be_none(node.input):
        yield "annotate"
    for value in node.inputs:
        if value.node.is_constant:
            yield from _needed_by_constant(value.node.attributes["value"])


def _needed_by_constant(value: Any) -> Iterator[str]:
    match value:
        case TableConstant():
            yield from ("CONSTANTS", "torch")
        case Device() | GeneratorSeed():
            yield "torch"
        case list() | dict():
            yield "annotate"
            for item in value:
                yield from _needed_by_constant(item)
        case tuple():
            for item in value:
                yield from _needed_by_constant(item)
