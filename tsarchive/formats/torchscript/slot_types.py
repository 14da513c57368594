"""Type checks of unpickled values against the declarations of their slots.

torch does not check: an int in an attribute of type str would reach code that was compiled for
strings.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch

from tsarchive.ir.classes import ClassType, InterfaceType
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    EnumType,
    SimpleType,
    Type,
)
from tsarchive.ir.values import conforms
from tsarchive.run.modules import ArchiveModule, ArchiveObject

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
    """Return whether ``value`` is of ``type_``.

    Types that pickles cannot express accept anything.
    """
    # Most slots hold tensors and modules.
    is_leaf = isinstance(type_, SimpleType | ClassType)
    return _is_of(value, type_) if is_leaf else conforms(value, type_, _is_of)


def _is_of(value: Any, type_: Type) -> bool:
    if isinstance(type_, ClassType | InterfaceType | EnumType):
        return _may_be_of(type_, value)
    if type_ == TENSOR:
        return isinstance(value, torch.Tensor)
    exact = _EXACT.get(type_)
    return exact is None or type(value) in exact


def _may_be_of(type_: ClassType | InterfaceType | EnumType, value: Any) -> bool:
    if isinstance(type_, ClassType):
        if type_.is_native:
            return isinstance(value, torch.ScriptObject)
        class_ = getattr(type(value), "tsarchive_class", None)
        return isinstance(class_, ClassType) and class_.qualified_name == type_.qualified_name
    if isinstance(type_, EnumType):
        return isinstance(value, Enum)
    return isinstance(value, ArchiveModule | ArchiveObject)
