"""A program under edit: tables as dicts, tensors by name, the bytes in segments or tables."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

from tsarchive.errors import CallError, FormatError, MissingRecordError, UnsupportedError

from .content import RECORD, Program, Segment, SegmentedFile, part_of
from .encoding import (
    CONSTANT_ALIGNMENT,
    SEGMENT_ALIGNMENT,
    Bytes,
    Pieces,
    TableEncoding,
    Values,
    align_up,
    detect_encoding,
    encode,
    infer_alignments,
    set_scalar,
    table_values,
)
from .header import AT, Header, program_header
from .methods import Layout
from .schema import Schema

_EXTERNAL: Final = 1
_NUMBER: Final = "data_buffer_idx"
_EXTRA: Final = "extra_tensor_info"
_NAME: Final = "fully_qualified_name"
_LOCATION: Final = "location"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor with initial bytes: its tables, one in each method that has it.

    ``number`` is that of the bytes, 0 where they are in a data file. The bytes of one that
    ``is_mutable`` are copied when a method is loaded.
    """

    name: str
    layout: Layout
    is_external: bool
    is_mutable: bool
    number: int
    tables: tuple[Values, ...]

    @property
    def key(self) -> str:
        """The key of its bytes in a data file, if they are in one."""
        return str(self.tables[0].get(_EXTRA, {}).get(_NAME) or self.name)


def tensors_of(root: Values) -> Iterator[tuple[str, Values]]:
    """Yield all tensors of a program, by method and value number: ``forward.3``."""
    for plan in root.get("execution_plan", ()):
        for index, value in enumerate(plan.get("values", ())):
            kind, table = value.get("val", (None, None))
            if kind == "Tensor":
                yield f"{plan.get('name', '')}.{index}", table


def stored_tensors(root: Values) -> dict[str, StoredTensor]:
    """Return the tensors with bytes in the file or in a data file, by their names in archives.

    Tables of one name are one tensor, unless they differ.
    """
    found: dict[str, StoredTensor] = {}
    for place, table in tensors_of(root):
        extra = table.get(_EXTRA, {})
        is_external = extra.get(_LOCATION, 0) == _EXTERNAL
        number = 0 if is_external else table.get(_NUMBER, 0)
        if not (is_external or number):
            continue
        name, is_mutable = extra.get(_NAME) or place, "allocation_info" in table
        one = StoredTensor(name, layout_of(table), is_external, is_mutable, number, (table,))
        known = found.get(one.name, replace(one, tables=()))
        if replace(known, tables=one.tables) == one:
            found[one.name] = replace(one, tables=known.tables + one.tables)
        else:
            found[place] = replace(one, name=place)
    return found


def layout_of(table: Values) -> Layout:
    """Return the layout of a tensor table, or of a layout table in a data file."""
    sizes, order = table.get("sizes", ()), table.get("dim_order", b"")
    return Layout(table.get("scalar_type", 0), tuple(sizes), tuple(order))


def make_external(table: Values, key: str) -> None:
    """Make a tensor refer to a key of a data file.

    The number stays, though it means nothing any more: the runtime's bindings take an output with
    neither a number nor a place in an arena for one without memory, and give zeros.
    """
    set_name(table, key)
    table[_EXTRA][_LOCATION] = _EXTERNAL


def make_internal(table: Values, number: int) -> None:
    """Make a tensor refer to the bytes of a number."""
    set_scalar(table, _NUMBER, number)
    set_scalar(table.setdefault(_EXTRA, {}), _LOCATION, 0)


def set_name(table: Values, name: str) -> None:
    """Set the name of a tensor, by which data files are searched."""
    table.setdefault(_EXTRA, {})[_NAME] = name


def clear_name(table: Values) -> bool:
    """Remove the name of a tensor that does not need it. Returns whether it had one."""
    extra = table.get(_EXTRA, {})
    if _NAME not in extra or extra.get(_LOCATION, 0) == _EXTERNAL:
        return False
    del extra[_NAME]
    if not extra:
        del table[_EXTRA]
    return True


_IN_SEGMENT = 1


def segment_users(root: Values) -> Iterator[tuple[Values, str]]:
    """Yield each table that refers to a segment, with the field of the number."""
    constants = root.get("constant_segment", {})
    if constants.get("offsets"):
        yield constants, "segment_index"
    for table in (*root.get("mutable_data_segments", ()), *root.get("named_data", ())):
        yield table, "segment_index"
    for plan in root.get("execution_plan", ()):
        for delegate in plan.get("delegates", ()):
            processed = delegate.get("processed", {})
            if processed.get("location", 0) == _IN_SEGMENT:
                yield processed, "index"


