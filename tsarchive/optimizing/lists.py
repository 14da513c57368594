"""Lists that code fills item by item, made at once where they are read."""

from __future__ import annotations

from typing import Final

from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.rewriting import remove, replace, set_input

from .graphs import Inserter, each_node

_ITEM: Final = "aten::__getitem__"
_UNPACK: Final = "prim::ListUnpack"
_APPEND: Final = "aten::append"
_READS: Final = frozenset(
    f"aten::{name}"
    for name in ("__contains__", "__getitem__", "all", "any", "cat", "hstack", "len", "stack")
)


def gather_lists(graph: Block) -> None:
    """Let a list that is filled and read in one block be a new one for each reader.

    Items that are read at a known place stand for themselves.
    """
    each_node(graph, _gather)
    each_node(graph, _take_item)


def _gather(block: Block, node: Node) -> None:
    if node.kind != "prim::ListConstruct" or not node.output.uses:
        return
    users = {use.user for use in node.output.uses}
    if not any(user.kind == _APPEND for user in users):
        return
    if not all(user in block.nodes and _is_known(user, node.output) for user in users):
        return
    items = list(node.inputs)
    for user in [each for each in block.nodes if each in users]:
        if user.kind == _APPEND:
            items.append(user.inputs[1])
            remove(block, user)
            continue
        made = Inserter(block, user).node("prim::ListConstruct", items, node.output.type)
        set_input(user, 0, made)
    remove(block, node)


def _is_known(user: Node, made: Value) -> bool:
    """Return whether a user fills a list, or reads it and keeps nothing of it."""
    if user.inputs[0] is not made or made in user.inputs[1:]:
        return False
    if user.kind == _APPEND:
        return not user.outputs or not user.output.uses
    return user.kind == _UNPACK or (user.kind in _READS and user.schema is not None)


def _take_item(block: Block, node: Node) -> None:
    """Let items of a list that nobody changes stand for themselves."""
    if node.kind not in (_ITEM, _UNPACK) or not _is_constant(node.input):
        return
    items, place = node.input.node.inputs, node.inputs[-1].constant
    if node.kind == _UNPACK and len(items) == len(node.outputs):
        for output, item in zip(node.outputs, items, strict=True):
            replace(output, item)
        remove(block, node)
    elif node.kind == _ITEM and type(place) is int and -len(items) <= place < len(items):
        replace(node.output, items[place])
        remove(block, node)


def _is_constant(made: Value) -> bool:
    """Return whether a value is a list that all who have it read."""
    is_list = made.node.kind == "prim::ListConstruct"
    return is_list and all(use.user.kind in (*_READS, _UNPACK) for use in made.uses)
