"""A data file (.ptd): tensors and other bytes by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tsarchive.errors import FormatError, LimitError, MissingRecordError

from .flatbuffer import Buffer, Table, check_all
from .header import Header, read_data_header
from .schema import FLAT_TENSOR, FLAT_TENSOR_06, Schema
from .segments import Segment, first_by_key, named_data, part_of, segments_of
from .values import Layout

RECORD = "tables"
_FIELDS_07 = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """A key. ``layout`` is None for bytes that are not a tensor, which take the whole segment."""

    key: str
    segment: int
    offset: int
    layout: Layout | None


class DataFile:
    """A data file in its bytes. Header and root are read at once, the rest on demand.

    ``version`` is that of the schema, 0 in every file so far, also those of ExecuTorch 0.6. All
    reading raises FormatError and LimitError where the file breaks a rule.
    """

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.header: Header = read_data_header(data)
        self.is_of_06 = self._is_of_06()
        self._root = self.root()
        self.version: int = self._root.scalar("version")

    def root(self) -> Table:
        """The root table, not yet read."""
        return self._root_of(FLAT_TENSOR_06 if self.is_of_06 else FLAT_TENSOR)

    @cached_property
    def tables_end(self) -> int:
        """The offset after the last byte of all tables, every one of which is checked."""
        root = self.root()
        check_all(root)
        return root.buffer.end

    @property
    def is_complete(self) -> bool:
        """Whether segments and keys are both there, which the runtime assumes unchecked."""
        return self._root.has("segments") and self._root.has("named_data")

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, all of which lie in the file."""
        return segments_of(self._root, self.header, len(self.data))

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries in file order; the runtime searches them from the first."""
        return tuple(self._entries_of_06() if self.is_of_06 else self._entries())

    @cached_property
    def by_key(self) -> Mapping[str, Entry]:
        """The first entry of each key."""
        return first_by_key((entry.key, entry) for entry in self.entries)

    def read(self, key: str) -> memoryview:
        """Return the bytes of a key, not copied.

        Raises MissingRecordError when there is no such key.
        """
        entry = self.by_key.get(key)
        if entry is None:
            raise MissingRecordError(f"the data file has no {key!r}", record=RECORD)
        return self.data_of(entry)

    def data_of(self, entry: Entry) -> memoryview:
        """Return the bytes of an entry. Raises FormatError when its segment has too few bytes."""
        if not 0 <= entry.segment < len(self.segments):
            message = f"{entry.key!r} names segment {entry.segment}, which is not there"
            raise FormatError(message, record=RECORD, limit=len(self.segments))
        start, size = self.segments[entry.segment]
        found = self.data[start : start + size]
        if entry.layout is None:
            return found
        return part_of(found, entry.offset, entry.layout.nbytes, f"segments/{entry.segment}")

    def _is_of_06(self) -> bool:
        """Return whether the file is of 0.6, which has a number in place of the vector of segments.

        Later tables have three fields. Were they extended, a misdetection would require that all of
        them read as tables of 0.6, and that the vector lies at a distance which is a power of two.
        """
        root = self._root_of(FLAT_TENSOR_06)
        if not any(root.is_set(place) for place in range(_FIELDS_07, root.places)):
            return False
        try:
            check_all(root)
        except (FormatError, LimitError):
            return False
        alignment: int = root.scalar("tensor_alignment")
        return alignment & (alignment - 1) == 0

    def _root_of(self, schema: Schema) -> Table:
        return Buffer(self.data[: self.header.tables_size], schema, RECORD).root()

    def _entries(self) -> Iterator[Entry]:
        for table in self._root.tables("named_data") or ():
            layout = table.table("tensor_layout")
            yield Entry(
                table.text("key") or "", table.scalar("segment_index"), 0,
                None if layout is None else _layout(layout),
            )  # fmt: skip

    def _entries_of_06(self) -> Iterator[Entry]:
        for table in self._root.tables("tensors") or ():
            yield Entry(
                table.text("fully_qualified_name") or "", table.scalar("segment_index"),
                table.scalar("offset"), _layout(table),
            )  # fmt: skip
        yield from (Entry(key, segment, 0, None) for key, segment in named_data(self._root))


def _layout(table: Table) -> Layout:
    sizes, order = table.numbers("sizes") or (), table.numbers("dim_order") or ()
    return Layout(table.scalar("scalar_type"), sizes, order)