HeaderWriter: TypeAlias = Callable[[bytes, int, int, int], bytes]


@dataclass(slots=True)
class Blob:
    """Bytes to write: a segment, or a constant in one.

    ``padding`` stood before a segment, and is kept where its length still fits.
    """

    data: Bytes
    alignment: int = SEGMENT_ALIGNMENT
    padding: Bytes = b""


def starts_of(blobs: Iterable[Blob]) -> Iterator[int]:
    """Yield the offset of each blob, one behind the other at their alignments."""
    end = 0
    for blob in blobs:
        start = align_up(end, blob.alignment)
        yield start
        end = start + len(blob.data)


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
    segments: list[Blob] = field(default_factory=list)
    inserted: bytes = b""
    keeps_header: bool = True
    base_alignment: int = SEGMENT_ALIGNMENT
    tail: Bytes = b""
    gap: Bytes = b""
    surplus: int = 0
    trailing: Bytes = b""

    def segment(self, number: int) -> Blob:
        """Return a segment. Raises FormatError when there is none of this number."""
        if number >= len(self.segments):
            raise FormatError(f"there is no segment {number}", limit=len(self.segments))
        return self.segments[number]

    def add_segment(self, data: Bytes, alignment: int = SEGMENT_ALIGNMENT) -> int:
        """Append a segment. Returns its number."""
        self.segments.append(Blob(data, alignment))
        self.values.setdefault("segments", []).append({})
        return len(self.segments) - 1

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
        width = self.base_alignment or (SEGMENT_ALIGNMENT if len(behind) else 0)
        base = align_up(size, width) if inserted and width else 0
        if inserted:
            inserted = self.write_header(inserted, size, base, len(behind) + self.surplus)
        gap = _filled(max(base - size, 0), self.gap)
        head = tables.head(len(inserted))
        return Pieces((head, inserted, tables.body, self.tail, gap, behind, self.trailing))

    def _placed(self) -> Pieces:
        """Lay out all segments, and update their tables with the resulting offsets."""
        parts: list[Bytes] = []
        end = 0
        tables, starts = self.values.get("segments", ()), starts_of(self.segments)
        for table, segment, start in zip(tables, self.segments, starts, strict=True):
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


def open_draft(found: SegmentedFile, write_header: HeaderWriter) -> SegmentedDraft:
    """Make a draft of a file. Raises UnsupportedError for tables with fields that would be lost."""
    segments, header, root = found.segments, found.header, found.root()
    values = table_values(root)
    encoding = detect_encoding(root, values, header)
    draft = SegmentedDraft(root.buffer.schema, write_header, values, encoding)
    if encoding.size is not None:
        draft.tail = root.buffer.data[encoding.size :]
    if header is None:
        draft.keeps_header = False
        draft.segments = [Blob(b"") for _ in segments]
    else:
        draft.keeps_header = not any(segment.size for segment in segments)
        draft.inserted = _inserted(found.data, header, encoding)
        _read_segments(draft, segments, header, found.data)
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
        draft.segments.append(Blob(data[start : start + size], padding=padding))
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


