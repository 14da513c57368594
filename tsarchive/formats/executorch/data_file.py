"""Data files (.ptd), and what programs have in common with them: segments and keys.

Segments are byte ranges behind the tables of a file; keys name tensors and other bytes in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeVar

from tsarchive.errors import FormatError, LimitError, MissingRecordError

from .flatbuffer import FLAT_TENSOR, FLAT_TENSOR_06, Buffer, EncodedFile, Schema, Table, check_all
from .header import Header, read_data_header
from .methods import Layout

RECORD = "tables"
_FIELDS_07 = 3


class DataFile(EncodedFile):
    """A data file; ``version`` is 0 in every file so far, also those of ExecuTorch 0.6."""

    def __init__(self, data: memoryview) -> None:
        self.header: Header = read_data_header(data)
        self.is_of_06 = self._is_of_06(data)
        super().__init__(data)

    def root(self) -> Table:
        return self._root_of(FLAT_TENSOR_06 if self.is_of_06 else FLAT_TENSOR, self.data)

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
        entries = named_data(self._root)
        return tensors_of_06(self._root) + entries if self.is_of_06 else entries

    @cached_property
    def by_key(self) -> Mapping[str, Entry]:
        """The first entry of each key."""
        return first_by_key((entry.key, entry) for entry in self.entries)

    def entry(self, key: str) -> Entry:
        """Return the first entry of a key. Raises MissingRecordError when there is none."""
        found = self.by_key.get(key)
        if found is None:
            raise MissingRecordError(f"the data file has no {key!r}", record=RECORD)
        return found

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

    def _is_of_06(self, data: memoryview) -> bool:
        """Return whether the file is of 0.6, which has a number in place of the vector of segments.

        Later tables have three fields. Were they extended, a misdetection would require that all of
        them read as tables of 0.6, and that the vector lies at a distance which is a power of two.
        """
        root = self._root_of(FLAT_TENSOR_06, data)
        if not any(root.is_set(place) for place in range(_FIELDS_07, root.places)):
            return False
        try:
            check_all(root)
        except (FormatError, LimitError):
            return False
        alignment: int = root.scalar("tensor_alignment")
        return alignment & (alignment - 1) == 0

    def _root_of(self, schema: Schema, data: memoryview) -> Table:
        return Buffer(data[: self.header.tables_size], schema, RECORD).root()


_T = TypeVar("_T")


class Segment(NamedTuple):
    """A byte range, in offsets from the start of the file."""

    start: int
    size: int


class Entry(NamedTuple):
    """A key of bytes in a segment, which several keys may share.

    ``layout`` is None for bytes that are not a tensor, which take the whole segment.
    """

    key: str
    segment: int
    offset: int = 0
    layout: Layout | None = None


def segments_of(root: Table, header: Header | None, size: int) -> tuple[Segment, ...]:
    """Return the segments that a root table lists, each within the file of ``size`` bytes.

    Raises FormatError for one that is not, and for bytes in segments where no header stores their
    base.
    """
    base = 0 if header is None else header.segment_base
    limit = size
    if header is not None and header.segments_size is not None:
        limit = base + header.segments_size
    return tuple(_segment(table, base, limit) for table in root.tables("segments") or ())


def _segment(table: Table, base: int, limit: int) -> Segment:
    start, size = base + table.scalar("offset"), table.scalar("size")
    if not size:
        return Segment(min(start, limit), 0)
    if not base:
        message = "it has bytes, and no header tells where segments begin"
        raise table.buffer.error(table.position, f"{table.path}: {message}")
    if start + size > limit:
        raise table.buffer.error(table.position, f"{table.path} ends at {start + size:,}", limit)
    return Segment(start, size)


def named_data(root: Table) -> tuple[Entry, ...]:
    """Return the entries of a root table in file order; the runtime searches from the first."""
    has_layouts = "tensor_layout" in root.buffer.schema.slots["NamedData"]
    return tuple(
        Entry(
            table.text("key") or "", table.scalar("segment_index"), 0,
            _layout(table.table("tensor_layout")) if has_layouts else None,
        )
        for table in root.tables("named_data") or ()
    )  # fmt: skip


def tensors_of_06(root: Table) -> tuple[Entry, ...]:
    """Return the tensors of a data file of ExecuTorch 0.6."""
    return tuple(
        Entry(
            table.text("fully_qualified_name") or "", table.scalar("segment_index"),
            table.scalar("offset"), _layout(table),
        )
        for table in root.tables("tensors") or ()
    )  # fmt: skip


def _layout(table: Table | None) -> Layout | None:
    if table is None:
        return None
    sizes, order = table.numbers("sizes") or (), table.numbers("dim_order") or ()
    return Layout(table.scalar("scalar_type"), sizes, order)


def part_of(data: memoryview, offset: int, size: int, record: str | None) -> memoryview:
    """Return a range of a record. Raises FormatError where the record is too short."""
    if offset + size > len(data):
        message = f"a tensor of {size:,} bytes at {offset:,} ends behind its record"
        raise FormatError(message, record=record, offset=offset, limit=len(data))
    return data[offset : offset + size]


def first_by_key(pairs: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    """Return the first value of each key, as the runtime finds it."""
    found: dict[str, _T] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found
