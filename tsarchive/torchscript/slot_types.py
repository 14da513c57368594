"""Whether a value read from a pickle is of the type that is declared where it goes.

torch does not look: an int in an attribute of type str would reach code that was compiled for
strings.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch

from tsarchive.printer.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    ClassType,
    DictType,
    EnumType,
    InterfaceType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)
from tsarchive.run.classes import ArchiveModule, ArchiveObject

__all__ = ["may_hold"]

_EXACT: dict[Type, tuple[type, ...]] = {
    BOOL: (bool,),
    INT: (int,),
    FLOAT: (float,),
    COMPLEX: (complex,),
    NUMBER: (int, float, complex),
    STRING: (str,),
    NONE: (type(None),),
    DEVICE: (torch.device,),
}


def may_hold(type_: Type, value: Any) -> bool:
    """Whether ``value`` is of ``type_``. Types that pickles do not tell fit anything."""
    match type_:
        case OptionalType(element):
            return value is None or may_hold(element, value)
        case UnionType(members):
            return any(may_hold(member, value) for member in members)
        case ListType(element):
            return isinstance(value, list) and all(may_hold(element, item) for item in value)
        case DictType(key, item):
            return isinstance(value, dict) and all(
                may_hold(key, k) and may_hold(item, v) for k, v in value.items()
            )
        case TupleType(elements):
            return (
                isinstance(value, tuple)
                and len(value) == len(elements)
                and all(map(may_hold, elements, value))
            )
        case ClassType() | InterfaceType() | EnumType():
            return _may_be_of(type_, value)
    if type_ == TENSOR:
        return isinstance(value, torch.Tensor)
    exact = _EXACT.get(type_)
    return exact is None or type(value) in exact


def _may_be_of(type_: ClassType | InterfaceType | EnumType, value: Any) -> bool:
    match type_:
        case ClassType(is_native=True):
            return isinstance(value, torch.ScriptObject)
        case ClassType(qualified_name=name):
            class_ = getattr(type(value), "tsarchive_class", None)
            return isinstance(class_, ClassType) and class_.qualified_name == name
        case EnumType():
            return isinstance(value, Enum)
    return isinstance(value, ArchiveModule | ArchiveObject)
