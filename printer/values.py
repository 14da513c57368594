"""Values that graphs and objects hold and that Python has no plain form for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .types import ClassType, EnumType, Type


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


@dataclass(frozen=True, slots=True)
class Held:
    """What else keeps parts of a tuple alive, by position: ``elements`` are held themselves,
    of the lists in ``items`` each item is. The pickle form depends on it."""

    elements: tuple[int, ...] = ()
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value with the static type it was produced with, and what else holds its parts."""

    value: Any
    type: Type
    held: Held = Held()
