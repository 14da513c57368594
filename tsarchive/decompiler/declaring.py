"""Types of local variables, where the first value of one does not tell it."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping, MutableSequence


def declare(
    statements: MutableSequence[ast.stmt],
    types: Mapping[str, ast.expr],
    mixed: Container[str],
    known: Iterable[str],
) -> None:
    """Annotate first assignments of empty containers, of None, and of what ``tolist`` gives.

    torch.jit takes ``[]`` for a list of tensors, and type checkers ask what it is. ``types`` has
    the annotations of variables. Those that are ``mixed`` are annotated whatever they begin with,
    and those that are ``known`` are not: the parameters.
    """
    _Declaring(types, mixed, known).block(statements)


class _Declaring:
    """Goes through a function in the order of its text."""

    def __init__(
        self, types: Mapping[str, ast.expr], mixed: Container[str], known: Iterable[str]
    ) -> None:
        self._types = types
        self._mixed = mixed
        self._known = {*known}

    def block(self, statements: MutableSequence[ast.stmt]) -> None:
        for place, statement in enumerate(statements):
            statements[place] = self._declared(statement)
            self._known |= {name for part in _own_parts(statement) for name in _stored(part)}
            for inner in _blocks(statement):
                self.block(inner)

    def _declared(self, statement: ast.stmt) -> ast.stmt:
        match statement:
            case ast.Assign([ast.Name(name) as target], value):
                is_open = name in self._mixed or _is_vague(value)
                if is_open and name in self._types and name not in self._known:
                    return ast.AnnAssign(target, self._types[name], value, 1)
        return statement


def _is_vague(value: ast.expr) -> bool:
    match value:
        case ast.List([]) | ast.Dict([]) | ast.Constant(None):
            return True
        case ast.Call(ast.Attribute(_, "tolist")):
            return True
    return False


def _blocks(statement: ast.stmt) -> Iterable[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _own_parts(statement: ast.stmt) -> Iterable[ast.AST]:
    """Yield the parts of a statement that are no statements."""
    for part in ast.iter_child_nodes(statement):
        if not isinstance(part, ast.stmt | ast.ExceptHandler):
            yield part


def _stored(part: ast.AST) -> Iterable[str]:
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
