"""Images with the channels of a pixel side by side, which kernels read without reordering them.

A convolution whose weight is in this order gives its result in it, and what follows keeps it. Code
that asks for the order of numbers in memory, or is random in that order, stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Block, Node, Value, walk
from tsarchive.ir.rewriting import blocks_in, set_input
from tsarchive.ir.types import TENSOR

from .freezing import Written, is_seeded
from .graphs import Inserter, each_node, tensor_of
from .layers import Tensors, memory_of

_CONVOLUTIONS: Final = frozenset({"aten::conv2d", "aten::conv_transpose2d", "aten::_convolution"})
_CONTAINERS: Final = frozenset({"prim::TupleConstruct", "prim::ListConstruct"})
_ON_MEMORY: Final = frozenset(
    {
        "aten::as_strided", "aten::as_strided_", "aten::is_contiguous", "aten::resize_",
        "aten::resize_as_", "aten::set_", "aten::storage_offset", "aten::stride",
        "aten::view_as", "aten::view_as_complex", "aten::view_as_real",
    }
)  # fmt: skip


def put_channels_last(graph: Block, done: Counter[str], known: Tensors) -> bool:
    """Let convolutions work on images with their channels last; false where the code sees it."""
    weights = [(node, _image_weight(node)) for node in walk(graph.nodes)]
    found = [(node, weight) for node, weight in weights if weight is not None]
    if not found or not is_blind(graph) or any(map(_keeps_order, walk(graph.nodes))):
        return False
    for node, weight in found:
        block = next(block for block in blocks_in(graph) if node in block.nodes)
        key = "channels last", memory_of(weight)
        if key not in known:
            known[key] = weight.to(memory_format=torch.channels_last)
        set_input(node, 1, Inserter(block, node).constant(TableConstant(known[key]), TENSOR))
        done["convolution with its channels last"] += 1
    loosen_views(graph)
    return True


def keep_order(graph: Block) -> None:
    """Return tensors with their numbers in the usual order, whatever layers made them."""
    for block, value, user, offset in list(_results(graph, graph.return_node)):
        inserter = Inserter(block, user)
        plain = inserter.operator("aten::contiguous", [value, inserter.constant(0)])
        set_input(user, offset, plain)


def _image_weight(node: Node) -> Tensor | None:
    weight = tensor_of(node.inputs[1]) if node.kind in _CONVOLUTIONS else None
    is_image = weight is not None and weight.dim() == 4 and weight.is_floating_point()
    return weight if is_image else None


def is_blind(graph: Block) -> bool:
    """Return whether images may have any order in memory once views are loosened."""
    written = Written(graph)
    for node in walk(graph.nodes):
        is_ordered = node.kind == "aten::as_strided" and node.input.node.kind == "aten::contiguous"
        if node.kind in _ON_MEMORY and not is_ordered:
            return False
        if node.kind == "aten::view" and any(map(written.may_be, (node.input, node.output))):
            return False
    return True


def loosen_views(graph: Block) -> None:
    """Let views be made of tensors in any order."""
    each_node(graph, _reshape)


def _keeps_order(node: Node) -> bool:
    """Return whether a node takes random numbers in the order of memory, or keeps a tensor."""
    return is_seeded(node) or node.kind == "prim::SetAttr"


def _reshape(block: Block, node: Node) -> None:
    if node.operator != "aten::view":
        return
    made = Inserter(block, node).operator("aten::reshape", node.inputs)
    node.kind, node.schema = made.node.kind, made.node.schema
    made.node.drop_inputs()
    block.nodes.remove(made.node)


def _results(graph: Block, user: Node) -> Iterator[tuple[Block, Value, Node, int]]:
    """Yield the tensors that are returned, each with who uses it, and the block of that."""
    for offset, value in enumerate(user.inputs):
        yield from _within(graph, value, user, offset)


def _within(
    block: Block, value: Value, user: Node, offset: int
) -> Iterator[tuple[Block, Value, Node, int]]:
    if value.node not in block.nodes:
        return
    if value.node.kind == "prim::If":
        place = value.node.outputs.index(value)
        for branch in value.node.blocks:
            yield from _within(branch, branch.returns[place], branch.return_node, place)
    elif value.type == TENSOR:
        yield block, value, user, offset
    elif value.node.kind in _CONTAINERS:
        yield from _results(block, value.node)


def have_one_order(expected: Any, given: Any) -> bool:
    """Return whether the tensors of two results have their numbers in the same order."""
    if isinstance(expected, Tensor):
        return expected.layout is not torch.strided or _steps(expected) == _steps(given)
    if isinstance(expected, dict):
        return all(have_one_order(expected[key], given[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return all(map(have_one_order, expected, given))
    return True


def _steps(tensor: Tensor) -> list[int]:
    """Return how far apart neighbours are in each direction that has some."""
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
