"""The decoded contents of files: programs (.pte), data files (.ptd), bundled programs (.bpte).

A program has methods, and the locations of their data. Segments are byte ranges behind the tables
of a program or data file; keys name tensors and other bytes in them. A bundled program is a whole
program with test calls and their expected results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

from tsarchive.container.extent import RESCUE, Extent
from tsarchive.container.source import Source
from tsarchive.errors import FormatError, LimitError, MissingRecordError
from tsarchive.formats.executorch.schema import (
    BUNDLED_PROGRAM,
    FLAT_TENSOR,
    FLAT_TENSOR_06,
    PROGRAM,
)

from .flatbuffer import Buffer, EncodedFile, Table, check_all
from .header import AT, PROGRAM_MAGIC, Header, read_data_header, read_program_header
from .methods import Delegate, Layout, Method, Tensor, decode_method
from .schema import Schema

RECORD = "program"
TABLES = "tables"
BUNDLE = "bundle"
PROGRAM_PREFIX = "program/"
SUITES = "test_suites/"
_FIELDS_07 = 3

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


class SegmentedFile(EncodedFile):
    """A file whose tables list segments, and keys of bytes in them.

    ``prefix`` precedes the names of records, and ``start`` is the offset in the file, for errors.
    """

    header: Header | None
    prefix: str = ""
    start: int = 0

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments.

        Raises FormatError for one that is not in the file, and for bytes in segments where no
        header stores their base.
        """
        base, limit = 0, self.source.size
        if self.header is not None:
            base = self.header.segment_base
            if self.header.segments_size is not None:
                limit = base + self.header.segments_size
        tables = self._root.tables("segments") or ()
        is_rest = limit == self.source.size and not self.prefix
        return tuple(_segment(table, base, limit, is_rest=is_rest) for table in tables)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries by key in file order; the runtime searches them from the first."""
        slots = self._root.buffer.schema.slots
        has_layouts, is_of_06 = "tensor_layout" in slots["NamedData"], "TensorMetadata" in slots
        entries = tuple(
            Entry(
                table.text("key") or "", table.scalar("segment_index"), 0,
                _layout(table.table("tensor_layout")) if has_layouts else None,
            )
            for table in self._root.tables("named_data") or ()
        )  # fmt: skip
        return _tensors_of_06(self._root) + entries if is_of_06 else entries

    def piece(self, place: Segment) -> memoryview:
        """Return bytes of the file."""
        return self.source.piece(place.start, place.start + place.size)


class DataFile(SegmentedFile):
    """A data file; ``version`` is 0 in every file so far, also those of ExecuTorch 0.6."""

    def __init__(self, source: Source) -> None:
        self.header: Header = read_data_header(source)
        self.is_of_06: bool = self._is_of_06(source)
        super().__init__(source)

    def root(self) -> Table:
        return self._root_of(FLAT_TENSOR_06 if self.is_of_06 else FLAT_TENSOR, self.source)

    @property
    def is_complete(self) -> bool:
        """True if segments and keys are both there, which the runtime assumes unchecked."""
        return self._root.has("segments") and self._root.has("named_data")

    @cached_property
    def by_key(self) -> Mapping[str, Entry]:
        """The first entry of each key."""
        return first_by_key((entry.key, entry) for entry in self.entries)

    def entry(self, key: str) -> Entry:
        """Return the first entry of a key. Raises MissingRecordError when there is none."""
        found = self.by_key.get(key)
        if found is None:
            raise MissingRecordError(f"the data file has no {key!r}", record=TABLES)
        return found

    def data_of(self, entry: Entry) -> memoryview:
        """Return the bytes of an entry. Raises what ``entry_place`` raises."""
        return self.piece(self.entry_place(entry))

    def entry_place(self, entry: Entry) -> Segment:
        """Return where an entry is. Raises FormatError when its segment has too few bytes."""
        if not 0 <= entry.segment < len(self.segments):
            message = f"{entry.key!r} names segment {entry.segment}, which is not there"
            raise FormatError(message, record=TABLES, limit=len(self.segments))
        found = self.segments[entry.segment]
        if entry.layout is None:
            return found
        return _place_in(found, entry.offset, entry.layout.nbytes, f"segments/{entry.segment}")

    def _is_of_06(self, source: Source) -> bool:
        """Return whether the file is of 0.6, which has a number in place of the vector of segments.

        Later tables have three fields. Were they extended, a misdetection would require that all of
        them read as tables of 0.6, and that the vector lies at a distance which is a power of two.
        """
        root = self._root_of(FLAT_TENSOR_06, source)
        if not any(root.is_set(place) for place in range(_FIELDS_07, root.places)):
            return False
        try:
            check_all(root)
        except (FormatError, LimitError):
            return False
        alignment: int = root.scalar("tensor_alignment")
        return alignment & (alignment - 1) == 0

    def _root_of(self, schema: Schema, source: Source) -> Table:
        return Buffer(source.piece(0, self.header.tables_size), schema, TABLES).root()


def _segment(table: Table, base: int, limit: int, *, is_rest: bool) -> Segment:
    """Return a segment that ends within ``limit``, where the file ends if they are its rest."""
    start, size = base + table.scalar("offset"), table.scalar("size")
    if not size:
        return Segment(min(start, limit), 0)
    if not base:
        message = "it has bytes, and no header tells where segments begin"
        raise table.buffer.error(table.position, f"{table.path}: {message}")
    if start + size > limit:
        message = f"{table.path} ends at {start + size:,}"
        error = table.buffer.error(table.position, message, limit)
        if is_rest:
            extent = Extent(limit, start + size, is_exact=False)
            error.hint = f"The file may be cut short: {extent.text}. {RESCUE}"
        raise error
    return Segment(start, size)


def _tensors_of_06(root: Table) -> tuple[Entry, ...]:
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
    start, size = _place_in(Segment(0, len(data)), offset, size, record)
    return data[start : start + size]


def _place_in(whole: Segment, offset: int, size: int, record: str | None) -> Segment:
    if offset + size > whole.size:
        message = f"a tensor of {size:,} bytes at {offset:,} ends behind its record"
        raise FormatError(message, record=record, offset=offset, limit=whole.size)
    return Segment(whole.start + offset, size)


def first_by_key(pairs: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    """Return the first value of each key, as the runtime finds it."""
    found: dict[str, _T] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


@dataclass(frozen=True, slots=True)
class Subsegment:
    """Tensors in a segment, by their offsets in it. The first is a placeholder."""

    segment: int
    offsets: tuple[int, ...]


class Program(SegmentedFile):
    """A program; ``version`` is 0 in every file so far. All bytes are views of ``source``."""

    def __init__(self, source: Source, prefix: str = "", start: int = 0) -> None:
        self.prefix = prefix
        self.start = start
        self.header: Header | None = read_program_header(source)
        self._decoded: dict[int, Method] = {}
        super().__init__(source)

    def root(self) -> Table:
        size = self.source.size if self.header is None else self.header.tables_size
        is_all = self.header is None and not self.prefix
        record = f"{self.prefix}{RECORD}"
        tables = self.source.piece(0, size)
        return Buffer(tables, PROGRAM, record, self.start, fills_file=is_all).root()

    @property
    def named_data(self) -> tuple[Entry, ...]:
        """The entries, by the name that the tables of programs have for them."""
        return self.entries

    @cached_property
    def method_names(self) -> tuple[str, ...]:
        """Method names in file order; the runtime searches them from the first."""
        return tuple(plan.label("name") or "" for plan in self._plans)

    @cached_property
    def indices(self) -> Mapping[str, int]:
        """The index of the first method of each name."""
        return first_by_key((name, index) for index, name in enumerate(self.method_names))

    @cached_property
    def methods(self) -> tuple[Method, ...]:
        return tuple(self._method(index) for index in range(len(self._plans)))

    @property
    def reachable_methods(self) -> tuple[Method, ...]:
        """The first method of each name, which is the one that the runtime finds."""
        return tuple(self.methods[index] for index in self.indices.values())

    @cached_property
    def external_names(self) -> tuple[str, ...]:
        """The keys that a data file must have."""
        stored = (tensor for method in self.methods for _, tensor in method.stored_tensors)
        return tuple(dict.fromkeys(tensor.name or "" for tensor in stored if tensor.is_external))

    def method(self, name: str) -> Method:
        """Return the first method of this name. Raises MissingRecordError when there is none."""
        index = self.indices.get(name)
        if index is None:
            known = ", ".join(self.method_names) or "none"
            message = f"the program has no method {name!r}"
            raise MissingRecordError(message, record=RECORD, hint=f"It has: {known}")
        return self._method(index)

    def segment(self, index: int) -> memoryview:
        """Return the bytes of a segment. Raises what ``segment_place`` raises."""
        return self.piece(self.segment_place(index))

    def segment_place(self, index: int) -> Segment:
        """Return where a segment is. Raises FormatError when there is none of this number."""
        return self._numbered(self.segments, index, "segment")

    @cached_property
    def constants(self) -> Subsegment | None:
        """The constants that are stored in a segment."""
        table = self._root.table("constant_segment")
        return None if table is None else _subsegment(table)

    @cached_property
    def mutable_data(self) -> tuple[Subsegment, ...]:
        """Initial values of buffers. The runtime uses only the first entry."""
        return tuple(map(_subsegment, self._tables("mutable_data_segments")))

    @cached_property
    def inline_constants(self) -> tuple[Segment, ...]:
        """Where constants are of files before ExecuTorch 0.4, the first of them a placeholder."""
        return self._blobs("constant_buffer", "storage")

    @cached_property
    def inline_delegates(self) -> tuple[Segment, ...]:
        """Where backend programs are that are stored in the tables."""
        return self._blobs("backend_delegate_data", "data")

    def tables_alone(self) -> bytes:
        """Return a program with the same tables and no segments: its methods without data."""
        if self.header is None:
            return bytes(self.data)
        found = bytearray(self.source.piece(0, self.header.tables_size))
        found[AT : AT + len(PROGRAM_MAGIC)] = bytes(len(PROGRAM_MAGIC))
        return bytes(found)

    def _blobs(self, field: str, inner: str) -> tuple[Segment, ...]:
        """Return where each blob in the tables is."""
        return tuple(
            Segment(table.data_start(inner), len(table.data(inner) or b""))
            for table in self._tables(field)
        )

    def delegate_data(self, delegate: Delegate) -> memoryview:
        """Return the program given to a backend. Raises what ``delegate_place`` raises."""
        return self.piece(self.delegate_place(delegate))

    def delegate_place(self, delegate: Delegate) -> Segment:
        """Return where the program given to a backend is. Raises FormatError when it is missing."""
        if not delegate.is_inline:
            return self.segment_place(delegate.index)
        return self._numbered(self.inline_delegates, delegate.index, "inline delegate")

    def initial_data(self, tensor: Tensor) -> memoryview | None:
        """Return the initial bytes of a tensor; None for one that the file has none for.

        Raises what ``initial_place`` raises.
        """
        place = self.initial_place(tensor)
        return None if place is None else self.piece(place)

    def initial_place(self, tensor: Tensor) -> Segment | None:
        """Return where the initial bytes of a tensor are; None where the file has none.

        Raises FormatError where there are fewer than the tensor takes.
        """
        if tensor.is_external or not tensor.data_index:
            return None
        group = self.group_of(tensor)
        if group is None:
            found = self._numbered(self.inline_constants, tensor.data_index, "inline constant")
            return _place_in(found, 0, tensor.nbytes, self.record)
        offset = self._numbered(group.offsets, tensor.data_index, "constant")
        record = f"{self.prefix}segments/{group.segment}"
        return _place_in(self.segment_place(group.segment), offset, tensor.nbytes, record)

    def place_of(self, tensor: Tensor) -> tuple[str, int | None]:
        """Return the record of a tensor's initial bytes, and their offset in it, if it is known."""
        try:
            group = self.group_of(tensor)
        except FormatError:
            return "data", None
        if group is None:
            return f"constants/{tensor.data_index}", 0
        is_known = tensor.data_index < len(group.offsets)
        offset = group.offsets[tensor.data_index] if is_known else None
        return f"segments/{group.segment}", offset

    def group_of(self, tensor: Tensor) -> Subsegment | None:
        """Return the subsegment that a tensor's ``data_index`` refers to; None if inline.

        Raises FormatError for initial values of a program without any.
        """
        if tensor.allocation is not None:
            return self._numbered(self.mutable_data, 0, "mutable segment")
        if self.constants is not None and self.constants.offsets:
            return self.constants
        return None

    @cached_property
    def _plans(self) -> tuple[Table, ...]:
        return self._tables("execution_plan")

    def _tables(self, field: str) -> tuple[Table, ...]:
        return self._root.tables(field) or ()

    def _method(self, index: int) -> Method:
        found = self._decoded.get(index)
        if found is None:
            found = self._decoded[index] = decode_method(self._plans[index])
        return found

    def _numbered(self, items: tuple[_T, ...], index: int, what: str) -> _T:
        if not 0 <= index < len(items):
            message = f"there is no {what} {index}"
            raise FormatError(message, record=self.record, limit=len(items))
        return items[index]


