"""Operators on values of any type: identity, hash, optionals, tuples, enums, modules."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.faults import index_fault, key_fault, wrong_kind
from tsarchive.run.natives.table import native

T = TypeVar("T")

# Compared by value where torch compares by identity: they have none there.
_PLAIN = (bool, int, float, torch.device)


@native("aten::__is__")
def is_same(a: Any, b: Any) -> bool:
    """Identity; numbers and devices of one type are the same when they are equal."""
    return type(a) is type(b) and a == b if isinstance(a, _PLAIN) else a is b


@native("aten::__isnot__")
def is_not_same(a: Any, b: Any) -> bool:
    return not is_same(a, b)


@native("aten::_unwrap_optional")
def unwrap_optional(optional: T | None) -> T:
    if optional is None:
        raise ScriptError("Unwrapping null optional")
    return optional


@native("prim::unchecked_unwrap_optional", "prim::unchecked_cast", "aten::Size")
def identity(value: T) -> T:
    return value


@native("prim::Uninitialized")
def uninitialized() -> None:
    """A value that no path of a valid program reads."""


@native("prim::IfThenElse")
def choose(condition: bool, x: T, y: T) -> T:
    return x if condition else y


@native("prim::TupleIndex")
def tuple_item(values: tuple[Any, ...], i: int) -> Any:
    try:
        return values[i]
    except IndexError:
        raise index_fault("Tuple list index out of range") from None


def tuple_slice(values: tuple[Any, ...], begin: int, end: int) -> tuple[Any, ...]:
    if not isinstance(values, tuple):
        raise wrong_kind(values, tuple)
    return values[begin:end]


@native("prim::id")
def identity_number(x: object | None) -> int:
    """A number that no other living object has; 0 for None."""
    return 0 if x is None else id(x)


@native("prim::EnumName")
def enum_name(member: enum.Enum) -> str:
    if not isinstance(member, enum.Enum):
        raise wrong_kind(member, enum.Enum)
    return str(member.name)


@native("prim::EnumValue.int", "prim::EnumValue.float", "prim::EnumValue.str")
def enum_value(member: enum.Enum) -> Any:
    if not isinstance(member, enum.Enum):
        raise wrong_kind(member, enum.Enum)
    return member.value


@native("prim::ModuleContainerIndex.list", "prim::ModuleContainerIndex.dict")
def submodule(container: torch.nn.Module, name: int | str) -> Any:
    """The submodule of a ModuleList or ModuleDict whose key is known at run time only."""
    if not isinstance(container, torch.nn.Module):
        raise wrong_kind(container, torch.nn.Module)
    found = container._modules.get(str(name))
    if found is None:
        raise key_fault(f"the module has no submodule {str(name)!r}")
    return found