# Formats of the buffer protocol, by torch's names of dtypes.
_FORMATS: Final = {
    "bool": "?", "uint8": "B", "int8": "b", "int16": "h", "uint16": "H", "int32": "i",
    "uint32": "I", "int64": "lq", "uint64": "LQ", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
_NAMES: Final = {letter: name for name, letters in _FORMATS.items() for letter in letters}


def bytes_for(name: str, layout: Layout, data: Any) -> memoryview:
    """Return the bytes of a tensor from raw bytes or from an array of its dtype and shape.

    Raises CallError for an array of another dtype or shape, and for another number of bytes.
    """
    view = _view(name, data)
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return _of_size(name, view, layout.nbytes)
    _require_like(name, layout, view)
    return _in_order(layout, data, view)


def raw_bytes(name: str, size: int, data: Any) -> memoryview:
    """Return bytes that are not a tensor. Raises CallError unless there are ``size`` of them."""
    view = _view(name, data)
    return _of_size(name, view.cast("B") if view.c_contiguous else memoryview(view.tobytes()), size)


def _view(name: str, data: Any) -> memoryview:
    try:
        return memoryview(data)
    except TypeError:
        raise CallError(
            f"{name!r} cannot be replaced by a {type(data).__name__}",
            hint="Give an array of NumPy (tensor.numpy()) or bytes",
        ) from None


def _of_size(name: str, view: memoryview, size: int) -> memoryview:
    if view.nbytes != size:
        raise CallError(f"{name!r} has {size:,} bytes, not {view.nbytes:,}")
    return view


def _require_like(name: str, layout: Layout, view: memoryview) -> None:
    given = (view.format or "").lstrip("@=<")
    if not given or given not in _FORMATS.get(layout.dtype, ""):
        found = _NAMES.get(given, f"of format {view.format!r}")
        raise CallError(
            f"{name!r} is {layout.dtype}, the array {found}",
            hint="Give an array of that dtype, or the raw bytes",
        )
    if view.shape != layout.sizes:
        raise CallError(f"{name!r} has the sizes {layout.sizes}, the array {view.shape}")


def _in_order(layout: Layout, data: Any, view: memoryview) -> memoryview:
    """Return the elements in memory order, which may differ from the order of dimensions."""
    if layout.dim_order != tuple(range(len(layout.sizes))):
        view = memoryview(data.transpose(layout.dim_order))
    if view.c_contiguous:
        return view.cast("B") if view.nbytes else memoryview(b"")
    return memoryview(view.tobytes())


class Pool(ABC):
    """Numbered ``items`` of bytes; ``write`` stores them in the program.

    New items get the alignment ``usual``.
    """

    def __init__(self, items: list[Blob], usual: int) -> None:
        self.items = items
        self.usual = usual

    def add(self, data: Bytes) -> int:
        """Add an item. Returns its number."""
        self.items.append(Blob(data, self.usual))
        return len(self.items) - 1

    def item(self, number: int) -> Blob:
        """Return an item. Raises FormatError when there is none of this number."""
        if not 0 < number < len(self.items):
            message = f"there is no constant {number}"
            raise FormatError(message, record=RECORD, limit=len(self.items))
        return self.items[number]

    def drop(self, numbers: Collection[int]) -> dict[int, int]:
        """Remove items. Returns the new number of each one that stays."""
        kept = [number for number in range(len(self.items)) if number not in numbers]
        self.items[:] = [self.items[number] for number in kept]
        return {old: new for new, old in enumerate(kept)}

    @abstractmethod
    def align(self, width: int) -> None:
        """Align all items to multiples of ``width``."""

    @abstractmethod
    def write(self) -> None:
        """Store the items in the tables or the segment that they come from."""


class InlinePool(Pool):
    """Constants in tables, as programs before ExecuTorch 0.4 have them."""

    def __init__(self, tables: list[Values], alignments: dict[tuple[str, str], int]) -> None:
        super().__init__([Blob(table.get("storage", b"")) for table in tables], CONSTANT_ALIGNMENT)
        self._tables = tables
        self._before = list(zip(self.items, tables, strict=True))
        self._alignments = alignments

    def align(self, width: int) -> None:
        self._alignments["Buffer", "storage"] = width

    def write(self) -> None:
        """Store the items, those that were not replaced in the tables that they come from."""
        tables = {
            id(item): table
            for item, table in self._before
            if item.data is table.get("storage", b"")
        }
        self._tables[:] = [tables.get(id(item), {"storage": item.data}) for item in self.items]


class SegmentPool(Pool):
    """Items in one segment, their offsets in the table ``group``.

    ``sizes`` are the sizes of those that tensors refer to. New items get the ``usual`` alignment
    unless that of the others is evident.
    """

    def __init__(self, group: Values, segment: Blob, sizes: Mapping[int, int], usual: int) -> None:
        assert not isinstance(segment.data, Pieces)
        self._data = memoryview(segment.data)
        self._offsets = offsets = group.get("offsets") or (0,)
        items = _items(self._data, offsets, sizes)
        ends = [offset + len(item) for offset, item in zip(offsets, items, strict=True)]
        widths = infer_alignments(list(zip(ends[:-1], offsets[1:], strict=True)), usual)
        blobs = list(map(Blob, items, (usual, *widths)))
        super().__init__(blobs, max(widths, default=usual))
        self._group = group
        self.segment = segment

    def align(self, width: int) -> None:
        self.usual = width
        for item in self.items:
            item.alignment = width
        self.segment.alignment = max(self.segment.alignment, width)

    def write(self) -> None:
        """Store the items. Bytes between and after unmoved items stay, others are zeros."""
        offsets = tuple(starts_of(self.items))
        before = self._data if offsets == self._offsets else b""
        parts: list[Bytes] = []
        end = 0
        for item, offset in zip(self.items, offsets, strict=True):
            parts += (before[end:offset] or bytes(offset - end), item.data)
            end = offset + len(item.data)
        self._group["offsets"] = offsets
        self.segment.data = Pieces((*parts, before[end:]))


def _items(data: memoryview, offsets: Sequence[int], sizes: Mapping[int, int]) -> list[Bytes]:
    """Return the items; one that no tensor refers to ends where the next begins."""
    starts = sorted({*offsets, len(data)})
    ends = dict(pairwise(starts))
    items: list[Bytes] = [b""]
    for number, offset in enumerate(offsets[1:], 1):
        size = sizes.get(number, ends.get(offset, offset) - offset)
        items.append(part_of(data, offset, size, RECORD))
    return items


# The length field of a header from before ExecuTorch 1.0.
_OLD_HEADER: Final = struct.pack("<I", 24)
# Initial values of buffers are packed: they are copied when a method is loaded.
_MUTABLE_ALIGNMENT: Final = 1


class ProgramDraft:
    """Tensors by name, and their bytes: constants, and initial values of buffers."""

    def __init__(self, found: Program) -> None:
        self.file = open_draft(found, program_header)
        self.root: Values = self.file.values
        self.is_edited = False
        self._pools: dict[bool, Pool] = {}

    @cached_property
    def tensors(self) -> dict[str, StoredTensor]:
        """All tensors with initial bytes, wherever these are."""
        return stored_tensors(self.root)

    def forget_tensors(self) -> None:
        """Discard the collected tensors, because their tables were changed."""
        vars(self).pop("tensors", None)

    def tensor(self, name: str) -> StoredTensor:
        """Return a tensor. Raises MissingRecordError when there is none of this name."""
        found = self.tensors.get(name)
        if found is None:
            message = f"the program has no tensor {name!r}"
            hint = "'tsarchive tensors' lists those that begin with bytes"
            raise MissingRecordError(message, record=RECORD, hint=hint)
        return found

    def replace(self, name: str, data: Any) -> None:
        """Replace the bytes of a tensor; others that share the old ones keep them."""
        stored = self.tensor(name)
        if stored.is_external:
            hint = "Replace them there"
            raise UnsupportedError(f"the bytes of {name!r} are in a data file", hint=hint)
        new = bytes_for(name, stored.layout, data)
        pool = self.pool(stored.is_mutable)
        item = pool.item(stored.number)
        place = stored.number, stored.is_mutable
        users = (one for one in self.tensors.values() if (one.number, one.is_mutable) == place)
        if sum(len(one.tables) for one in users) == len(stored.tables):
            item.data = new
            return
        number = pool.add(new)
        for table in stored.tables:
            make_internal(table, number)
        self._put(name, replace(stored, number=number))

    def rename(self, old: str, new: str) -> None:
        """Rename a tensor.

        Raises MissingRecordError when there is no such tensor, CallError when the name is taken.
        """
        stored = self.tensor(old)
        if new in self.tensors:
            raise CallError(f"the program has a tensor {new!r} already")
        renamed = [stored]
        if stored.is_external:  # all that share its key are found by the name
            all_ = self.tensors.values()
            renamed = [one for one in all_ if one.is_external and one.key == stored.key]
        for one in renamed:
            for table in one.tables:
                set_name(table, new)
        self._put(old, replace(stored, name=new))

    def strip_stack_traces(self) -> bool:
        """Remove the lines of user source. Returns whether there were any."""
        chains = [chain for plan in self.root.get("execution_plan", ())
                  for chain in plan.get("chains", ())]  # fmt: skip
        return any([chain.pop("stacktrace", None) is not None for chain in chains])

    def strip_names(self) -> bool:
        """Remove names, except those that refer to data files. Returns whether there were any."""
        self.forget_tensors()
        return any([clear_name(table) for _, table in tensors_of(self.root)])

    def align(self, segments: int | None, constants: int | None) -> None:
        """Align segments, or constants within theirs, to multiples of these."""
        pool = None if constants is None or not self._sizes(False) else self.pool(False)
        if segments is not None:
            self.file.align_segments(segments)
        if pool is not None and constants is not None:
            pool.align(constants)
            # The base of segments as well, so that alignments hold in the whole file.
            file = self.file
            if file.inserted:
                end = align_up(len(file.inserted), constants)
                file.inserted = file.inserted.ljust(end, b"\0")
            if file.base_alignment:
                file.base_alignment = max(file.base_alignment, constants)

    def upgrade(self) -> bool:
        """Move inline constants into a segment, and write the current header.

        Returns whether the file had an older layout.
        """
        is_old = self._has_inline_constants
        if is_old:
            items = self.pool(False).items
            self.root["constant_buffer"] = []
            del self._pools[False]
            pool = self.pool(False)
            for item in items[1:]:
                pool.add(item.data)
        if self.file.inserted[4:8] == _OLD_HEADER:
            width = len(self.file.inserted)
            self.file.inserted = program_header(b"", 0, 0, 0).ljust(width, b"\0")
            is_old = True
        return is_old

    def assemble(self) -> Pieces:
        """Return the whole file."""
        for pool in self._pools.values():
            pool.write()
        return self.file.assemble()

    def pool(self, is_mutable: bool) -> Pool:
        """Return the pool of constants, or that of the initial values of buffers."""
        found = self._pools.get(is_mutable)
        if found is None:
            found = self._pools[is_mutable] = self._made_pool(is_mutable)
        return found

    def drop(self, is_mutable: bool, numbers: Collection[int]) -> None:
        """Remove bytes that no tensor refers to any more, renumbering the others."""
        pool, all_ = self.pool(is_mutable), self.tensors.values()
        stored = [one for one in all_ if one.is_mutable == is_mutable and one.number]
        renumbered = pool.drop({*numbers} - {one.number for one in stored})
        for one in stored:
            for table in one.tables:
                make_internal(table, renumbered.get(one.number, one.number))
        self.forget_tensors()
        if is_mutable and len(pool.items) == 1:
            del self._pools[True]
            (group,) = self.root.pop("mutable_data_segments")
            self.drop_segment(group.get("segment_index", 0))

    def drop_segment(self, number: int) -> None:
        """Remove a segment that no table refers to any more, and renumber those behind it."""
        del self.file.segments[number], self.root["segments"][number]
        for table, name in segment_users(self.root):
            if table.get(name, 0) > number:
                set_scalar(table, name, table[name] - 1)

    @property
    def _has_inline_constants(self) -> bool:
        in_segment = self.root.get("constant_segment", {}).get("offsets")
        return not in_segment and bool(self.root.get("constant_buffer"))

    def _put(self, name: str, one: StoredTensor) -> None:
        """Put a tensor in place of the one of this name."""
        self.tensors = dict(
            (one.name, one) if key == name else (key, old) for key, old in self.tensors.items()
        )

    def _sizes(self, is_mutable: bool) -> dict[int, int]:
        found: dict[int, int] = {}
        for one in self.tensors.values():
            if one.is_mutable == is_mutable and one.number:
                found[one.number] = max(found.get(one.number, 0), one.layout.nbytes)
        return found

    def _made_pool(self, is_mutable: bool) -> Pool:
        if is_mutable:
            groups = self.root.setdefault("mutable_data_segments", [])
            if not groups:
                groups.append({})
            return self._segment_pool(groups[0], True, _MUTABLE_ALIGNMENT)
        if self._has_inline_constants:
            return InlinePool(self.root["constant_buffer"], self.file.encoding.alignments)
        group = self.root.setdefault("constant_segment", {})
        return self._segment_pool(group, False, CONSTANT_ALIGNMENT)

    def _segment_pool(self, group: Values, is_mutable: bool, usual: int) -> SegmentPool:
        """Return the pool of a table of offsets, adding a segment if it has none."""
        number = group.get("segment_index", 0)
        others = [table for table, name in segment_users(self.root)
                  if table is not group and table.get(name, 0) == number]  # fmt: skip
        if not group.get("offsets") or others:
            data = self.file.segment(number).data if group.get("offsets") else b""
            group["offsets"] = group.get("offsets") or (0,)
            number = self.file.add_segment(data)
            set_scalar(group, "segment_index", number)
        return SegmentPool(group, self.file.segment(number), self._sizes(is_mutable), usual)
