"""Tensor subscripts: ``x[:, 0]`` in the place of chains of select and slice."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tsarchive.ir.graph import MAX_TRIP_COUNT, Node, Value, must_be_none
from tsarchive.ir.schema import FunctionSchema

from . import syntax

_MOST_DIMENSIONS = 8
_END = MAX_TRIP_COUNT
_KINDS = frozenset(
    {"aten::select.int", "aten::slice.Tensor", "aten::index.Tensor", "aten::slice.t"}
)
_MARK = "tensor_items"


def is_index(schema: FunctionSchema) -> bool:
    return schema.full_name in _KINDS


def indexed(node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
    """The subscript for a node, None where it has no such form."""
    assert node.schema is not None
    match node.schema.full_name:
        case "aten::slice.t":
            bounds = _slice(node.inputs[1:], arguments[1:])
            return None if bounds is None else syntax.subscript(arguments[0], bounds)
        case "aten::select.int":
            return _extended(arguments[0], _dimension(node.inputs[1]), arguments[2])
        case "aten::slice.Tensor":
            bounds = _slice(node.inputs[2:], arguments[2:])
            if bounds is None:
                return None
            return _extended(arguments[0], _dimension(node.inputs[1]), bounds)
    return _by_tensors(node, arguments)


def _dimension(value: Value) -> int | None:
    if not value.node.is_constant:
        return None
    number: int = value.node.attributes["value"]
    return number if 0 <= number < _MOST_DIMENSIONS else None


def _slice(values: Sequence[Value], bounds: Sequence[ast.expr]) -> ast.Slice | None:
    start, end, step = values
    shown_step = None
    if not _is_constant(step, 1):
        if not step.node.is_constant or step.node.attributes["value"] < 1:
            return None
        shown_step = bounds[2]
    return ast.Slice(
        None if _is_constant(start, 0) or must_be_none(start) else bounds[0],
        None if _is_constant(end, _END) or must_be_none(end) else bounds[1],
        shown_step,
    )


def _is_constant(value: Value, number: int) -> bool:
    return value.node.is_constant and value.node.attributes["value"] == number


def _extended(base: ast.expr, dimension: int | None, item: ast.expr) -> ast.expr | None:
    """``base[..., item]`` at ``dimension``, joined with a subscript that ``base`` ends in."""
    if dimension is None:
        return None
    items: list[ast.expr] = list(getattr(base, _MARK, ()))
    kept = sum(isinstance(known, ast.Slice) for known in items)
    if items and isinstance(base, ast.Subscript) and dimension >= kept:
        base = base.value
        dimension -= kept
    else:
        items = []
    items += [ast.Slice()] * dimension
    items.append(item)
    index = items[0] if len(items) == 1 else ast.Tuple(items, ast.Load())
    made = syntax.subscript(base, index)
    setattr(made, _MARK, tuple(items))
    return made


def _by_tensors(node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
    """``x[:, i]`` for tensors side by side; a gap between them would change the result's order."""
    made = node.inputs[1].node
    if made.kind != "prim::ListConstruct" or not made.inputs:
        return None
    match arguments[1]:
        case ast.List(shown):
            given = [not must_be_none(value) for value in made.inputs]
        case _:
            return None
    first = given.index(True) if True in given else len(given)
    last = len(given) - given[::-1].index(True) if True in given else 0
    if first >= last or not all(given[first:last]) or (last - first > 1 and first > 0):
        return None
    items: list[ast.expr] = [
        item if is_given else ast.Slice() for item, is_given in zip(shown, given, strict=True)
    ][:last]
    index = items[0] if len(items) == 1 else ast.Tuple(items, ast.Load())
    return syntax.subscript(arguments[0], index)
