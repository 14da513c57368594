"""What a schema of FlatBuffers is: tables of fields and unions of tables, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

__all__ = ["SCALARS", "Field", "Schema", "Slot"]

# Scalar type -> format character of struct.
SCALARS: Final[Mapping[str, str]] = {
    "bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
    "i64": "q", "u64": "Q", "f64": "d",
}  # fmt: skip
TEXT: Final = "text"


class Field(NamedTuple):
    """A field of a table, by its place the id.

    ``type`` is a scalar, ``text``, the name of a table or union, or one of these but the last in
    brackets: a vector. ``default`` is what an absent scalar means. ``align`` is what writers
    force for the first byte of a vector, which readers need not know.
    """

    name: str
    type: str
    default: int = 0
    align: int = 0


class Slot(NamedTuple):
    """A field with its place in vtables; unions have a tag in the place before.

    ``element`` is the type without brackets."""

    place: int
    field: Field
    element: str
    is_vector: bool
    is_union: bool


@dataclass(frozen=True)
class Schema:
    """``identifier`` stands at byte 4 of a buffer, ``root`` is the table of its first offset.

    ``unions`` name the tables that tags stand for, from 1 on.
    """

    identifier: bytes
    root: str
    tables: Mapping[str, tuple[Field, ...]]
    unions: Mapping[str, tuple[str, ...]]
    slots: Mapping[str, Mapping[str, Slot]] = field(init=False)

    def __post_init__(self) -> None:
        slots = {name: dict(self._slots(fields)) for name, fields in self.tables.items()}
        object.__setattr__(self, "slots", slots)

    def _slots(self, fields: tuple[Field, ...]) -> Iterator[tuple[str, Slot]]:
        place = 0
        for described in fields:
            element = described.type.strip("[]")
            is_union = element in self.unions
            place += is_union
            yield (
                described.name,
                Slot(place, described, element, element != described.type, is_union),
            )
            place += 1
