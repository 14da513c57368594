"""Assignments at the ends of blocks, and whether such an end is reached."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from . import syntax


def move(targets: Sequence[str], values: Sequence[ast.expr]) -> ast.stmt | None:
    """Assign in parallel, leaving out what is in place already."""
    pairs = [
        (name, value)
        for name, value in zip(targets, values, strict=True)
        if not (isinstance(value, ast.Name) and value.id == name)
    ]
    if not pairs:
        return None
    names, shown = zip(*pairs, strict=True)
    if len(names) == 1:
        return syntax.assign(names, shown[0])
    return syntax.assign(names, ast.Tuple(list(shown), ast.Load()))


def separated(moved: ast.stmt) -> list[ast.stmt]:
    """One statement for each target, where none of them is read after its assignment."""
    match moved:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            later = [set().union(*map(names_in, values[i + 1 :])) for i in range(len(values))]
            if not any(name in behind for name, behind in zip(names, later, strict=True)):
                return [syntax.assign([n], v) for n, v in zip(names, values, strict=True)]
    return [moved]


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def ends(body: Sequence[ast.stmt]) -> bool:
    """Whether control never leaves this code at its end."""
    match body[-1] if body else None:
        case ast.Raise() | ast.Return():
            return True
        case ast.If(_, inner, other):
            return ends(inner) and ends(other)
    return False
