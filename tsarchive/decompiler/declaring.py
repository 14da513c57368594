"""Types of local variables, where the first value of one does not tell it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType

from .syntax import OBJECTS, reference_of


def declare(
    statements: list[ast.stmt],
    types: Mapping[str, ast.expr],
    mixed: Container[str],
    known: Iterable[str],
    ignored: Callable[[str], ast.stmt],
    attributes: Mapping[str, ast.expr] = MappingProxyType({}),
) -> None:
    """Annotate first assignments of empty containers, of None, and of what ``tolist`` gives.

    torch.jit takes ``[]`` for a list of tensors, and type checkers ask what it is. ``types`` has
    the annotations of variables, and ``attributes`` those of attributes of ``self``. Those that are
    ``mixed`` are annotated whatever they begin with, unless another branch assigns None: both take
    that for a variable that may be None. Those that are ``known`` are not: the parameters.
    ``ignored`` gives what stands before a line with an error that mypy finds in it and that is
    none.
    """
    _Declaring(types, mixed, known, ignored, attributes).block(statements)


class _Declaring:
    """Goes through a function in the order of its text."""

    def __init__(
        self,
        types: Mapping[str, ast.expr],
        mixed: Container[str],
        known: Iterable[str],
        ignored: Callable[[str], ast.stmt],
        attributes: Mapping[str, ast.expr],
    ) -> None:
        self._types = types
        self._mixed = mixed
        self._known = {*known}
        self._ignored = ignored
        self._attributes = {**attributes}

    def block(self, statements: list[ast.stmt]) -> None:
        body, statements[:] = [*statements], []
        for statement in body:
            if isinstance(statement, ast.If):
                self._known |= _optional_by_branches(statement)
            declared = self._declared(statement)
            if _is_number_of_tensor(declared) or _is_chosen_module(declared):
                statements.append(self._ignored("assignment"))
            statements.append(declared)
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
        case ast.Call(function):
            reference = reference_of(function)
            return reference is not None and (reference.home, reference.name) == _NEVER
    return False


def _is_number_of_tensor(statement: ast.stmt) -> bool:
    """Return whether ``tolist`` gives a number, which torch declares a list."""
    match statement:
        case ast.AnnAssign(_, annotation, ast.Call(ast.Attribute(_, "tolist"))):
            return not isinstance(annotation, ast.Subscript)
    return False


def _is_chosen_module(statement: ast.stmt) -> bool:
    """Return whether a module out of a container gets the type of an interface."""
    match statement:
        case ast.AnnAssign(_, _, ast.Subscript(ast.Attribute(_, "_modules"))):
            return True
    return False


_NEVER = (OBJECTS, "missing")
"""The function that never returns."""


def _optional_by_branches(statement: ast.If) -> set[str]:
    """Return the variables that one branch assigns something to, and the other then None."""
    first, second = statement.body, statement.orelse
    if len(second) == 1 and isinstance(second[0], ast.If):
        return set()
    absent = {name for name, value in _assignments(second) if _is_none(value)}
    return {name for name, value in _assignments(first) if not _is_none(value)} & absent


def _assignments(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in statements:
        match statement:
            case ast.Assign([ast.Name(name)], value):
                yield name, value


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


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
