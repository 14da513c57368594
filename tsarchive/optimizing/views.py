"""Chains of views as one, where sizes are known.

What a chain comes to is asked of torch itself, of tensors without memory. A copy into the usual
order in a chain is left out where the views behind it do not need it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.rewriting import set_input
from tsarchive.run.operators import implementation

from .freezing import Written, value_of
from .graphs import Inserter, SizesOf, each_node, sweep

_VIEWS: Final = frozenset(
    f"aten::{name}"
    for name in (
        "contiguous", "flatten.using_ints", "permute", "reshape", "select.int", "squeeze",
        "squeeze.dim", "transpose.int", "unflatten.int", "unsqueeze", "view",
    )
)  # fmt: skip
_ORDERED: Final = frozenset({"aten::addmm", "aten::contiguous", "aten::linear"})
_COPIES: Final = frozenset({"aten::contiguous", "aten::reshape", "aten::flatten"})
# Numbers of these do not depend on the order of their operands, nor can code see it.
_TAKES_ANY_ORDER: Final = frozenset(
    {"aten::bmm", "aten::linear", "aten::matmul", "aten::scaled_dot_product_attention"}
)
_FEWEST: Final = 4
_FAULTS: Final = (IndexError, RuntimeError, TypeError, ValueError)


def join_views(graph: Block, sizes_of: SizesOf, done: Counter[str]) -> None:
    """Make one view of several in a row, of what layers give in the usual order."""
    written = Written(graph)
    ordered: dict[Value, Value] = {}

    def visit(block: Block, node: Node) -> None:
        if (
            node.operator in _VIEWS
            and _is_last(node)
            and _put(block, node, sizes_of, written, ordered)
        ):
            done["views as one"] += 1

    each_node(graph, visit)
    sweep(graph)


def _is_last(node: Node) -> bool:
    return any(use.user.operator not in _VIEWS for use in node.output.uses)


def _put(
    block: Block, node: Node, sizes_of: SizesOf, written: Written, ordered: dict[Value, Value]
) -> bool:
    """Let those that take the last view of a chain take one view; false where it differs."""
    chain = _chain(block, node)
    base, sizes = chain[0].input, sizes_of(chain[0].input)
    uses = [use for use in node.output.uses if use.user.operator not in _VIEWS]
    if len(chain) < _FEWEST or base.node.kind not in _ORDERED or sizes is None:
        return False
    if any(written.may_be(value) for value in (base, *(each.output for each in chain))):
        return False
    has_copy = any(each.kind in _COPIES for each in chain)
    if has_copy and not all(use.user.kind in _TAKES_ANY_ORDER for use in uses):
        return False
    found = _followed(chain, torch.empty(sizes, device="meta"))
    if found is None or tuple(found.shape) != sizes_of(node.output):
        return False
    inserter = Inserter(block, node)
    if base not in ordered or ordered[base].node not in block.nodes:
        ordered[base] = inserter.operator("aten::contiguous", [base, inserter.constant(0)])
    made = _as_view(inserter, ordered[base], found)
    made.name = node.output.name
    for user, place in uses:
        set_input(user, place, made)
    return True


def _chain(block: Block, last: Node) -> list[Node]:
    """Return the views in a block that lead to one of them, which ends them."""
    chain = [last]
    while chain[0].input.node.operator in _VIEWS and chain[0].input.node in block.nodes:
        chain.insert(0, chain[0].input.node)
    return chain


def _as_view(inserter: Inserter, base: Value, like: Tensor) -> Value:
    """Return a view of a value with the sizes, strides and offset of a tensor."""
    lists = [inserter.list_of(list(numbers)) for numbers in (like.shape, like.stride())]
    offset = inserter.constant(int(like.storage_offset()))
    return inserter.operator("aten::as_strided", [base, *lists, offset])


def _followed(chain: list[Node], tensor: Tensor) -> Tensor | None:
    """Return what a chain makes of a tensor, without copies; None where it needs one."""
    for node in chain:
        if node.kind == "aten::contiguous":
            continue
        try:
            tensor = _viewed(node, tensor)
        except _FAULTS:
            return None
    return tensor


def _viewed(node: Node, tensor: Tensor) -> Tensor:
    assert node.schema is not None
    if node.kind == "aten::reshape":
        return tensor.view(_value(node.inputs[1]))
    given = [_value(value) for value in node.inputs[1:]]
    made: Tensor = implementation(node.schema)(tensor, *given)
    if made._base is None and made is not tensor:
        raise ValueError("a copy")
    return made


def _value(value: Value) -> Any:
    found = value_of(value)
    items = found if isinstance(found, list) else [found]
    if not all(type(item) is int for item in items):
        raise ValueError("not known")
    return found
