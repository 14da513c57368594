"""Values that Python has no plain form for, as graphs and archives hold them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .classes import ClassType
from .types import DictType, EnumType, ListType, OptionalType, TupleType, Type, UnionType

# The names of device types that need no extension of torch.
_DEVICE = (
    r"(?:cpu|cuda|fpga|hip|hpu|ideep|ipu|lazy|maia|meta|mkldnn|mps|mtia|opencl|opengl"
    r"|privateuseone|ve|vulkan|xla|xpu)(?::(?:0|[1-9]\d{0,2}))?"
)


@dataclass(frozen=True, slots=True)
class Device:
    """A device constant; ``text`` is torch's form, such as ``cpu`` or ``cuda:0``."""

    text: str


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A member of an Enum that the archive defines."""

    type: EnumType
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class GeneratorSeed:
    """A Generator constant: its device and current seed."""

    device: str
    seed: int


@dataclass(frozen=True, slots=True)
class TableConstant:
    """A constant kept in constants.pkl: a tensor or an object. ``value`` is opaque here."""

    value: Any


@dataclass(eq=False, slots=True)
class ObjectValue:
    """An instance of an archive class, for writing.

    ``slots`` maps attribute names to values in slot order. For a class with ``__getstate__``
    (and for torchbind) ``state`` holds the returned value and its type, and slots are not
    written. Two references to one ObjectValue are one object.
    """

    type: ClassType
    slots: dict[str, Any] = field(default_factory=dict)
    state: TypedValue | None = None


class Held(NamedTuple):
    """The parts of a tuple that have other owners, by position: ``elements`` themselves, and of the
    lists in ``items`` each item. The pickle form depends on it."""

    elements: tuple[int, ...] = ()
    items: tuple[int, ...] = ()


class TypedValue(NamedTuple):
    """A value with the static type it was produced with, and what else holds its parts."""

    value: Any
    type: Type
    held: Held = Held()


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


def is_device(text: str) -> bool:
    """Return whether a string names a device of a type that torch knows by itself."""
    return re.fullmatch(_DEVICE, text) is not None