def _subsegment(table: Table) -> Subsegment:
    return Subsegment(table.scalar("segment_index"), table.numbers("offsets") or ())


@dataclass(frozen=True, slots=True)
class BundledTensor(Layout):
    """A tensor and its bytes, which begin at ``start`` in the file."""

    data: memoryview
    start: int


BundledValue: TypeAlias = BundledTensor | int | bool | float | None


@dataclass(frozen=True, slots=True)
class Case:
    """The arguments and results of one call."""

    inputs: tuple[BundledValue, ...]
    expected_outputs: tuple[BundledValue, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """The calls of one method."""

    method: str
    cases: tuple[Case, ...]


class BundledProgram(EncodedFile):
    """A bundled program; ``version`` is that of the bundle."""

    def root(self) -> Table:
        return Buffer(self.data, BUNDLED_PROGRAM, BUNDLE, fills_file=True).root()

    @cached_property
    def program(self) -> Program:
        """The program, a whole .pte file. Raises FormatError when there is none."""
        found = self._root.data("program")
        if found is None:
            raise FormatError("the bundle has no program", record=BUNDLE)
        return Program(Source(found), PROGRAM_PREFIX, self._root.data_start("program"))

    @cached_property
    def test_suites(self) -> tuple[Suite, ...]:
        return tuple(map(_suite, self._root.tables("method_test_suites") or ()))

    def tensors(self) -> Iterator[tuple[str, BundledTensor]]:
        """Yield the tensors of all calls by name: ``test_suites/forward/0/inputs/1``."""
        for suite in self.test_suites:
            for number, case in enumerate(suite.cases):
                folder = f"{SUITES}{suite.method}/{number}"
                yield from _tensors(f"{folder}/inputs", case.inputs)
                yield from _tensors(f"{folder}/expected_outputs", case.expected_outputs)


def _tensors(folder: str, values: tuple[BundledValue, ...]) -> Iterator[tuple[str, BundledTensor]]:
    for index, value in enumerate(values):
        if isinstance(value, BundledTensor):
            yield f"{folder}/{index}", value


def _suite(table: Table) -> Suite:
    cases = tuple(
        Case(_values(case, "inputs"), _values(case, "expected_outputs"))
        for case in table.tables("test_cases") or ()
    )
    return Suite(table.label("method_name") or "", cases)


def _values(table: Table, field: str) -> tuple[BundledValue, ...]:
    return tuple(_value(inner.member("val")) for inner in table.tables(field) or ())


def _value(table: Table | None) -> BundledValue:
    if table is None:
        return None
    if table.name == "Tensor":
        data = table.data("data")
        return BundledTensor(
            table.scalar("scalar_type"), table.numbers("sizes") or (),
            table.numbers("dim_order") or (), memoryview(b"") if data is None else data,
            table.data_start("data"),
        )  # fmt: skip
    found: int | bool | float = table.scalar(f"{table.name.lower()}_val")
    return found


Content: TypeAlias = Program | DataFile | BundledProgram
