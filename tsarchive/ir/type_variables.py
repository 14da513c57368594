"""Type variables of operator schemas: matched against the types of arguments, and replaced."""

from __future__ import annotations

from collections.abc import Mapping

from .subtyping import unify, unify_all
from .types import (
    COMPOSITE,
    NONE,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    UnionType,
    VarType,
)

Bindings = dict[str, Type]

_COMPOSITE = frozenset(COMPOSITE.__args__)


def has_variables(type_: Type) -> bool:
    """Return whether a type of a schema has variables in it. Classes are not looked into."""
    kind = type(type_)
    if kind is SimpleType:
        return False
    return kind is VarType or (kind in _COMPOSITE and any(map(has_variables, type_.parts())))


def bind(formal: Type, actual: Type, bindings: Bindings) -> bool:
    """Match type variables of ``formal``; False when the shapes differ."""
    if not has_variables(formal):
        return True
    match formal, actual:
        case VarType(name), _:
            return unify(bindings.setdefault(name, actual), actual) is not None
        case ListType(element), TupleType(elements) if elements:
            common = unify_all(elements)
            return common is not None and bind(element, common, bindings)
        case OptionalType(element), OptionalType(given):
            return bind(element, given, bindings)
        case OptionalType(element), _:
            # None says nothing of the element; that shows when the variable is read.
            return actual == NONE or bind(element, actual, bindings)
        case HandleType(kind), HandleType(given_kind) if kind != given_kind:
            return False
    if type(formal) is not type(actual) or len(formal.parts()) != len(actual.parts()):
        return False
    pairs = zip(formal.parts(), actual.parts(), strict=True)
    return all(bind(one, other, bindings) for one, other in pairs)


def substitute(type_: Type, bindings: Mapping[str, Type]) -> Type | None:
    """Return the type with its variables replaced; None when one is not bound."""
    if not has_variables(type_):
        return type_
    if isinstance(type_, VarType):
        return bindings.get(type_.name)
    parts = [substitute(part, bindings) for part in type_.parts()]
    known = tuple(part for part in parts if part is not None)
    return _rebuilt(type_, known) if len(known) == len(parts) else None


def _rebuilt(type_: Type, parts: tuple[Type, ...]) -> Type:
    match type_:
        case ListType():
            return ListType(parts[0])
        case OptionalType():
            return parts[0] if isinstance(parts[0], OptionalType) else OptionalType(parts[0])
        case DictType():
            return DictType(parts[0], parts[1])
        case HandleType(kind, _):
            return HandleType(kind, parts[0])
        case TupleType(_, name, fields):
            return TupleType(parts, name, fields)
    return UnionType(parts)
