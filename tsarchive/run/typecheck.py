"""The TorchScript type that a value has at run time, and which types it belongs to.

Lists and dicts keep the type they were created with; Python's do not. So code that creates one
whose elements would not tell (none at all, or Optional and Union elements) makes a ``TypedList``
or ``TypedDict``, where the type can matter later.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from tsarchive.printer.schema import FunctionSchema
from tsarchive.printer.types import (
    ANY,
    ANY_CLASS,
    ANY_ENUM,
    ANY_LIST,
    ANY_TUPLE,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STORAGE,
    STREAM,
    STRING,
    TENSOR,
    ClassType,
    DictType,
    EnumType,
    HandleType,
    InterfaceType,
    ListType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    UnionType,
)

from .natives import Awaitable, Future
from .operators import native_class

__all__ = [
    "TypedDict",
    "TypedList",
    "is_instance",
    "is_subtype",
    "predicate",
    "register_class",
    "type_of",
    "type_of_class",
]

UNKNOWN: Final = SimpleType("?")
"""The element type of an empty list whose type nobody noted: it may be any."""

_EXACT: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    complex: COMPLEX,
    str: STRING,
    type(None): NONE,
    torch.device: DEVICE,
    torch.Generator: GENERATOR,
    torch.Stream: STREAM,
    Future: HandleType("Future", UNKNOWN),
    Awaitable: HandleType("Await", UNKNOWN),
}
_archive_types: weakref.WeakKeyDictionary[type, Type] = weakref.WeakKeyDictionary()


class TypedList(list[Any]):
    """A list that knows its element type."""

    __slots__ = ("type",)

    def __init__(self, type_: Type, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.type = type_


class TypedDict(dict[Any, Any]):
    """A dict that knows its key and value types."""

    __slots__ = ("type",)

    def __init__(self, type_: Type, items: Iterable[tuple[Any, Any]] = ()) -> None:
        super().__init__(items)
        self.type = type_


def register_class(class_: type, type_: Type) -> None:
    """Note that instances of the Python class ``class_`` are values of ``type_``."""
    _archive_types[class_] = type_


def type_of_class(class_: type) -> Type | None:
    """The archive type that ``class_`` was made for."""
    return _archive_types.get(class_)


def type_of(value: Any) -> Type:
    """The run-time type. Values that TorchScript does not have give ``Any``."""
    class_ = type(value)
    found = _EXACT.get(class_) or _archive_types.get(class_)
    if found is not None:
        return found
    if isinstance(value, torch.Tensor):
        return TENSOR
    if isinstance(value, TypedList | TypedDict):
        return value.type
    if isinstance(value, list):
        return ListType(type_of(value[0]) if value else UNKNOWN)
    if isinstance(value, dict):
        key, item = next(iter(value.items()), (_EMPTY, _EMPTY))
        return DictType(type_of(key), type_of(item))
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    return _rare_type(value)


def _rare_type(value: Any) -> Type:
    if value is _EMPTY:
        return UNKNOWN
    if isinstance(value, torch.ScriptObject):
        return native_class(value._type().annotation_str) or ANY
    if isinstance(value, torch.UntypedStorage | torch.TypedStorage):
        return STORAGE
    return ANY


_EMPTY: Final = object()


def is_instance(value: Any, type_: Type) -> bool:
    """``isinstance`` of TorchScript: bool is no int, containers by their element types."""
    return is_subtype(type_of(value), type_)


def predicate(types: Iterable[Type]) -> Callable[[Any], bool]:
    """The function that tells whether a value belongs to one of ``types``."""
    wanted = tuple(types)
    classes = tuple(_CLASSES[type_] for type_ in wanted if type_ in _CLASSES)
    if len(classes) == len(wanted):
        return lambda value: type(value) in classes
    if wanted == (TENSOR,):
        return lambda value: isinstance(value, torch.Tensor)
    return lambda value: any(is_instance(value, type_) for type_ in wanted)


_CLASSES = {
    BOOL: bool, INT: int, FLOAT: float, COMPLEX: complex, STRING: str, NONE: type(None),
}  # fmt: skip


def is_subtype(type_: Type, other: Type) -> bool:
    """Whether every value of ``type_`` is one of ``other``."""
    if type_ == other or other == ANY or type_ == UNKNOWN:
        return True
    if isinstance(type_, UnionType):
        return all(is_subtype(member, other) for member in type_.members)
    if isinstance(type_, OptionalType):
        return is_subtype(NONE, other) and is_subtype(type_.element, other)
    match other:
        case OptionalType(element):
            return type_ == NONE or is_subtype(type_, element)
        case UnionType(members):
            return any(is_subtype(type_, member) for member in members)
        case ListType() | DictType():
            return _is_same(type_, other)
        case TupleType():
            return isinstance(type_, TupleType) and _is_subtuple(type_, other)
        case HandleType(kind, element):
            return isinstance(type_, HandleType) and (
                type_.kind == kind and is_subtype(type_.element, element)
            )
        case InterfaceType():
            return isinstance(type_, ClassType | InterfaceType) and implements(type_, other)
        case SimpleType():
            return _is_of_kind(type_, other)
    return False


def _is_same(type_: Type, other: Type) -> bool:
    """Equality, for all that is known of ``type_``."""
    if type_ in (other, UNKNOWN):
        return True
    return (
        isinstance(type_, ListType | DictType)
        and type(type_) is type(other)
        and all(map(_is_same, type_.parts(), other.parts()))
    )


def _is_of_kind(type_: Type, other: SimpleType) -> bool:
    if other == NUMBER:
        return type_ in (INT, FLOAT, COMPLEX)
    kinds = {ANY_LIST: ListType, ANY_TUPLE: TupleType, ANY_ENUM: EnumType, ANY_CLASS: ClassType}
    return other in kinds and isinstance(type_, kinds[other])


def _is_subtuple(type_: TupleType, other: TupleType) -> bool:
    """A named tuple is also an unnamed one, never the other way round."""
    if other.qualified_name is not None and type_.fields != other.fields:
        return False
    return len(type_.elements) == len(other.elements) and all(
        map(is_subtype, type_.elements, other.elements)
    )


def implements(type_: ClassType | InterfaceType, interface: InterfaceType) -> bool:
    """Whether ``type_`` has every method of ``interface``, for at least the same arguments."""
    if interface.is_module and isinstance(type_, ClassType) and not type_.is_module:
        return False
    for name, wanted in interface.methods.items():
        method = type_.methods.get(name)
        schema = method if isinstance(method, FunctionSchema | None) else method.schema
        if schema is None or not _can_stand_for(schema, wanted):
            return False
    return True


def _can_stand_for(schema: FunctionSchema, wanted: FunctionSchema) -> bool:
    """Same number of arguments, which take at least what is wanted; the first is ``self``."""
    arguments = zip(wanted.arguments[1:], schema.arguments[1:], strict=False)
    return (
        len(schema.arguments) == len(wanted.arguments)
        and is_subtype(schema.return_type, wanted.return_type)
        and all(is_subtype(theirs.type, ours.type) for theirs, ours in arguments)
    )
