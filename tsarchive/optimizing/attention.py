"""Attention that is written out, as one operator.

The operator gives zeros for a row that is masked completely, where the equations give NaN. So it
takes their place where no mask is, or one that is constant and leaves something of each row. A row
of scores that an infinite query makes -inf is like a masked one.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Block, Node, Value, walk
from tsarchive.ir.rewriting import remove, replace
from tsarchive.ir.types import TENSOR
from tsarchive.operators.effects import may_write

from .freezing import Written
from .graphs import Inserter, SizesOf, each_node, sweep, tensor_of

_PRODUCTS: Final = frozenset({"aten::matmul", "aten::bmm"})
_SCALES: Final = frozenset(
    f"aten::{name}.{overload}" for name in ("mul", "div") for overload in ("Scalar", "Tensor")
)
_AS_GOOD_AS_INFINITE: Final = -1e9
_HEADS: Final = 4


class _Scores(NamedTuple):
    """What softmax is given: ``query @ key``, where key has its sizes swapped, and what follows."""

    query: Value
    key: Value
    scale: float
    mask: Tensor | None


def fuse_attention(body: Block, graph: Block, shape_of: SizesOf, done: Counter[str]) -> None:
    """Put one operator in the place of the equations of attention, where sizes are known.

    ``body`` is the block of ``graph`` that they are looked for in. ``shape_of`` knows tensors of
    32-bit floating point on the CPU.
    """

    def visit(block: Block, node: Node) -> None:
        if node.kind in _PRODUCTS and _put(block, node, graph, shape_of):
            done["attention as one operator"] += 1

    each_node(body, visit)
    sweep(body)


def _put(block: Block, node: Node, graph: Block, shape_of: SizesOf) -> bool:
    softmax = node.input.node
    if not _is_softmax(softmax, shape_of) or softmax not in block.nodes:
        return False
    found = _scores(softmax.input, shape_of)
    if found is None or not _fit(found, node.inputs[1], shape_of) or _may_change(found, graph):
        return False
    inserter = Inserter(block, node)
    given = [found.query, _swapped(inserter, found.key), node.inputs[1]]
    first = inserter.constant(0)
    has_heads = len(shape_of(found.query) or ()) == _HEADS
    if not has_heads:
        given = [inserter.operator("aten::unsqueeze", [each, first]) for each in given]
    mask, is_causal = found.mask, _is_causal(found.mask)
    given.append(
        inserter.constant(None)
        if mask is None or is_causal
        else inserter.constant(TableConstant(mask), TENSOR)
    )
    given += map(inserter.constant, (0.0, is_causal, found.scale, False))
    made = inserter.operator("aten::scaled_dot_product_attention", given)
    if not has_heads:
        made = inserter.operator("aten::squeeze.dim", [made, first])
    made.name = node.output.name
    replace(node.output, made)
    remove(block, node)
    return True


def _is_softmax(node: Node, shape_of: SizesOf) -> bool:
    if node.operator != "aten::softmax.int" or len(node.output.uses) != 1:
        return False
    _, dim, dtype = node.inputs
    shape = shape_of(node.input)
    return shape is not None and dim.constant in (-1, len(shape) - 1) and dtype.constant is None


def _scores(value: Value, shape_of: SizesOf) -> _Scores | None:
    """Match a product of two tensors that is scaled and then masked."""
    shape = shape_of(value)
    if shape is None or len(value.uses) != 1:
        return None
    mask = _mask(value.node, shape)
    if mask is not None:
        value = value.node.input
    scale = 1.0
    while (factor := _factor(value.node)) is not None and len(value.uses) == 1:
        scale *= factor
        value = value.node.input
    node = value.node
    if node.kind not in _PRODUCTS or len(value.uses) != 1 or shape_of(value) != shape:
        return None
    return _Scores(node.input, node.inputs[1], scale, mask)


def _mask(node: Node, shape: tuple[int, ...]) -> Tensor | None:
    """Return what a node adds to scores, if it is a mask that leaves something of each row."""
    constant = tensor_of(node.inputs[1]) if len(node.inputs) > 1 else None
    if constant is None or len(shape) < 2 or constant.dim() < 2:
        return None
    if node.operator == "aten::masked_fill.Scalar" and constant.dtype is torch.bool:
        filled = node.inputs[2].constant
        if not isinstance(filled, int | float) or filled > _AS_GOOD_AS_INFINITE:
            return None
        added = torch.zeros(constant.shape).masked_fill(constant, -math.inf)
    elif node.operator == "aten::add.Tensor" and node.inputs[2].constant == 1:
        added = constant
    else:
        return None
    return _spread(added, shape)


def _spread(added: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """Return a mask with a row for each query; None where it leaves nothing of one."""
    if added.dtype is not torch.float32 or added.isnan().any():
        return None
    if added.shape[:-2].numel() != 1 or added.dim() > len(shape):
        return None
    full = added.reshape(added.shape[-2:]).expand(shape[-2:]).contiguous()
    return full if bool((full > _AS_GOOD_AS_INFINITE).any(-1).all()) else None


def _factor(node: Node) -> float | None:
    """Return the number that a node multiplies by."""
    if node.operator not in _SCALES:
        return None
    constant = tensor_of(node.inputs[1])
    number: Any = node.inputs[1].constant
    if constant is not None and constant.dim() == 0 and not constant.is_complex():
        number = constant.item()
    if type(number) not in (int, float) or not number or not math.isfinite(number):
        return None
    return 1 / number if node.kind == "aten::div" else float(number)


def _fit(scores: _Scores, value: Value, shape_of: SizesOf) -> bool:
    """Return whether the sizes are those of the operator, and nothing is spread."""
    found = [shape_of(each) for each in (scores.query, scores.key, value)]
    if any(shape is None or len(shape) not in (3, _HEADS) or 0 in shape for shape in found):
        return False
    query, key, own = (shape or () for shape in found)
    is_one_batch = query[:-2] == key[:-2] == own[:-2]
    return is_one_batch and query[-1] == key[-2] == own[-1] and key[-1] == own[-2]


def _may_change(scores: _Scores, graph: Block) -> bool:
    """Return whether code may write to what is read later than before, with the values."""
    writers = [node for node in walk(graph.nodes) if may_write(node)]
    written = Written(graph, writers) if writers else None
    return written is not None and any(map(written.may_be, (scores.query, scores.key)))


def _swapped(inserter: Inserter, key: Value) -> Value:
    """Return a tensor with its last two sizes swapped: that which was swapped before, if any."""
    node = key.node
    if node.operator == "aten::transpose.int":
        dims = {value.constant for value in node.inputs[1:]}
        if dims == {-1, -2}:
            return node.input
    return inserter.operator("aten::transpose.int", [key, *map(inserter.constant, (-2, -1))])


def _is_causal(mask: Tensor | None) -> bool:
    if mask is None or mask.size(0) != mask.size(1):
        return False
    above = torch.ones(mask.shape, dtype=torch.bool).triu(1)
    return bool(torch.equal(mask, torch.zeros(mask.shape).masked_fill(above, -math.inf)))
