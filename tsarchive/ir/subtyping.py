"""Subtypes, common supertypes, the canonical form of a Union, and the values that fit a type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .classes import ClassType, InterfaceType
from .schema import FunctionSchema
from .types import (
    ANY,
    COMPLEX,
    COMPOSITE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    UNKNOWN,
    DictType,
    EnumType,
    HandleType,
    ListType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    UnionType,
    VarType,
    annotation,
    simple_type,
)

SCALARS = (FLOAT, COMPLEX, INT)


def is_subtype(narrow: Type, wide: Type) -> bool:
    """Return whether every value of ``narrow`` may stand where ``wide`` is asked for."""
    if narrow is wide or wide is ANY or narrow == wide:
        return True
    match narrow:
        case OptionalType(element):
            return is_subtype(NONE, wide) and is_subtype(element, wide)
        case UnionType(members):
            return all(is_subtype(member, wide) for member in members)
    match wide:
        case OptionalType(element):
            return narrow == NONE or is_subtype(narrow, element)
        case UnionType(members):
            if narrow == NUMBER:
                return set(SCALARS).issubset(members)
            return any(is_subtype(narrow, member) for member in members)
        case SimpleType():
            if wide == NUMBER:
                return narrow in SCALARS
            kind = _KINDS.get(wide)
            return kind is not None and isinstance(narrow, kind)
        case TupleType():
            return isinstance(narrow, TupleType) and _is_subtuple(narrow, wide)
        case HandleType(kind, element):
            # A remote reference may be assigned through, so it does not vary.
            is_same_kind = isinstance(narrow, HandleType) and narrow.kind == kind != "RRef"
            return is_same_kind and is_subtype(narrow.parts()[0], element)
        case InterfaceType():
            return implements(narrow, wide)
    return False


def fits(narrow: Type, wide: Type) -> bool:
    """Return the same, or True where one of them is not wholly known."""
    return is_subtype(narrow, wide) or has_unknown(narrow) or has_unknown(wide)


def fits_list(actual: Type, wanted: Type) -> bool:
    """Return whether a value fits as it is, or is a tuple whose elements fit the wanted list."""
    if isinstance(actual, TupleType) and isinstance(wanted, ListType):
        return all(is_subtype(element, wanted.element) for element in actual.elements)
    return is_subtype(actual, wanted)


def has_unknown(type_: Type) -> bool:
    """Return whether part of a type is not known. Classes are not looked into."""
    return type_ is UNKNOWN or (
        isinstance(type_, COMPOSITE) and any(map(has_unknown, type_.parts()))
    )


# The types that stand for all types of a kind.
_KINDS: dict[SimpleType, type[Type]] = {
    simple_type("list"): ListType, simple_type("tuple"): TupleType,
    simple_type("AnyEnumType"): EnumType, simple_type("AnyClassType"): ClassType,
}  # fmt: skip


def _is_subtuple(narrow: TupleType, wide: TupleType) -> bool:
    if len(narrow.elements) != len(wide.elements):
        return False
    if wide.fields and narrow.fields != wide.fields:
        return False
    return all(map(is_subtype, narrow.elements, wide.elements))


def implements(type_: Type, interface: InterfaceType) -> bool:
    """Return whether a type has every method of ``interface`` with a fitting schema."""
    if isinstance(type_, ClassType):
        if type_.is_module != interface.is_module:
            return False
        schemas = {name: function.schema for name, function in type_.methods.items()}
    elif isinstance(type_, InterfaceType):
        schemas = type_.methods
    else:
        return False
    return all(
        name in schemas and _overrides(schemas[name], wanted)
        for name, wanted in interface.methods.items()
    )


def _overrides(actual: FunctionSchema, wanted: FunctionSchema) -> bool:
    if len(actual.arguments) != len(wanted.arguments):
        return False
    # The first argument is self, which differs by design.
    pairs = zip(actual.arguments[1:], wanted.arguments[1:], strict=True)
    if not all(is_subtype(want.type, have.type) for have, want in pairs):
        return False
    return is_subtype(actual.return_type, wanted.return_type)


def unify(first: Type, second: Type, *, or_union: bool = False) -> Type | None:
    """Return the common type of two values; without one, None, or their Union if ``or_union``."""
    if first is UNKNOWN or second is UNKNOWN:
        return UNKNOWN
    if is_subtype(first, second):
        return second
    if is_subtype(second, first):
        return first
    found = _unify_by_shape(first, second, or_union)
    if found is None and or_union:
        return union_of((first, second))
    return found


def _unify_by_shape(first: Type, second: Type, or_union: bool) -> Type | None:
    if NONE in (first, second):
        return OptionalType(second if first == NONE else first)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, OptionalType):
            element = unify(one.element, other)
            return None if element is None else OptionalType(element)
    match first, second:
        case TupleType(mine), TupleType(theirs) if len(mine) == len(theirs):
            pairs = zip(mine, theirs, strict=True)
            elements = [unify(one, other, or_union=or_union) for one, other in pairs]
            known = tuple(element for element in elements if element is not None)
            return TupleType(known) if len(known) == len(mine) else None
        case HandleType("Future", one), HandleType("Future", other):
            element = unify(one, other)
            return None if element is None else HandleType("Future", element)
    return None


def unify_all(types: Iterable[Type], *, or_union: bool = False) -> Type | None:
    """Return the common type of several values, at least one."""

    found: Type | None
    found, *rest = types
    for type_ in rest:
        if found is not None:
            found = unify(found, type_, or_union=or_union)
    return found


def union_of(types: Iterable[Type]) -> Type:
    """Return the canonical Union: flat, without members that have a common type, in torch's order.

    One member alone stands for itself; with None it is an Optional.
    """
    members: list[Type] = []
    for type_ in types:
        for member in flat_members(type_):
            _merge(members, member)
    rest = [member for member in members if member != NONE]
    if len(rest) == len(members):
        return members[0] if len(members) == 1 else UnionType(_ordered(members))
    if len(rest) == 1:
        return OptionalType(rest[0])
    if set(rest) == set(SCALARS):
        return OptionalType(NUMBER)
    return UnionType(_ordered(members)) if rest else NONE


def flat_members(type_: Type) -> tuple[Type, ...]:
    """Return the members of a Union or Optional at any depth; ``number`` has three."""
    match type_:
        case OptionalType(element):
            return (*flat_members(element), NONE)
        case UnionType(members):
            return tuple(inner for member in members for inner in flat_members(member))
    return SCALARS if type_ == NUMBER else (type_,)


def _merge(members: list[Type], type_: Type) -> None:
    for index, member in enumerate(members):
        if (member == NONE) != (type_ == NONE):
            continue
        common = unify(member, type_)
        if common is not None:
            members[index] = common
            return
    members.append(type_)


# The order in which torch numbers the kinds of types; it sorts Union members by it. Types without
# parameters and handles stand there by their names, others by those of their classes here.
_KINDS_IN_ORDER = (
    "Any EnumType AnyEnumType Tensor Storage TupleType ListType DictType number float complex"
    " Future Await RRef int NoneType str Generator Quantizer bool OptionalType VarType Device"
    " Stream FunctionType ClassType PyObject Capsule InterfaceType list tuple AnyClassType"
    " <unknown>"
)
_RANKS = {kind: rank for rank, kind in enumerate(_KINDS_IN_ORDER.split())}


def _ordered(members: list[Type]) -> tuple[Type, ...]:
    return tuple(sorted(members, key=lambda member: (_rank(member), type_in_schema(member))))


def type_in_schema(type_: Type) -> str:
    """Return the text that a type has in schemas of torch, which sorts types of one kind by it."""
    match type_:
        case ListType(element):
            return f"{type_in_schema(element)}[]"
        case OptionalType(element):
            return f"{type_in_schema(element)}?"
        case DictType(key, value):
            return f"Dict({type_in_schema(key)}, {type_in_schema(value)})"
        case HandleType(kind, element):
            return f"{kind}({type_in_schema(element)})"
        case TupleType(elements, None):
            return f"({', '.join(map(type_in_schema, elements))})"
    return "Scalar" if type_ == NUMBER else annotation(type_)


def _rank(type_: Type) -> int:
    match type_:
        case SimpleType(name) | HandleType(name):
            return _RANKS[name]
    return _RANKS[type(type_).__name__]


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


def bindings_of(schema: FunctionSchema, actual: Iterable[Type]) -> Bindings | None:
    """Bind the type variables of ``schema``; None if arguments of these types do not fit."""
    bindings: Bindings = {}
    for formal, type_ in zip(schema.arguments, actual, strict=False):
        if not has_variables(formal.type):
            continue
        if not bind(formal.type, type_, bindings):
            return None
        wanted = substitute(formal.type, bindings)
        if wanted is None or not fits_list(type_, wanted):
            return None
    return bindings


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


def conforms(value: Any, type_: Type, is_of: Callable[[Any, Type], bool]) -> bool:
    """Return whether ``value`` can be of ``type_``; ``is_of`` decides for scalar types.

    An empty container fits every element type.
    """
    match type_:
        case OptionalType(element):
            return value is None or conforms(value, element, is_of)
        case UnionType(members):
            return any(conforms(value, member, is_of) for member in members)
        case ListType(element):
            return isinstance(value, list) and all(conforms(v, element, is_of) for v in value)
        case DictType(key, item):
            return isinstance(value, dict) and all(
                conforms(k, key, is_of) and conforms(v, item, is_of) for k, v in value.items()
            )
        case TupleType(elements):
            return (
                isinstance(value, tuple)
                and len(value) == len(elements)
                and all(conforms(v, t, is_of) for v, t in zip(value, elements, strict=True))
            )
    return is_of(value, type_)
