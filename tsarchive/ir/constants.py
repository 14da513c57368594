"""Values that Python has no plain form for, as graphs and archives hold them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .classes import ClassType
from .types import EnumType, Type

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


def is_device(text: str) -> bool:
    """Return whether a string names a device of a type that torch knows by itself."""
    return re.fullmatch(_DEVICE, text) is not None
