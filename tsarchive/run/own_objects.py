"""Strings, members of enums and complex numbers that are objects of their own, as in torch."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

from tsarchive.ir.types import (
    ANY,
    ANY_ENUM,
    ANY_LIST,
    ANY_TUPLE,
    COMPLEX,
    COMPOSITE,
    NUMBER,
    STRING,
    EnumType,
    Type,
)

SHARED: Final = frozenset({ANY, ANY_ENUM, COMPLEX, NUMBER, STRING})
"""Types of values that torch tells apart and Python does not, beside enums."""
_HOLDING: Final = SHARED | {ANY_LIST, ANY_TUPLE}


def own_text(text: str) -> str:
    """An equal string that is another object, except for the empty one."""
    return "".join((text, "", ""))


def own_member(member: enum.Enum) -> enum.Enum:
    """Another object for a member of an enum of an archive, which equals it."""
    class_: Any = type(member)
    class_.__eq__ = lambda one, other: (
        type(one) is type(other) and one.name == getattr(other, "name", None)
    )
    made: enum.Enum = object.__new__(class_)
    made.__dict__.update(member.__dict__, _value_=own_value(member.value))
    return made


_OWN: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: own_text,
    complex: lambda number: complex(number.real, number.imag),
}


def own_value(value: Any) -> Any:
    """``value``, whose lists and dicts nobody else has, with objects of its own at every depth."""
    make = _OWN.get(type(value))
    if make is not None:
        return make(value)
    if isinstance(value, list):
        value[:] = map(own_value, value)
    elif isinstance(value, dict):
        pairs = [(own_value(key), own_value(item)) for key, item in value.items()]
        value.clear()
        value.update(pairs)
    elif isinstance(value, tuple):
        items = map(own_value, value)
        return tuple(items) if type(value) is tuple else type(value)(*items)
    elif isinstance(value, enum.Enum) and hasattr(value, "tsarchive_enum"):
        return own_member(value)
    return value


def may_hold_shared(type_: Type) -> bool:
    """Return whether values of a type are such, or hold such, that Python does not tell apart."""
    if type_ in _HOLDING or isinstance(type_, EnumType):
        return True
    return isinstance(type_, COMPOSITE) and any(map(may_hold_shared, type_.parts()))
