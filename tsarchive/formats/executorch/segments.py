"""Segments: byte ranges behind the tables of a program or data file, and their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from tsarchive.errors import FormatError

from .flatbuffer import Table
from .header import Header
from .values import Layout

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
