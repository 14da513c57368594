"""Reading FlatBuffers in place: every offset is bounds-checked before it is followed.

Offsets are Python integers, so none overflows. Unknown fields are ignored, as the format demands of
its readers.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any, Final

from tsarchive.container.extent import Extent
from tsarchive.container.source import Source
from tsarchive.errors import AGAIN, FormatError, LimitError

from .schema import SCALARS, TEXT, Schema, Slot

# The limit of FlatBuffers' own verifier.
MAX_TABLES: Final = 1_000_000
MAX_DEPTH: Final = 64
# The runtime itself accepts operator names of less than a hundred letters.
MAX_LABEL: Final = 255
# Writers share hardly anything, but data reachable by several paths is read once for each.
_READ_PER_BYTE: Final = 4
_READ_ALWAYS: Final = 1 << 16

_SCALARS: Final = {name: struct.Struct(f"<{letter}") for name, letter in SCALARS.items()}
_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_I32: Final = struct.Struct("<i")
_ROOT_BYTES: Final = 8
_IDENTIFIER: Final = slice(4, 8)


class Buffer:
    """The bytes of one buffer, and a budget of how much may still be read.

    ``record`` and ``start`` are the record that holds the bytes and the offset of the first in the
    file, for errors. ``end`` is the offset after the last byte read so far. ``fills_file`` tells
    that nothing stands behind the buffer, so that it is cut short where the file is.
    """

    __slots__ = (
        "_bytes_left", "_tables_left", "data", "end", "fills_file", "record", "schema", "size",
        "start",
    )  # fmt: skip

    def __init__(
        self,
        data: memoryview,
        schema: Schema,
        record: str | None = None,
        start: int = 0,
        *,
        fills_file: bool = False,
    ) -> None:
        self.data: memoryview[int] = data
        self.schema: Schema = schema
        self.record: str | None = record
        self.start: int = start
        self.size: int = len(data)
        self.end: int = 0
        self.fills_file: bool = fills_file
        self._bytes_left = self.size * _READ_PER_BYTE + _READ_ALWAYS
        self._tables_left = MAX_TABLES

    def root(self) -> Table:
        """Return the root table.

        Raises FormatError if the identifier or the root offset is wrong.
        """
        name = self.schema.root
        if self.size < _ROOT_BYTES:
            raise self.error(0, f"{name}: a buffer has more bytes", self.size)
        identifier = bytes(self.data[_IDENTIFIER])
        if identifier != self.schema.identifier:
            raise self.error(4, f"the identifier is {identifier!r}, not {self.schema.identifier!r}")
        (position,) = _U32.unpack_from(self.data)
        if position < _ROOT_BYTES:
            raise self.error(0, f"{name}: the offset of the root points into the head", position)
        return Table(self, name, position, None)

    def error(self, position: int, message: str, limit: int | None = None) -> FormatError:
        """Make an error about a position in the buffer."""
        return FormatError(message, record=self.record, offset=self.start + position, limit=limit)

    def beyond(self, position: int, message: str, end: int) -> FormatError:
        """Make an error about something that ends behind the buffer, or is not aligned."""
        error = self.error(position, message, self.size)
        if self.fills_file and end > self.size:
            extent = Extent(self.start + self.size, self.start + end, is_exact=False)
            error.hint = f"The file may be cut short: {extent.text}. {AGAIN}"
        return error

    def count_table(self) -> None:
        self._tables_left -= 1
        if self._tables_left < 0:
            raise LimitError("there are too many tables", record=self.record, limit=MAX_TABLES)

    def count_bytes(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise LimitError("more is shared in the buffer than any writer lets be shared",
                             record=self.record, limit=self.size * _READ_PER_BYTE)  # fmt: skip


class Table:
    """One table. Its vtable is checked at once, each field on access.

    All methods raise FormatError where the buffer breaks a rule of the format, LimitError where
    reading all of it would take more than the size of the buffer justifies.
    """

    __slots__ = (
        "_depth", "_entries", "_from", "_slots", "_vtable", "_vtable_size", "buffer", "name",
        "position",
    )  # fmt: skip

    def __init__(
        self, buffer: Buffer, name: str, position: int,
        parent: Table | None, field: str = "", index: int | None = None,
    ) -> None:  # fmt: skip
        self.buffer: Buffer = buffer
        self.name: str = name
        self.position: int = position
        self._from = (parent, field, index)
        self._slots = buffer.schema.slots[name]
        self._depth: int = 1 if parent is None else parent._depth + 1
        buffer.count_table()
        if self._depth > MAX_DEPTH:
            raise LimitError("tables are nested too deeply", record=buffer.record, limit=MAX_DEPTH)
        self._check()

    def _check(self) -> None:
        """Find the vtable and check that it and the table lie in the buffer, whole and aligned."""
        data, size, at = self.buffer.data, self.buffer.size, self.position
        if at % 4 or at + 4 > size:
            raise self._beyond(at, "the table is not aligned or not in the buffer", at + 4)
        vtable = at - _I32.unpack_from(data, at)[0]
        if vtable % 2 or not 0 <= vtable <= size - 4:
            raise self._beyond(at, f"its vtable would be at {vtable}", vtable + 4)
        self._vtable = vtable
        # The size of the table follows, but may be another table's where writers share vtables.
        (self._vtable_size,) = _U16.unpack_from(data, vtable)
        if self._vtable_size < 4 or self._vtable_size % 2 or vtable + self._vtable_size > size:
            message = f"its vtable has {self._vtable_size} bytes"
            raise self._beyond(vtable, message, vtable + self._vtable_size)
        self.buffer.end = max(self.buffer.end, at + 4, vtable + self._vtable_size)
        known = min(self.places, self.buffer.schema.places[self.name])
        self._entries: tuple[int, ...] = struct.unpack_from(f"<{known}H", data, vtable + 4)

    @property
    def path(self) -> str:
        """The path of the table, such as ``Program.execution_plan[0].values[3]``."""
        parent, field, index = self._from
        if parent is None:
            return self.name
        number = "" if index is None else f"[{index}]"
        return f"{parent.path}.{field}{number}"

    @property
    def places(self) -> int:
        """The number of slots of the vtable; unions take two."""
        return int(self._vtable_size - 4) // 2

    def has(self, field: str) -> bool:
        """Return whether the field is present, rather than defaulted."""
        return self._field(self._slots[field]) is not None

    def is_set(self, place: int) -> bool:
        """Return whether a slot of the vtable is set, known to the schema or not."""
        if place >= self.places:
            return False
        return any(_U16.unpack_from(self.buffer.data, self._vtable + 4 + 2 * place))

    def scalar(self, field: str) -> Any:
        """Return a number or bool, its default where it is absent."""
        slot = self._slots[field]
        at = self._field(slot)
        if at is None:
            return slot.field.default
        return _SCALARS[slot.element].unpack_from(self.buffer.data, at)[0]

    def text(self, field: str) -> str | None:
        at = self._target(self._slots[field])
        if at is None:
            return None
        start, count = self._vector(field, at, 1)
        end = start + count
        if end >= self.buffer.size or self.buffer.data[end]:
            raise self._beyond(at, f"{field} does not end with a zero", end + 1)
        self.buffer.end = max(self.buffer.end, end + 1)
        try:
            return str(self.buffer.data[start:end], "utf-8")
        except UnicodeDecodeError as error:
            raise self._error(start + error.start, f"{field} is not UTF-8") from None

    def label(self, field: str) -> str | None:
        """Return a text that identifies the table and so must be short."""
        found = self.text(field)
        if found is not None and len(found) > MAX_LABEL:
            message = f"{self.path}.{field} has {len(found):,} letters"
            raise LimitError(message, record=self.buffer.record, limit=MAX_LABEL)
        return found

    def table(self, field: str) -> Table | None:
        slot = self._slots[field]
        at = self._target(slot)
        return None if at is None else Table(self.buffer, slot.element, at, self, field)

    def tables(self, field: str) -> tuple[Table, ...] | None:
        """Return a vector of tables."""
        slot = self._slots[field]
        at = self._target(slot)
        if at is None:
            return None
        start, count = self._vector(field, at, 4)
        places = range(start, start + 4 * count, 4)
        return tuple(
            Table(self.buffer, slot.element, self._followed(place, field), self, field, index)
            for index, place in enumerate(places)
        )

    def numbers(self, field: str) -> tuple[Any, ...] | None:
        """Return a vector of scalars."""
        slot = self._slots[field]
        at = self._target(slot)
        if at is None:
            return None
        letter = SCALARS[slot.element]
        start, count = self._vector(field, at, struct.calcsize(f"<{letter}"))
        return struct.unpack_from(f"<{count}{letter}", self.buffer.data, start)

    def data(self, field: str) -> memoryview | None:
        """Return a vector of bytes, not copied."""
        at = self._target(self._slots[field])
        if at is None:
            return None
        start, count = self._vector(field, at, 1, is_read=False)
        return self.buffer.data[start : start + count]

    def data_start(self, field: str) -> int:
        """Return the offset of the first of these bytes in the buffer, 0 where there are none."""
        at = self._target(self._slots[field])
        return 0 if at is None else self._vector(field, at, 1, is_read=False)[0]

    def member(self, field: str) -> Table | None:
        """Return the table that a union holds, None where it holds nothing.

        Raises FormatError for a tag that the schema does not know.
        """
        slot = self._slots[field]
        tag_at = self._at(slot.place - 1, 1, f"the tag of {field}")
        tag = 0 if tag_at is None else self.buffer.data[tag_at]
        at = self._target(slot)
        if tag_at is None or not tag:
            return None
        known = self.buffer.schema.unions[slot.element]
        if tag > len(known):
            raise self._error(tag_at, f"{field} has the unknown tag {tag}", len(known))
        if at is None:
            raise self._error(tag_at, f"{field} is {known[tag - 1]}, which is not there")
        return Table(self.buffer, known[tag - 1], at, self, field)

    def get(self, field: str) -> Any:
        """Return a field of any type, None where it is absent."""
        slot = self._slots[field]
        if slot.is_union:
            return self.member(field)
        if slot.element in self.buffer.schema.tables:
            return self.tables(field) if slot.is_vector else self.table(field)
        if slot.is_vector:
            return self.data(field) if slot.element == "u8" else self.numbers(field)
        if slot.element == TEXT:
            return self.text(field)
        at = self._field(slot)
        return None if at is None else _SCALARS[slot.element].unpack_from(self.buffer.data, at)[0]

    def inner(self) -> Iterator[Table]:
        """Yield every table that this one points to, checking each field."""
        for field, slot in self._slots.items():
            found = self.get(field)
            if isinstance(found, Table):
                yield found
            elif found and slot.element in self.buffer.schema.tables:
                yield from found

    def _field(self, slot: Slot) -> int | None:
        """Return the position of the field itself: of its scalar, or of its target's offset."""
        return self._at(slot.place, slot.width, slot.field.name)

    def _at(self, place: int, width: int, field: str) -> int | None:
        if place >= len(self._entries):
            return None
        entry = self._entries[place]
        if entry == 0:
            return None
        at = self.position + entry
        if entry < 4 or at + width > self.buffer.size:
            raise self._beyond(at, f"{field} is not in the buffer", at + width)
        if at % width:
            raise self._error(at, f"{field} is not aligned", width)
        self.buffer.end = max(self.buffer.end, at + width)
        return at

    def _target(self, slot: Slot) -> int | None:
        at = self._field(slot)
        return None if at is None else self._followed(at, slot.field.name)

    def _followed(self, at: int, field: str) -> int:
        """Follow the offset at ``at``, whose target must lie behind it in the buffer."""
        (offset,) = _U32.unpack_from(self.buffer.data, at)
        target: int = at + offset
        if offset < 4 or target + 4 > self.buffer.size or target % 4:
            raise self._beyond(at, f"{field} would be at {target}", target + 4)
        return target

    def _vector(self, field: str, at: int, width: int, *, is_read: bool = True) -> tuple[int, int]:
        """Return the start and the number of the elements, which must fit into the buffer."""
        (count,) = _U32.unpack_from(self.buffer.data, at)
        start = at + 4
        if start + count * width > self.buffer.size:
            raise self._beyond(at, f"{field} would have {count:,} elements", start + count * width)
        self.buffer.end = max(self.buffer.end, start + count * width)
        if is_read:
            self.buffer.count_bytes(count * width)
        return start, count

    def _beyond(self, position: int, message: str, end: int) -> FormatError:
        return self.buffer.beyond(position, f"{self.path}: {message}", end)

    def _error(self, position: int, message: str, limit: int | None = None) -> FormatError:
        return self.buffer.error(position, f"{self.path}: {message}", limit)


class EncodedFile(ABC):
    """A file that begins with a buffer. The root table is read at once, the rest on demand.

    ``version`` is that of the schema. All reading raises FormatError and LimitError where the file
    breaks a rule.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._root = self.root()
        self.version: int = self._root.scalar("version")

    @abstractmethod
    def root(self) -> Table:
        """Return the root table, not yet read."""

    @property
    def data(self) -> memoryview:
        """All bytes of the file."""
        return self.source.piece(0, self.source.size)

    @property
    def record(self) -> str:
        """The record of the tables."""
        return str(self._root.buffer.record)

    @cached_property
    def tables_end(self) -> int:
        """The offset after the last byte of all tables, every one of which is checked."""
        root = self.root()
        check_all(root)
        return root.buffer.end


def check_all(table: Table) -> None:
    """Check everything reachable from a table, as FlatBuffers' own verifier does."""
    level: list[Table] = [table]
    while level:
        level = list(chain.from_iterable(inner.inner() for inner in level))
