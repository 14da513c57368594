"""Schemas of FlatBuffers as data: tables of fields, and unions of tables."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tsarchive.errors import UnsupportedError

_VERSION: Final = 0
"""The version of programs and data files, the same since the first."""

# Scalar type -> format character of struct.
SCALARS: Final[Mapping[str, str]] = {
    "bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
    "i64": "q", "u64": "Q", "f64": "d",
}  # fmt: skip
TEXT: Final = "text"
_OFFSET_BYTES: Final = 4


class Field(NamedTuple):
    """A field of a table; its index is its id.

    ``type`` is a scalar, ``text``, the name of a table or union, or any of these except a union in
    brackets: a vector. ``default`` is the value of an absent scalar. ``align`` is the alignment
    that writers force for the first byte of a vector; readers need not know it.
    """

    name: str
    type: str
    default: int = 0
    align: int = 0


class Slot(NamedTuple):
    """A field with its vtable slot; unions have a tag in the slot before.

    ``element`` is the type without brackets, ``width`` the size of the field in a table: of its
    scalar, or of an offset.
    """

    place: int
    field: Field
    element: str
    is_vector: bool
    is_union: bool
    width: int


@dataclass(frozen=True)
class Schema:
    """A schema.

    ``identifier`` stands at byte 4 of a buffer, ``root`` is the table of its first offset.
    ``unions`` list the tables that tags refer to, from 1 on.
    """

    identifier: bytes
    root: str
    tables: Mapping[str, tuple[Field, ...]]
    unions: Mapping[str, tuple[str, ...]]
    slots: Mapping[str, Mapping[str, Slot]] = field(init=False)
    places: Mapping[str, int] = field(init=False)
    """The number of vtable slots that the fields of each table take."""

    def __post_init__(self) -> None:
        slots = {name: dict(self._slots(fields)) for name, fields in self.tables.items()}
        object.__setattr__(self, "slots", slots)
        last = {name: max((s.place for s in of.values()), default=-1) for name, of in slots.items()}
        object.__setattr__(self, "places", {name: place + 1 for name, place in last.items()})

    def _slots(self, fields: tuple[Field, ...]) -> Iterator[tuple[str, Slot]]:
        place = 0
        for described in fields:
            element = described.type.strip("[]")
            is_vector, is_union = element != described.type, element in self.unions
            is_scalar = element in SCALARS and not is_vector
            width = struct.calcsize(f"<{SCALARS[element]}") if is_scalar else _OFFSET_BYTES
            place += is_union
            yield described.name, Slot(place, described, element, is_vector, is_union, width)
            place += 1


def version_problem(version: int) -> str | None:
    """Return the problem with a version of tables; None for a known version."""
    if version <= _VERSION:
        return None
    return f"its schema has the version {version}, newer than any that is known"


def require_known(version: int, record: str) -> None:
    """Raise UnsupportedError for tables of a later version, whose meaning may differ."""
    problem = version_problem(version)
    if problem is not None:
        raise UnsupportedError(problem, record=record)
