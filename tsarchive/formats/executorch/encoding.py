"""Tables as dicts, and their encoding to bytes, laid out as the writers of ExecuTorch do.

FlatBuffers are written back to front: a table precedes what it points to. Positions are counted
from the end here, since the front is not known until everything has been written. Order and
alignments of a file are inferred such that encoding its tables gives the same bytes.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any, Final, TypeAlias

from tsarchive.errors import CallError, SaveError, UnsupportedError

from .flatbuffer import Table
from .header import AT, Header
from .schema import SCALARS, TEXT, Schema, Slot

SEGMENT_ALIGNMENT: Final = 128
CONSTANT_ALIGNMENT: Final = 16
_LEAST: Final = 16
_LARGEST: Final = 1 << 20
_LIKELY: Final = (*(1 << power for power in range(4, 13)), 8, 4, 2, 1)


def align_up(place: int, width: int) -> int:
    """Round ``place`` up to a multiple of ``width``."""
    return place + -place % width


def infer_alignments(places: Sequence[tuple[int, int]], usual: int) -> list[int]:
    """Return the alignment that explains each (end of one thing, start of the next).

    A single alignment for all where there is one, preferring ``usual``.
    """
    widths = (usual, *_LIKELY)
    common = next((width for width in widths if all(_fits(place, width) for place in places)), None)
    if common is not None:
        return [common] * len(places)
    return [_alignment(place, widths) for place in places]


def require_alignment(width: int) -> None:
    """Raise CallError for widths that segments and constants cannot be aligned to."""
    if width & (width - 1) or not _LEAST <= width <= _LARGEST:
        raise CallError(
            f"an alignment of {width} is none: it is a power of two from {_LEAST:,} to {_LARGEST:,}"
        )


def _alignment(place: tuple[int, int], widths: Sequence[int]) -> int:
    """Return an alignment for one place.

    If none fits, the largest power of two that divides the start.
    """
    start = place[1]
    power = min(start & -start, max(widths))
    return next((width for width in widths if _fits(place, width)), power or widths[0])


def _fits(place: tuple[int, int], width: int) -> bool:
    end, start = place
    return align_up(end, width) == start


# Pieces above this size stand alone; smaller neighbours are joined.
_LARGE: Final = 1 << 16


class Pieces:
    """A sequence of pieces that acts as one run of bytes."""

    __slots__ = ("_parts", "_size")

    def __init__(self, parts: Iterable[Bytes]) -> None:
        runs = (part if isinstance(part, Pieces) else (part,) for part in parts)
        self._parts = tuple(_join_small(itertools.chain.from_iterable(runs)))
        self._size = sum(map(len, self._parts))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._parts)

    def join(self) -> bytes:
        """Return all of it, copied."""
        return b"".join(self._parts)

    def is_at(self, data: memoryview, start: int = 0) -> bool:
        """Return whether ``data`` has these bytes from ``start`` on."""
        for part in self._parts:
            if data[start : start + len(part)] != part:
                return False
            start += len(part)
        return True

    def is_all_of(self, data: memoryview) -> bool:
        """Return whether ``data`` has these bytes and no others."""
        return len(self) == len(data) and self.is_at(data)


Bytes: TypeAlias = bytes | memoryview | Pieces


def _join_small(parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    for is_large, run in itertools.groupby(parts, key=lambda part: len(part) > _LARGE):
        if is_large:
            yield from run
        elif joined := b"".join(run):
            yield joined


Values: TypeAlias = dict[str, Any]
"""A table by the names of its fields, without those that are absent. Nested tables are dicts,
vectors of tables lists, of bytes memoryviews, of other numbers tuples; members of unions are pairs
of a table's name and a dict.
"""


def table_values(table: Table) -> Values:
    """Return the contents of a table, without fields that are left to their defaults.

    Raises UnsupportedError for a field that the schema does not know, which would be lost.
    """
    schema = table.buffer.schema
    for place in range(schema.places[table.name], table.places):
        if table.is_set(place):
            raise UnsupportedError(
                f"{table.path} has a field of a later version", record=table.buffer.record,
                offset=table.buffer.start + table.position,
                hint="It would be lost. The file can be read and copied, but not edited",
            )  # fmt: skip
    slots = schema.slots[table.name]
    found: Values = {}
    for name, slot in slots.items():
        value = table.get(name)
        if value is not None:
            found[name] = _value(value, slot)
    return found


def set_scalar(values: Values, field: str, value: int) -> None:
    """Set a scalar as writers do: omit it if it is 0, the default of all."""
    if value:
        values[field] = value
    elif values.get(field):
        del values[field]


def _value(found: Any, slot: Slot) -> Any:
    if isinstance(found, Table):
        values = table_values(found)
        return (found.name, values) if slot.is_union else values
    if slot.is_vector and slot.element not in SCALARS:
        return [table_values(inner) for inner in found]
    return found


Alignments = Mapping[tuple[str, str], int]
"""The alignment of vectors by table and field, where it is not what the schema says."""

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
        given = [slot for key, slot in self._schema.slots[name].items() if key in values]
        fields = [one for slot in given for one in self._fields(name, slot, values)]
        if self._order in _BY_SIZE:
            fields.sort(key=lambda one: (one.width, one.place), reverse=True)
        end = self._size
        for one in fields:
            end = one.end = align_up(end, one.width) + one.width
            self._widest = max(self._widest, one.width)
        return self._add_table(align_up(end, 4) + 4, fields)

    def _add_table(self, position: int, fields: Sequence[_Written]) -> int:
        """Lay out the fields, and a vtable before them unless an equal one exists."""
        content = bytearray(position - self._size)
        for one in fields:
            value = one.end - one.value if one.is_offset else one.value
            struct.pack_into(f"<{one.letter}", content, position - one.end, value)
        vtable = _vtable(len(content), {one.place: position - one.end for one in fields})
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
        self._add(bytes(align_up(place, width) - place))

    def _add(self, data: Bytes) -> int:
        """Prepend bytes. Returns the position of the first of them."""
        if len(data):
            self._parts.append(data)
            self._size += len(data)
        return self._size


def _vtable(size: int, places: Mapping[int, int]) -> bytes:
    """Return a vtable: its size, that of the table, and the offset of each field, 0 if absent."""
    entries = [places.get(place, 0) for place in range(max(places, default=-1) + 1)]
    return struct.pack(f"<{len(entries) + 2}H", 4 + 2 * len(entries), size, *entries)


# Alignments that writers may use for blobs in the tables of a program, the usual first.
_ALIGNMENTS: Final = tuple(1 << power for power in range(4, 13))
_BLOBS: Final = {
    "constant_buffer": ("Buffer", "storage"),
    "backend_delegate_data": ("BackendDelegateInlineData", "data"),
}


@dataclass(frozen=True, slots=True)
class TableEncoding:
    """The encoding of a file's tables, which end at ``size``, possibly before the buffer ends.

    ``inserted`` bytes stand between head and body. Both are None when no known order gives the
    tables of the file, which are then written in the current one.
    """

    order: Order = Order.PYTHON
    alignments: dict[tuple[str, str], int] = field(default_factory=dict)
    inserted: int | None = None
    size: int | None = None


def detect_encoding(root: Table, values: Values, header: Header | None) -> TableEncoding:
    """Return the first order that gives the tables of a file; ``values`` are their contents.

    The offset of the root tells how much is inserted before them: at least the header, nothing in a
    file without one.
    """
    for alignments, order in product(_alignments(root), Order):
        made = encode(root.buffer.schema, values, order, alignments)
        inserted = root.position - made.root
        is_possible = inserted == 0 if header is None else inserted >= header.length
        if is_possible and made.body.is_at(root.buffer.data, AT + inserted):
            return TableEncoding(order, alignments, inserted, AT + inserted + len(made.body))
    return TableEncoding()


def _alignments(root: Table) -> Iterator[dict[tuple[str, str], int]]:
    """Yield the alignments that the writer may have used, judging by the positions of blobs."""
    known = [name for name in _BLOBS if name in root.buffer.schema.slots[root.name]]
    starts = {name: _blob_starts(root, name) for name in known}
    present = [name for name in known if starts[name]]
    # The usual alignment, and larger ones at whose multiples all blobs begin.
    usual, *larger = _ALIGNMENTS
    possible = [
        [usual, *(width for width in larger if not any(start % width for start in starts[name]))]
        for name in present
    ]
    for chosen in product(*possible):
        yield {_BLOBS[name]: width for name, width in zip(present, chosen, strict=True)}


def _blob_starts(root: Table, field: str) -> list[int]:
    """Return where blobs begin; empty ones, not always aligned, only if there are no others."""
    blob = _BLOBS[field][1]
    tables = [table for table in root.tables(field) or () if table.has(blob)]
    full = [table for table in tables if table.data(blob)]
    return [table.data_start(blob) for table in full or tables]
