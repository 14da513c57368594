"""Types of local variables, where the first value of one does not tell it."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping, MutableSequence
from types import MappingProxyType


def declare(
    statements: MutableSequence[ast.stmt],
    types: Mapping[str, ast.expr],
    mixed: Container[str],
    known: Iterable[str],
    attributes: Mapping[str, ast.expr] = MappingProxyType({}),
) -> None:
    """Annotate first assignments of empty containers, of None, and of what ``tolist`` gives.

    torch.jit takes ``[]`` for a list of tensors, and type checkers ask what it is. ``types`` has
    the annotations of variables, and ``attributes`` those of attributes of ``self``. Those that are
    ``mixed`` are annotated whatever they begin with, and those that are ``known`` are not: the
    parameters.
    """
    _Declaring(types, mixed, known, attributes).block(statements)


class _Declaring:
    """Goes through a function in the order of its text."""

    def __init__(
        self,
        types: Mapping[str, ast.expr],
        mixed: Container[str],
        known: Iterable[str],
        attributes: Mapping[str, ast.expr],
    ) -> None:
        self._types = types
        self._mixed = mixed
        self._known = {*known}
        self._attributes = {**attributes}

    def block(self, statements: MutableSequence[ast.stmt]) -> None:
        for place, statement in enumerate(statements):
            statements[place] = self._declared(statement)
            self._known |= {name for part in _own_parts(statement) for name in _stored(part)}
            for inner in blocks_of(statement):
                self.block(inner)

    def _declared(self, statement: ast.stmt) -> ast.stmt:
        match statement:
            case ast.Assign([ast.Name(name) as target], value):
                type_ = self._types.get(name)
                is_open = name in self._mixed or _is_vague(value, type_)
                if is_open and type_ is not None and name not in self._known:
                    return ast.AnnAssign(target, type_, value, 1)
            case ast.Assign([ast.Attribute(ast.Name("self"), name) as target], value):
                type_ = self._attributes.pop(name, None)
                if type_ is not None and _is_vague(value, type_):
                    return ast.AnnAssign(target, type_, value, 0)
        return statement


def _is_vague(value: ast.expr, type_: ast.expr | None) -> bool:
    """Return whether a value does not tell a type: items do not tell one that has alternatives."""
    match value:
        case ast.List([]) | ast.Dict([]) | ast.Constant(None):
            return True
        case ast.List() | ast.Dict() if isinstance(type_, ast.Subscript):
            return any(isinstance(part, ast.BitOr) for part in ast.walk(type_.slice))
        case ast.Call(ast.Attribute(_, "tolist")):
            return True
    return False


def blocks_of(statement: ast.stmt) -> Iterable[list[ast.stmt]]:
    """Yield the blocks of statements in a statement."""
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
