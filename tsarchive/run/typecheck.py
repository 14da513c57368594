"""The TorchScript type that a value has at run time, and which types it belongs to.

Lists and dicts keep the type they were created with; Python's do not. So code that creates one
whose elements would not tell (none at all, or Optional and Union elements) makes a ``TypedList``
or ``TypedDict``, where the type can matter later.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, Final, SupportsIndex

import torch
from torch.compiler import is_dynamo_compiling

from tsarchive.ir.subtyping import flat_members, is_subtype
from tsarchive.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    STORAGE,
    STREAM,
    STRING,
    TENSOR,
    DictType,
    HandleType,
    ListType,
    SimpleType,
    TupleType,
    Type,
)

from .natives import Awaitable, Future
from .operators import native_class

UNKNOWN: Final = SimpleType("?")
"""The element type of an empty list whose type nobody noted: it may be any."""

_EXACT: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    complex: COMPLEX,
    str: STRING,
    type(None): NONE,
    torch.SymBool: BOOL,
    torch.SymInt: INT,
    torch.SymFloat: FLOAT,
    torch.device: DEVICE,
    torch.Generator: GENERATOR,
    torch.Stream: STREAM,
    Future: HandleType("Future", UNKNOWN),
    Awaitable: HandleType("Await", UNKNOWN),
}
_UNTYPED = frozenset(
    {
        ListType(UNKNOWN),
        DictType(UNKNOWN, UNKNOWN),
        HandleType("Future", UNKNOWN),
        HandleType("Await", UNKNOWN),
    }
)


class TypedList(list[Any]):
    """A list that knows its element type."""

    __slots__ = ("type",)

    def __init__(self, type_: Type, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.type = type_

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedList:
        made = memo[id(self)] = TypedList(self.type)
        made.extend(copy.deepcopy(list(self), memo))
        return made

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickled as a plain list, which is what archives hold."""
        return list, (), None, iter(self)


class TypedDict(dict[Any, Any]):
    """A dict that knows its key and value types."""

    __slots__ = ("type",)

    def __init__(self, type_: Type, items: Iterable[tuple[Any, Any]] = ()) -> None:
        super().__init__(items)
        self.type = type_

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedDict:
        made = memo[id(self)] = TypedDict(self.type)
        made.update(copy.deepcopy(dict(self), memo))
        return made

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickled as a plain dict, which is what archives hold."""
        return dict, (), None, None, iter(self.items())


def typed_list(type_: Type, items: Iterable[Any] = ()) -> list[Any]:
    """A TypedList; a plain list where torch.compile traces, which knows no subclasses."""
    return list(items) if is_dynamo_compiling() else TypedList(type_, items)


def typed_dict(type_: Type, items: Iterable[tuple[Any, Any]] = ()) -> dict[Any, Any]:
    """The same for a dict."""
    return dict(items) if is_dynamo_compiling() else TypedDict(type_, items)


def type_of_class(class_: type) -> Type | None:
    """The archive type that ``class_`` was made for."""
    return getattr(class_, "tsarchive_type", None)


def type_of(value: Any) -> Type:
    """The run-time type. Values that TorchScript does not have give ``Any``."""
    class_ = type(value)
    found = _EXACT.get(class_) or type_of_class(class_)
    if found is not None:
        return found
    if isinstance(value, torch.Tensor):
        return TENSOR
    if isinstance(value, TypedList | TypedDict):
        return value.type
    if isinstance(value, list):
        return ListType(type_of(value[0]) if value else UNKNOWN)
    if isinstance(value, dict):
        for key, item in value.items():
            return DictType(type_of(key), type_of(item))
        return DictType(UNKNOWN, UNKNOWN)
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    if isinstance(value, torch.ScriptObject):
        return native_class(value._type().annotation_str) or ANY
    if isinstance(value, torch.UntypedStorage | torch.TypedStorage):
        return STORAGE
    return ANY


def is_instance(value: Any, type_: Type) -> bool:
    """``isinstance`` of TorchScript: bool is no int, containers by their element types."""
    found = type_of(value)
    if found in _UNTYPED:
        return any(_is_alike(found, member) for member in (type_, *flat_members(type_)))
    return is_subtype(found, type_)


def _is_alike(found: Type, wanted: Type) -> bool:
    if isinstance(found, HandleType) and isinstance(wanted, HandleType):
        return found.kind == wanted.kind
    return type(found) is type(wanted) or is_subtype(found, wanted)


def predicate(types: Iterable[Type]) -> Callable[[Any], bool]:
    """The function that tells whether a value belongs to one of ``types``."""
    wanted = tuple(types)
    if all(type_ in _CLASSES for type_ in wanted):
        classes = tuple(class_ for type_ in wanted for class_ in _CLASSES[type_])
        return lambda value: type(value) in classes
    if wanted == (TENSOR,):
        return lambda value: isinstance(value, torch.Tensor)
    return lambda value: any(is_instance(value, type_) for type_ in wanted)


_CLASSES: dict[Type, tuple[type, ...]] = {
    BOOL: (bool, torch.SymBool), INT: (int, torch.SymInt), FLOAT: (float, torch.SymFloat),
    COMPLEX: (complex,), STRING: (str,), NONE: (type(None),),
}  # fmt: skip
