"""Encoding of tables to bytes, laid out as the writers of ExecuTorch do.

FlatBuffers are written back to front: a table precedes what it points to. Positions are counted
from the end here, since the front is not known until everything has been written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tsarchive.errors import SaveError

from .pieces import Bytes, Pieces
from .schema import SCALARS, TEXT, Schema, Slot
from .table_values import Values

Alignments = Mapping[tuple[str, str], int]
"""What is forced for vectors by table and field, in the place of what the schema says."""

_OFFSET: Final = struct.Struct("<I")
_MAX_BYTES: Final = (1 << 31) - 1


class Order(Enum):
    """The order in which a library lays out tables. All write what a table points to before it.

    ``PYTHON``: fields by number, the first at the end; used by flatc's generated Python, and so by
    exir since ExecuTorch 1.2. ``OLD_PYTHON``: the same, but a vtable serves tables of any size.
    ``FLATC``: the largest fields at the end, of these the last; empty vectors are aligned only for
    their count; data files, and earlier programs. ``OLD_FLATC``: empty vectors are aligned, too.
    """

    PYTHON = "python"
    FLATC = "flatc"
    OLD_PYTHON = "old python"
    OLD_FLATC = "old flatc"


_BY_SIZE: Final = frozenset({Order.FLATC, Order.OLD_FLATC})


@dataclass(frozen=True, slots=True)
class Encoded:
    """A buffer: eight bytes with the offset ``root`` and the ``identifier``, then ``body``.

    Bytes inserted between the two move the root.
    """

    root: int
    identifier: bytes
    body: Pieces

    def head(self, inserted: int = 0) -> bytes:
        """Return the first eight bytes, with ``inserted`` bytes between head and body."""
        return _OFFSET.pack(self.root + inserted) + self.identifier


def encode(
    schema: Schema, values: Values, order: Order, alignments: Alignments | None = None
) -> Encoded:
    """Encode ``values`` as the root table of a buffer. Large vectors of bytes are not copied.

    Raises SaveError for more bytes than offsets reach, and for a number that its type cannot hold.
    """
    encoder = _Encoder(schema, order, alignments or {})
    try:
        return encoder.finished(encoder.table(schema.root, values))
    except struct.error as error:
        raise SaveError(f"the tables cannot hold what they should: {error}") from error


@dataclass(slots=True)
class _Written:
    """An encoded field: its position in the vtable, and its value.

    ``end`` is the position of its first byte; with ``is_offset``, ``value`` is the position of its
    target.
    """

    place: int
    letter: str
    value: Any
    is_offset: bool = False
    end: int = 0

    @property
    def width(self) -> int:
        return struct.calcsize(f"<{self.letter}")


class _Encoder:
    def __init__(self, schema: Schema, order: Order, alignments: Alignments) -> None:
        self._schema = schema
        self._order = order
        self._alignments = alignments
        self._parts: list[Bytes] = []  # last part of the buffer first
        self._size = 0
        self._widest = 1
        self._vtables: dict[bytes, int] = {}

    def finished(self, root: int) -> Encoded:
        """Return everything written so far, aligned for the head before it."""
        identifier = self._schema.identifier
        head = _OFFSET.size + len(identifier)
        self._align(self._widest, head)
        size = self._size + head
        if size > _MAX_BYTES:
            raise SaveError("the tables are too large for FlatBuffers", limit=_MAX_BYTES)
        return Encoded(size - root, identifier, Pieces(reversed(self._parts)))

    def table(self, name: str, values: Values) -> int:
        """Write a table after everything that it points to. Returns its position."""
        given = [slot for field, slot in self._schema.slots[name].items() if field in values]
        fields = [field for slot in given for field in self._fields(name, slot, values)]
        if self._order in _BY_SIZE:
            fields.sort(key=lambda field: (field.width, field.place), reverse=True)
        end = self._size
        for field in fields:
            end = field.end = _aligned(end, field.width) + field.width
            self._widest = max(self._widest, field.width)
        return self._add_table(_aligned(end, 4) + 4, fields)

    def _add_table(self, position: int, fields: Sequence[_Written]) -> int:
        """Lay out the fields, and a vtable before them unless an equal one exists."""
        content = bytearray(position - self._size)
        for field in fields:
            value = field.end - field.value if field.is_offset else field.value
            struct.pack_into(f"<{field.letter}", content, position - field.end, value)
        vtable = _vtable(len(content), {field.place: position - field.end for field in fields})
        key = vtable[:2] + vtable[4:] if self._order is Order.OLD_PYTHON else vtable
        at = self._vtables.get(key)
        struct.pack_into("<i", content, 0, (at or position + len(vtable)) - position)
        self._widest = max(self._widest, 4)
        self._add(bytes(content))
        if at is None:
            self._add(vtable)
            self._vtables[key] = self._size
        return position

    def _fields(self, name: str, slot: Slot, values: Values) -> Iterator[_Written]:
        """Yield the encoding of a field; a union also has its tag."""
        value = values[slot.field.name]
        if slot.is_union:
            member, inner = value
            tag = self._schema.unions[slot.element].index(member) + 1
            yield _Written(slot.place - 1, "B", tag)
            yield _Written(slot.place, "I", self.table(member, inner), is_offset=True)
        elif slot.element in SCALARS and not slot.is_vector:
            yield _Written(slot.place, SCALARS[slot.element], value)
        else:
            yield _Written(slot.place, "I", self._target(name, slot, value), is_offset=True)

    def _target(self, name: str, slot: Slot, value: Any) -> int:
        """Write what a field points to. Returns its position."""
        if slot.is_vector:
            return self._vector(name, slot, value)
        return self._text(value) if slot.element == TEXT else self.table(slot.element, value)

    def _text(self, text: str) -> int:
        data = text.encode()
        self._align(_OFFSET.size, len(data) + 1)
        return self._add(_OFFSET.pack(len(data)) + data + b"\0")

    def _vector(self, name: str, slot: Slot, items: Any) -> int:
        if slot.element not in SCALARS:
            return self._tables([self.table(slot.element, inner) for inner in items])
        letter = SCALARS[slot.element]
        data = items if letter == "B" else struct.pack(f"<{len(items)}{letter}", *items)
        if items or self._order is not Order.FLATC:
            forced = self._alignments.get((name, slot.field.name), slot.field.align)
            self._align(max(forced, struct.calcsize(letter), _OFFSET.size), len(data))
        self._align(_OFFSET.size, len(data))
        self._add(data)
        return self._add(_OFFSET.pack(len(items)))

    def _tables(self, places: Sequence[int]) -> int:
        """Write a vector of offsets, from the first element to the last."""
        self._align(_OFFSET.size)
        first = self._size + _OFFSET.size * len(places)
        offsets = (first - _OFFSET.size * index - place for index, place in enumerate(places))
        return self._add(struct.pack(f"<{len(places) + 1}I", len(places), *offsets))

    def _align(self, width: int, behind: int = 0) -> None:
        """Add zeros so that the position ``behind`` bytes further on is aligned to ``width``."""
        self._widest = max(self._widest, width)
        place = self._size + behind
        self._add(bytes(_aligned(place, width) - place))

    def _add(self, data: Bytes) -> int:
        """Prepend bytes. Returns the position of the first of them."""
        if len(data):
            self._parts.append(data)
            self._size += len(data)
        return self._size


def _aligned(place: int, width: int) -> int:
    return place + -place % width


def _vtable(size: int, places: Mapping[int, int]) -> bytes:
    """Return a vtable: its size, that of the table, and the offset of each field, 0 if absent."""
    entries = [places.get(place, 0) for place in range(max(places, default=-1) + 1)]
    return struct.pack(f"<{len(entries) + 2}H", 4 + 2 * len(entries), size, *entries)
