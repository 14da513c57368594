"""Sizes that a trace computes with tensors, as numbers; equal sizes once.

A trace has ``int(torch.mul(NumToTensor(size), CONSTANTS.c1))`` where the code had ``size * 4``.
Sizes are not negative, so a division by a positive number that cuts off is one that rounds down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, Final

import torch

from tsarchive.ir.graph import Block, Node, Value, nested_blocks
from tsarchive.ir.types import BOOL, INT, STRING

from .freezing import Written
from .graphs import Inserter, each_node, remove, replace, sweep, tensor_of

_ARITHMETIC: Final = {
    "aten::add.Tensor": "aten::add.int", "aten::sub.Tensor": "aten::sub.int",
    "aten::mul.Tensor": "aten::mul.int", "aten::add.Scalar": "aten::add.int",
    "aten::sub.Scalar": "aten::sub.int", "aten::mul.Scalar": "aten::mul.int",
}  # fmt: skip
_DIVISIONS: Final = frozenset(
    {"aten::floor_divide", "aten::div.Tensor_mode", "aten::floor_divide.Scalar"}
)
_ONCE: Final = frozenset(
    {"aten::size.int", "aten::dim", "aten::floordiv.int", *_ARITHMETIC.values()}
)


def size_numbers(graph: Block, done: Counter[str]) -> None:
    """Compute sizes with numbers, and equal ones once."""

    def visit(block: Block, node: Node) -> None:
        if node.operator != "aten::Int.Tensor":
            return
        made = _number(node.input, Inserter(block, node))
        if made is not None:
            replace(node.output, made)
            remove(block, node)
            done["size as a number"] += 1

    each_node(graph, visit)
    sweep(graph)
    _share(graph, {}, Written(graph))
    sweep(graph)


def _number(value: Value, inserter: Inserter) -> Value | None:
    """Return the number in a tensor without dimensions that is computed from sizes."""
    if tensor_of(value) is not None:
        number = _constant_number(value)
        return None if number is None else inserter.constant(number)
    node = value.node
    if value.type == INT:
        return value
    if node.operator == "prim::NumToTensor.Scalar":
        return node.input if node.input.type == INT else None
    if node.operator in _DIVISIONS:
        return _quotient(node, inserter)
    name = _ARITHMETIC.get(node.operator)
    if name is None or any(extra.constant != 1 for extra in node.inputs[2:]):
        return None
    return _computed(name, node, inserter)


def _quotient(node: Node, inserter: Inserter) -> Value | None:
    if [extra.constant for extra in node.inputs[2:]] not in ([], ["trunc"], ["floor"]):
        return None
    divisor = _constant_number(node.inputs[1])
    if divisor is None or divisor <= 0 or not _is_size(node.inputs[0]):
        return None
    return _computed("aten::floordiv.int", node, inserter)


def _computed(name: str, node: Node, inserter: Inserter) -> Value | None:
    operands = [_number(value, inserter) for value in node.inputs[:2]]
    known = [operand for operand in operands if operand is not None]
    return inserter.operator(name, known) if len(known) == len(operands) else None


def _constant_number(value: Value) -> int | None:
    constant = tensor_of(value)
    found: Any = value.constant if constant is None else None
    if constant is not None and constant.dim() == 0 and constant.dtype is torch.int64:
        found = int(constant)
    return found if type(found) is int else None


def _is_size(value: Value) -> bool:
    """Return whether a tensor holds a size, or what is computed of sizes without a subtraction."""
    node = value.node
    if node.operator == "prim::NumToTensor.Scalar":
        return node.input.node.operator == "aten::size.int"
    if node.operator in _DIVISIONS:
        return _is_size(node.inputs[0])
    is_growing = node.operator in ("aten::mul.Tensor", "aten::add.Tensor")
    return is_growing and all(
        (_constant_number(each) or -1) >= 0 or _is_size(each) for each in node.inputs[:2]
    )


def _share(block: Block, known: dict[Hashable, Value], written: Written) -> None:
    """Let equal numbers be one value, in a block and in those that follow from it."""
    for node in list(block.nodes):
        if node.operator in _ONCE and not any(map(_may_change(written), node.inputs)):
            key = node.operator, *map(_key, node.inputs)
            found = known.setdefault(key, node.output)
            if found is not node.output:
                replace(node.output, found)
                remove(block, node)
        for inner in nested_blocks(node):
            _share(inner, dict(known), written)


def _may_change(written: Written) -> Any:
    return lambda value: value.type not in (INT, BOOL, STRING) and written.may_be(value)


def _key(value: Value) -> Hashable:
    constant = value.constant
    return ("constant", constant) if type(constant) is int else value
