"""Branches as expressions: ``a and b``, ``a or b``, ``x if condition else y``."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from tsarchive.ir.graph import Value
from tsarchive.ir.types import BOOL

_KEY = re.compile(r"@[\w.:]*")
_LONGEST = 60
_LONGEST_NAMED = 40
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def negated(condition: ast.expr) -> ast.expr:
    match condition:
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Compare(left, [sign], [right]) if type(sign) in _OPPOSITE:
            return ast.Compare(left, [_OPPOSITE[type(sign)]()], [right])
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
    return ast.UnaryOp(ast.Not(), condition)


def as_expression(
    result: Value,
    condition: ast.expr,
    branches: Sequence[tuple[list[ast.stmt], list[ast.expr]]],
    target: str,
) -> ast.expr | None:
    """The expression for an if whose branches only compute ``result``; None for statements."""
    if any(statements for statements, _ in branches):
        return None
    (then,), (other,) = (values for _, values in branches)
    if result.type == BOOL:
        found = _boolean(condition, then, other)
        if found is not None:
            return found
    limit = _LONGEST if result.name is None else _LONGEST_NAMED
    if any(isinstance(value, ast.Name) and value.id == target for value in (then, other)):
        return None
    if _length(then) > limit or _length(other) > limit:
        return None
    return ast.IfExp(condition, then, other)


def _length(node: ast.expr) -> int:
    """The length of the text, with the names of globals and not their keys."""
    return len(_KEY.sub("", ast.unparse(node)))


def _boolean(condition: ast.expr, then: ast.expr, other: ast.expr) -> ast.expr | None:
    match then, other:
        case ast.Constant(True), ast.Constant(False):
            return condition
        case ast.Constant(False), ast.Constant(True):
            return negated(condition)
        case _, ast.Constant(False):
            return _joined(ast.And, condition, then)
        case ast.Constant(True), _:
            return _joined(ast.Or, condition, other)
        case ast.Constant(False), _:
            return _joined(ast.And, negated(condition), other)
        case _, ast.Constant(True):
            return _joined(ast.Or, negated(condition), then)
    return None


def _joined(kind: type[ast.boolop], first: ast.expr, second: ast.expr) -> ast.expr:
    parts: list[ast.expr] = []
    for part in (first, second):
        is_same = isinstance(part, ast.BoolOp) and type(part.op) is kind
        parts += part.values if is_same and isinstance(part, ast.BoolOp) else [part]
    return ast.BoolOp(kind(), parts)
