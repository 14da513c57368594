"""The common part of drafts of programs and data files: tables, and segments behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tsarchive.errors import FormatError

from .alignment import CONSTANT_ALIGNMENT, SEGMENT_ALIGNMENT, align_up, infer_alignments
from .encoding import encode
from .encoding_detection import TableEncoding, detect_encoding
from .flatbuffer import Table
from .header import AT, Header
from .pieces import Bytes, Pieces
from .schema import Schema
from .segments import Segment
from .table_values import Values, set_scalar, table_values

HeaderWriter: TypeAlias = Callable[[bytes, int, int, int], bytes]


@dataclass(slots=True)
class NewSegment:
    """A segment to write. ``padding`` stood before it, and is kept where its length still fits."""

    data: Bytes
    alignment: int = SEGMENT_ALIGNMENT
    padding: Bytes = b""


@dataclass(slots=True)
class SegmentedDraft:
    """Tables as dicts, and the segments that they refer to by number.

    ``inserted`` follows the first eight bytes of the tables: the header and zeros; nothing in a
    program without bytes in segments, unless ``keeps_header``. Segments begin at a multiple of
    ``base_alignment``, which is 0 where the header stores no base. ``tail`` follows the last table
    and is counted by the header, ``gap`` stood before the first segment, ``trailing`` follows the
    last, and the header counts ``surplus`` bytes of it.
    """

    schema: Schema
    write_header: HeaderWriter
    values: Values
    encoding: TableEncoding
    segments: list[NewSegment] = field(default_factory=list)
    inserted: bytes = b""
    keeps_header: bool = True
    base_alignment: int = SEGMENT_ALIGNMENT
    tail: Bytes = b""
    gap: Bytes = b""
    surplus: int = 0
    trailing: Bytes = b""

    def segment(self, number: int) -> NewSegment:
        """Return a segment. Raises FormatError when there is none of this number."""
        if number >= len(self.segments):
            raise FormatError(f"there is no segment {number}", limit=len(self.segments))
        return self.segments[number]

    def add_segment(self, data: Bytes, alignment: int = SEGMENT_ALIGNMENT) -> int:
        """Append a segment. Returns its number."""
        self.segments.append(NewSegment(data, alignment))
        self.values.setdefault("segments", []).append({})
        return len(self.segments) - 1

    def drop_segment(self, number: int) -> None:
        """Remove a segment. Renumbering references to those behind it is left to the caller."""
        del self.segments[number], self.values["segments"][number]

    def align_segments(self, width: int) -> None:
        """Align all segments to multiples of ``width``."""
        self.base_alignment = width
        for segment in self.segments:
            segment.alignment = width

    def assemble(self) -> Pieces:
        """Return the whole file."""
        behind = self._placed()
        tables = encode(self.schema, self.values, self.encoding.order, self.encoding.alignments)
        inserted = self._inserted(len(behind))
        size = AT + len(inserted) + len(tables.body) + len(self.tail)
        base = self._base(size, len(behind)) if inserted else 0
        if inserted:
            inserted = self.write_header(inserted, size, base, len(behind) + self.surplus)
        gap = _filled(max(base - size, 0), self.gap)
        head = tables.head(len(inserted))
        return Pieces((head, inserted, tables.body, self.tail, gap, behind, self.trailing))

    def _placed(self) -> Pieces:
        """Lay out all segments, and update their tables with the resulting offsets."""
        parts: list[Bytes] = []
        end = 0
        for table, segment in zip(self.values.get("segments", ()), self.segments, strict=True):
            start = align_up(end, segment.alignment)
            set_scalar(table, "offset", start)
            set_scalar(table, "size", len(segment.data))
            parts += (_filled(start - end, segment.padding), segment.data)
            end = start + len(segment.data)
        return Pieces(parts)

    def _inserted(self, nbytes: int) -> bytes:
        if self.inserted and (nbytes or self.keeps_header):
            return self.inserted
        if not nbytes:
            return b""
        made = self.write_header(b"", 0, 0, 0)
        width = max((CONSTANT_ALIGNMENT, *self.encoding.alignments.values()))
        return made.ljust(align_up(len(made), width), b"\0")

    def _base(self, size: int, nbytes: int) -> int:
        """Return where segments begin behind tables of this size."""
        width = self.base_alignment or (SEGMENT_ALIGNMENT if nbytes else 0)
        return align_up(size, width) if width else 0


def open_draft(
    data: memoryview, root: Table, header: Header | None, segments: Sequence[Segment],
    write_header: HeaderWriter,
) -> SegmentedDraft:  # fmt: skip
    """Make a draft of a file; ``segments`` are those of its tables.

    Raises UnsupportedError for tables with fields that would be lost.
    """
    values = table_values(root)
    encoding = detect_encoding(root, values, header)
    draft = SegmentedDraft(root.buffer.schema, write_header, values, encoding)
    if encoding.size is not None:
        draft.tail = root.buffer.data[encoding.size :]
    if header is None:
        draft.keeps_header = False
        draft.segments = [NewSegment(b"") for _ in segments]
    else:
        draft.keeps_header = not any(segment.size for segment in segments)
        draft.inserted = _inserted(data, header, encoding)
        _read_segments(draft, segments, header, data)
    return draft


def _inserted(data: memoryview, header: Header, encoding: TableEncoding) -> bytes:
    """Return the header, and the bytes between it and the body of the tables."""
    if encoding.inserted is not None:
        return bytes(data[AT : AT + encoding.inserted])
    found = bytes(data[AT : AT + header.length])
    return found.ljust(align_up(len(found), CONSTANT_ALIGNMENT), b"\0")


def _read_segments(
    draft: SegmentedDraft, segments: Sequence[Segment], header: Header, data: memoryview
) -> None:
    """Read the segments, and the bytes before, between and behind them."""
    base, end = header.segment_base or header.tables_size, 0
    places = [(header.tables_size, base)]
    for table, (start, size) in zip(draft.values.get("segments", ()), segments, strict=True):
        offset = table.get("offset", 0)
        places.append((end, offset))
        # The offset of an empty segment may be anything.
        is_there = start == base + offset
        padding = data[base + end : start] if is_there else b""
        draft.segments.append(NewSegment(data[start : start + size], padding=padding))
        end = max(end, offset + size) if is_there else end
    widths = infer_alignments(places, SEGMENT_ALIGNMENT)
    draft.base_alignment = widths[0] if header.segment_base else 0
    for segment, width in zip(draft.segments, widths[1:], strict=True):
        segment.alignment = width
    draft.gap = data[header.tables_size : base]
    draft.surplus = (header.segments_size or end) - end
    draft.trailing = data[base + end :]


def _filled(size: int, old: Bytes) -> Bytes:
    return old if len(old) == size else bytes(size)
