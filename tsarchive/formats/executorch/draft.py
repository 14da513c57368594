"""Editing and writing of programs, data files and bundled programs, and whether bytes are stable.

A file is stable if its tables, encoded anew, are the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, TypeAlias

from tsarchive.comparing import (
    GraphReport,
    JitterReport,
    ReadComparison,
    RecordDifference,
    Unprinted,
    changes,
)
from tsarchive.container.source import Source
from tsarchive.container.writer import replacing
from tsarchive.errors import CallError, FormatError, MissingRecordError, UnsupportedError
from tsarchive.formats.executorch.schema import BUNDLED_PROGRAM, FLAT_TENSOR

from .content import (
    BUNDLE,
    RECORD,
    SUITES,
    TABLES,
    BundledProgram,
    Content,
    DataFile,
    Entry,
    Program,
    first_by_key,
    part_of,
)
from .encoding import (
    SEGMENT_ALIGNMENT,
    Bytes,
    Order,
    Pieces,
    TableEncoding,
    Values,
    detect_encoding,
    encode,
    require_alignment,
    set_scalar,
    table_values,
)
from .header import data_header
from .methods import Layout
from .program_draft import (
    ProgramDraft,
    SegmentedDraft,
    StoredTensor,
    bytes_for,
    layout_of,
    make_external,
    make_internal,
    open_draft,
    raw_bytes,
    segment_users,
)
from .regions import Regions, opened_regions

if TYPE_CHECKING:
    from .view import ExecutorchView


# Headers of 40 bytes, rounded up to the alignment of tables.
_TABLES_AT: Final = 48
_UPGRADE: Final = "Call upgrade() first, which writes it in the layout of today"


class DataDraft:
    """Entries by key, in segments that several entries may share."""

    def __init__(self, found: DataFile | None = None) -> None:
        self.is_of_06 = found is not None and found.is_of_06
        self.file = _new_file() if found is None else open_draft(found, data_header)
        self.file.keeps_header = True
        self.is_edited = found is None
        self._found = found
        self._added: dict[object, int] = {}

    @property
    def layouts(self) -> Mapping[str, Layout | None]:
        """The layout of each key, None for bytes that are not a tensor."""
        return {key: self._layout(table) for key, table in self._entries().items()}

    def replace(self, key: str, data: Any) -> None:
        """Replace the bytes of a key; keys that share the old ones keep them."""
        table = self._entry(key)
        self._require_today()
        segment = self.file.segment(table.get("segment_index", 0))
        layout = self._layout(table)
        if layout is None:
            new: Bytes = raw_bytes(key, len(segment.data), data)
        else:
            new = bytes_for(key, layout, data)
        users = [each.get("segment_index", 0) for _, each in _keyed(self.file.values)]
        if users.count(table.get("segment_index", 0)) > 1:
            set_scalar(table, "segment_index", self.file.add_segment(new, segment.alignment))
        else:
            segment.data = new

    def rename(self, old: str, new: str) -> None:
        """Rename a key.

        Raises MissingRecordError when there is no such key, CallError when the new one is taken.
        """
        table = self._entry(old)
        if new in self._entries():
            raise CallError(f"the data file has {new!r} already")
        table["fully_qualified_name" if "key" not in table else "key"] = new

    def is_new(self, key: str, layout: Layout | None, data: Bytes) -> bool:
        """Return whether there is no entry of this key.

        Raises CallError when there is a different one, UnsupportedError for a file of ExecuTorch
        0.6.
        """
        self._require_today()
        known = self._entries().get(key)
        if known is None:
            return True
        old = self.file.segment(known.get("segment_index", 0)).data
        if self._layout(known) != layout or old != data:
            hint = "Rename it in one of them"
            raise CallError(f"both files have {key!r}, and not the same", hint=hint)
        return False

    def add(
        self, key: str, layout: Layout | None, data: Bytes, source: object,
        alignment: int = SEGMENT_ALIGNMENT,
    ) -> None:  # fmt: skip
        """Add an entry that ``is_new``; entries with the same ``source`` share a segment."""
        number = self._added.get(source)
        if number is None:
            number = self._added[source] = self.file.add_segment(data, alignment)
        self.file.values.setdefault("named_data", []).append(_entry(key, number, layout))

    def merge(self, other: DataFile) -> None:
        """Add all entries of another file.

        Raises CallError for a key that differs between the two.
        """
        found = [(entry, other.data_of(entry)) for entry in other.by_key.values()]
        new = [(one, data) for one, data in found if self.is_new(one.key, one.layout, data)]
        for one, data in new:
            self.add(one.key, one.layout, data, (other, one.segment, one.offset, len(data)))

    def upgrade(self) -> bool:
        """Convert a file of ExecuTorch 0.6 to the current layout. Returns whether it was one."""
        if not self.is_of_06:
            return False
        assert self._found is not None
        self.file = _new_file()
        self.is_of_06 = False
        self.merge(self._found)
        return True

    def assemble(self) -> Pieces:
        """Return the whole file."""
        return self.file.assemble()

    def _entries(self) -> dict[str, Values]:
        """Return the first table of each key."""
        return first_by_key(_keyed(self.file.values))

    def _entry(self, key: str) -> Values:
        found = self._entries().get(key)
        if found is None:
            raise MissingRecordError(f"the data file has no {key!r}", record=TABLES)
        return found

    def _layout(self, table: Values) -> Layout | None:
        described = table if "fully_qualified_name" in table else table.get("tensor_layout")
        return None if described is None else layout_of(described)

    def _require_today(self) -> None:
        if self.is_of_06:
            raise UnsupportedError("the data file is of ExecuTorch 0.6", hint=_UPGRADE)


def _new_file() -> SegmentedDraft:
    values: Values = {"segments": [], "named_data": []}
    made = SegmentedDraft(FLAT_TENSOR, data_header, values, TableEncoding(Order.FLATC))
    made.inserted = data_header(b"", _TABLES_AT, 0, 0).ljust(_TABLES_AT, b"\0")
    return made


def _keyed(root: Values) -> Iterator[tuple[str, Values]]:
    """Yield all entries, in files of 0.6 tensors before others."""
    for table in root.get("tensors", ()):
        yield table.get("fully_qualified_name", ""), table
    for table in root.get("named_data", ()):
        yield table.get("key", ""), table


def _entry(key: str, number: int, layout: Layout | None) -> Values:
    table: Values = {"key": key}
    set_scalar(table, "segment_index", number)
    if layout is not None:
        made: Values = {"sizes": layout.sizes, "dim_order": bytes(layout.dim_order)}
        set_scalar(made, "scalar_type", layout.scalar_type)
        table["tensor_layout"] = made
    return table


def externalize(program: ProgramDraft, data: DataDraft, names: Iterable[str] | None) -> None:
    """Move tensors, and bytes that backends read by key, to a data file; all if ``names`` is None.

    Raises MissingRecordError for a name that is not there; CallError when there is nothing to
    move, for a tensor that is in a data file already, and when that one has other bytes of a name.
    """
    tensors, keys = program.tensors, _keys(program)
    if names is None:
        chosen = [*(name for name, one in tensors.items() if not one.is_external), *keys]
    else:
        chosen = list(dict.fromkeys(names))
    if not chosen:
        raise CallError("there is nothing to move: the program has no constants in it")
    moved = [_inside(program, name) for name in chosen if name in tensors or name not in keys]
    moved_keys = [name for name in chosen if name in keys and name not in tensors]
    new = {one.name for one in moved if data.is_new(one.name, one.layout, _bytes(program, one))}
    new |= {key for key in moved_keys if data.is_new(key, None, _bytes_of_key(program, key))}
    _move_tensors(program, data, moved, new)
    _move_keys(program, data, moved_keys, new)


def internalize(program: ProgramDraft, data: DataFile, names: Iterable[str] | None) -> list[str]:
    """Move entries of a data file into the program; all that it can use if ``names`` is None.

    Returns the names. Raises MissingRecordError for a name that the program or the data file lacks,
    CallError for a tensor or key that the program has itself, FormatError where they disagree about
    a tensor.
    """
    # One method's constant may be another's buffer, so several may have the same key.
    outside: dict[str, list[StoredTensor]] = {}
    for one in program.tensors.values():
        if one.is_external:
            outside.setdefault(one.key, []).append(one)
    if names is None:  # tensors in program order, then bytes without layout, which backends read
        plain = (key for key, entry in data.by_key.items() if entry.layout is None)
        names = (*(key for key in outside if key in data.by_key), *plain)
    chosen = list(dict.fromkeys(names))
    found = [(entry := data.entry(name), data.data_of(entry)) for name in chosen]
    for entry, _ in found:
        _require_outside(program, entry, outside.get(entry.key, ()))
    numbers: dict[object, int] = {}
    for entry, content in found:
        if entry.layout is None:
            if entry.segment not in numbers:
                numbers[entry.segment] = program.file.add_segment(content)
            table = _entry(entry.key, numbers[entry.segment], None)
            program.root.setdefault("named_data", []).append(table)
        else:
            for one in outside[entry.key]:
                _add_tensor(program, one, entry, content, numbers)
    program.forget_tensors()
    return chosen


def _move_tensors(
    program: ProgramDraft, data: DataDraft, moved: Sequence[StoredTensor], new: Collection[str]
) -> None:
    """Move tensors; those that share bytes in the program also do in the data file."""
    for one in moved:
        if one.name in new:
            source = (program, one.is_mutable, one.number, one.layout.nbytes)
            data.add(one.name, one.layout, _bytes(program, one), source)
        for table in one.tables:
            make_external(table, one.name)
    program.forget_tensors()
    for is_mutable in (False, True):
        gone = {one.number for one in moved if one.is_mutable == is_mutable}
        if gone:
            program.drop(is_mutable, gone)


def _move_keys(
    program: ProgramDraft, data: DataDraft, moved: Sequence[str], new: Collection[str]
) -> None:
    keys = _keys(program)
    numbers = {keys[key].get("segment_index", 0) for key in moved}
    for key in moved:
        number = keys[key].get("segment_index", 0)
        if key in new:
            alignment = program.file.segments[number].alignment
            data.add(key, None, _bytes_of_key(program, key), (program, number), alignment)
    if moved:
        kept = [table for table in program.root["named_data"] if table.get("key", "") not in moved]
        program.root["named_data"] = kept
    used = {table.get(field, 0) for table, field in segment_users(program.root)}
    for number in sorted(numbers - used, reverse=True):
        program.drop_segment(number)


def _add_tensor(
    program: ProgramDraft, one: StoredTensor, entry: Entry, content: memoryview,
    numbers: dict[object, int],
) -> None:  # fmt: skip
    """Add a tensor; entries that share bytes in the data file also do in the program."""
    source = one.is_mutable, entry.segment, entry.offset, len(content)
    if source not in numbers:
        numbers[source] = program.pool(one.is_mutable).add(content)
    for table in one.tables:
        make_internal(table, numbers[source])


def _keys(program: ProgramDraft) -> dict[str, Values]:
    """Return the first table of each key."""
    return first_by_key(_keyed(program.root))


def _bytes(program: ProgramDraft, one: StoredTensor) -> memoryview:
    data = program.pool(one.is_mutable).item(one.number).data
    assert not isinstance(data, Pieces)
    return part_of(memoryview(data), 0, one.layout.nbytes, RECORD)


def _bytes_of_key(program: ProgramDraft, key: str) -> Bytes:
    return program.file.segment(_keys(program)[key].get("segment_index", 0)).data


def _inside(program: ProgramDraft, name: str) -> StoredTensor:
    one = program.tensor(name)
    if one.is_external:
        raise CallError(f"the bytes of {name!r} are in a data file already")
    return one


def _require_outside(program: ProgramDraft, entry: Entry, tensors: Sequence[StoredTensor]) -> None:
    """Raise unless the program reads the entry from a data file with the same layout."""
    if entry.layout is None:
        if entry.key in _keys(program):
            raise CallError(f"the program has {entry.key!r} itself")
        return
    if not tensors and program.tensor(entry.key):
        raise CallError(f"the program has the bytes of {entry.key!r} itself")
    for one in tensors:
        if entry.layout != one.layout:
            raise FormatError(
                f"{entry.key!r} is {_shown(one.layout)} in the program, and "
                f"{_shown(entry.layout)} in the data file", record=TABLES,
                hint="The two are not of one model",
            )  # fmt: skip


def _shown(layout: Layout) -> str:
    return f"{layout.dtype}{list(layout.sizes)} in the order {list(layout.dim_order)}"


class BundleDraft:
    """The program of a bundle, a draft of its own, and the tensors of its test calls."""

    def __init__(self, found: BundledProgram, program: Draft) -> None:
        root = found.root()
        self._values = table_values(root)
        self._encoding = detect_encoding(root, self._values, None)
        self.program = program
        self.is_edited = False
        end = self._encoding.size
        self._trailing: Bytes = b"" if end is None else found.data[end:]

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """The layouts of the tensors of all calls."""
        return {name: layout_of(table) for name, table in _tensors(self._values)}

    def replace(self, name: str, data: Any) -> None:
        """Replace the bytes of a tensor of a call."""
        found = dict(_tensors(self._values))
        if name not in found:
            raise MissingRecordError(f"the bundle has no tensor {name!r}", record=BUNDLE)
        found[name]["data"] = bytes_for(name, layout_of(found[name]), data)

    def strip_test_suites(self) -> bool:
        """Remove all calls. Returns whether there were any."""
        had_any = bool(self._values.get("method_test_suites"))
        if had_any:
            self._values["method_test_suites"] = []
        return had_any

    def assemble(self) -> Pieces:
        """Return the whole file."""
        if self.program.is_edited:
            self._values["program"] = self.program.pieces()
        made = encode(
            BUNDLED_PROGRAM, self._values, self._encoding.order, self._encoding.alignments
        )
        return Pieces((made.head(), made.body, self._trailing))


def _tensors(root: Values) -> Iterator[tuple[str, Values]]:
    """Yield tensors by the names that archives use: ``test_suites/forward/0/inputs/1``."""
    for suite in root.get("method_test_suites", ()):
        for number, case in enumerate(suite.get("test_cases", ())):
            folder = f"{SUITES}{suite.get('method_name', '')}/{number}"
            for group in ("inputs", "expected_outputs"):
                for index, value in enumerate(case.get(group, ())):
                    kind, table = value.get("val", (None, None))
                    if kind == "Tensor":
                        yield f"{folder}/{group}/{index}", table


STACK_TRACES: Final = "stack-traces"
NAMES: Final = "names"
TEST_SUITES: Final = "test-suites"
STRIPPED: Final = (STACK_TRACES, NAMES, TEST_SUITES)
"""The kinds of data that :meth:`Draft.strip` removes."""

_Drafted: TypeAlias = ProgramDraft | DataDraft | BundleDraft


class Opened(Protocol):
    """The part of an archive from :func:`tsarchive.open` that drafts need."""

    @property
    def executorch(self) -> ExecutorchView:
        """The opened file.

        Raises UnsupportedError for archives that are not files of ExecuTorch.
        """


class Draft:
    """A file of ExecuTorch under edit; the file itself stays as it is.

    Made from an archive, which must stay open until the draft is written: bytes that no edit
    replaces are taken from it then, and never copied before. A draft without edits is written byte
    for byte as the file was; after an edit the tables are encoded anew, in the order of their first
    writer where that is known, and everything else stays as it is: header, padding, alignments.

    Edits of a bundled program apply to its program. An edit that raises leaves the draft as it was.
    All methods except :meth:`write` raise UnsupportedError for tables with fields of a later
    version, which would be lost, and FormatError and LimitError where the file breaks a rule.
    """

    def __init__(self, archive: Opened) -> None:
        regions = archive.executorch.regions
        self._start(regions.content, regions.buffer(), [regions])

    @classmethod
    def of(cls, regions: Regions) -> Draft:
        """Make a draft of an opened file that belongs to no archive."""
        return _draft(regions.content, regions.buffer(), [regions])

    def _start(self, content: Content | None, original: memoryview, sources: list[Regions]) -> None:
        """Initialize; ``content`` is None for a new data file."""
        self._content = content
        self._original = original
        self._sources = sources

    @cached_property
    def _drafted(self) -> _Drafted:
        if isinstance(self._content, Program):
            return ProgramDraft(self._content)
        if isinstance(self._content, BundledProgram):
            return BundleDraft(self._content, self.program)
        return DataDraft(self._content)

    @property
    def is_edited(self) -> bool:
        """True if the draft differs from the file as read."""
        made = (vars(self).get(name) for name in ("_drafted", "program"))
        return any(draft is not None and draft.is_edited for draft in made)

    @property
    def tensors(self) -> Mapping[str, Layout | None]:
        """The tensors that :meth:`replace` accepts, by their names in :attr:`Archive.tensors`.

        None for an entry of a data file that is not a tensor.
        """
        drafted = self._drafted
        if isinstance(drafted, DataDraft):
            return drafted.layouts
        stored = self._program().tensors
        inside = {name: one.layout for name, one in stored.items() if not one.is_external}
        return {**inside, **(drafted.layouts if isinstance(drafted, BundleDraft) else {})}

    @cached_property
    def program(self) -> Draft:
        """The program of a bundle as a draft of its own, which is written as a program.

        Raises UnsupportedError for other files.
        """
        if not isinstance(self._content, BundledProgram):
            raise UnsupportedError("only bundled programs hold another file")
        self._require_unchanged()
        program = self._content.program
        return _draft(program, program.data, self._sources)

    def replace(self, name: str, data: Any) -> None:
        """Replace the bytes of a tensor by an array of its dtype and shape, or by raw bytes.

        ``data`` is anything with the buffer protocol, such as an array of NumPy or ``bytes``, and
        is not copied before the draft is written. Tensors that share the old bytes keep them.

        Raises MissingRecordError when there is no such tensor, UnsupportedError when its bytes are
        in a data file, CallError for another dtype, shape or number of bytes.
        """
        drafted = self._drafted
        if isinstance(drafted, BundleDraft) and name not in drafted.layouts:
            drafted = self._program()
        drafted.replace(name, data)
        drafted.is_edited = True

    def rename(self, old: str, new: str) -> None:
        """Rename a tensor or, in a data file, a key.

        A tensor whose bytes are in a data file is found there by its name: rename both. Keys that
        backends read are named in the backends' own programs, and stay.

        Raises MissingRecordError when there is no such tensor; CallError when the name is taken,
        empty, or one that the runtime would truncate.
        """
        is_text = not any("\ud800" <= letter <= "\udfff" for letter in new)
        if not new or "\0" in new or not is_text:  # a zero ends the name in the runtime
            raise CallError(f"{new!r} is no name of a tensor")
        drafted = self._tables()
        drafted.rename(old, new)
        drafted.is_edited = True

    def externalize(self, names: Iterable[str] | None = None, data: Draft | None = None) -> Draft:
        """Move constants of a program to a data file, a new one or ``data``, and return its draft.

        ``names`` are names in :attr:`tensors`, which become keys, or keys that backends read; all
        of them if None. Program and data file are then written separately, or together by
        :func:`write_together`.

        Raises MissingRecordError for an unknown name; CallError when there is nothing to move, for
        a tensor whose bytes are in a data file already, and where ``data`` has other bytes under a
        name.
        """
        program = self._program()
        target = _draft(None, memoryview(b""), []) if data is None else data
        externalize(program, target._data(), names)
        program.is_edited = target._drafted.is_edited = True
        target._sources += self._sources
        return target

    def internalize(self, archive: Opened, names: Iterable[str] | None = None) -> list[str]:
        """Move entries of a data file into the program; all that it can use if ``names`` is None.

        Returns the names. ``archive`` must stay open until the draft is written.

        Raises UnsupportedError for an archive that is not a data file; MissingRecordError for a
        name that the program or the data file lacks; FormatError where they disagree about a
        tensor; CallError for a name whose bytes the program has itself.
        """
        program = self._program()
        moved = internalize(program, _data_file(archive), names)
        program.is_edited |= bool(moved)
        self._sources.append(archive.executorch.regions)
        return moved

    def merge(self, archive: Opened) -> None:
        """Add all entries of another data file, whose ``archive`` stays open until the draft is
        written.

        Raises CallError for a key that both have with other bytes, UnsupportedError for other
        files, and for files of ExecuTorch 0.6 before :meth:`upgrade`.
        """
        drafted = self._data()
        drafted.merge(_data_file(archive))
        drafted.is_edited = True
        self._sources.append(archive.executorch.regions)

    def strip(self, *what: str) -> list[str]:
        """Remove ``stack-traces``, ``names`` and ``test-suites``; all of them if none is given.

        Names that refer to data files stay. Returns those that were present. Raises CallError for
        anything else, UnsupportedError for data files, which have none of them.
        """
        for one in what:
            if one not in STRIPPED:
                raise CallError(f"{one!r} is none of {', '.join(STRIPPED)}")
        program = self._program()
        ways = {STACK_TRACES: program.strip_stack_traces, NAMES: program.strip_names}
        if isinstance(self._drafted, BundleDraft):
            ways[TEST_SUITES] = self._drafted.strip_test_suites
        found = [name for name, strip in ways.items() if name in (what or STRIPPED) and strip()]
        self._drafted.is_edited |= TEST_SUITES in found
        program.is_edited |= found not in ([], [TEST_SUITES])
        return found

    def align(self, segments: int | None = None, constants: int | None = None) -> None:
        """Align segments, and constants within theirs, to multiples of a number of bytes.

        In a data file, ``segments`` applies to entries. Raises CallError for anything but a power
        of two from 16 to 1,048,576, and for constants of a data file.
        """
        for width in (segments, constants):
            if width is not None:
                require_alignment(width)
        drafted = self._tables()
        if isinstance(drafted, ProgramDraft):
            drafted.align(segments, constants)
        elif constants is not None:
            raise CallError("in a data file segments are aligned, and nothing in them")
        elif segments is not None:
            drafted.file.align_segments(segments)
        drafted.is_edited |= (segments, constants) != (None, None)

    def upgrade(self) -> bool:
        """Convert an old file to the current layout. Returns whether it was one.

        Constants among the tables of a program move to a segment, and its header grows to 32 bytes;
        a data file of ExecuTorch 0.6 gets the tables of 0.7. Current runtimes refuse these files
        otherwise.
        """
        drafted = self._tables()
        is_old = drafted.upgrade()
        drafted.is_edited |= is_old
        return is_old

    def write(self, target: str | os.PathLike[str] | BinaryIO) -> int:
        """Write the file, which may be the one that was read. Returns its size in bytes.

        A path is replaced once everything has been written, and stays as it is after an error.

        Raises FormatError when a file that bytes are taken from was written to since it was opened,
        ArchiveError when it was closed, OSError when the file cannot be written.
        """
        pieces = self.pieces()
        if not isinstance(target, str | os.PathLike):
            return self._write(target, pieces)
        with replacing(os.fsdecode(target)) as stream:
            return self._write(stream, pieces)

    def pieces(self, *, anew: bool = False) -> Pieces:
        """Return the bytes of the file; with ``anew``, tables are encoded even without edits."""
        self._require_unchanged()
        if self.is_edited or anew:
            return self._drafted.assemble()
        return Pieces((self._original,))

    def _write(self, stream: BinaryIO, pieces: Pieces) -> int:
        for part in pieces:  # directly from where they lie
            stream.write(part)
        self._require_unchanged()
        return len(pieces)

    def _require_unchanged(self) -> None:
        for source in self._sources:
            source.buffer()

    def _tables(self) -> ProgramDraft | DataDraft:
        drafted = self._drafted
        return drafted.program._tables() if isinstance(drafted, BundleDraft) else drafted

    def _program(self) -> ProgramDraft:
        drafted = self._tables()
        if isinstance(drafted, DataDraft):
            raise UnsupportedError("a data file has no program")
        return drafted

    def _data(self) -> DataDraft:
        if not isinstance(self._drafted, DataDraft):
            raise UnsupportedError("this is a program, and no data file")
        return self._drafted


def _data_file(archive: Opened) -> DataFile:
    """Return the data file of an archive. Raises UnsupportedError for other archives."""
    regions = archive.executorch.regions
    if not isinstance(regions.content, DataFile):
        raise UnsupportedError(f"a {regions.kind} file is no data file")
    return regions.content


def _draft(content: Content | None, original: memoryview, sources: list[Regions]) -> Draft:
    made = Draft.__new__(Draft)
    made._start(content, original, sources)
    return made


def write_together(drafts: Iterable[tuple[Draft, str | os.PathLike[str]]]) -> list[int]:
    """Write each draft to its path; none is replaced before all are complete.

    Returns the sizes in bytes. Raises CallError for a path that is given twice, OSError when a file
    cannot be written, and what :meth:`Draft.write` raises.
    """
    pairs = [(draft, os.fsdecode(path)) for draft, path in drafts]
    targets = [os.path.realpath(path) for _, path in pairs]
    for target in targets:
        if targets.count(target) > 1:
            raise CallError(f"two files would be written to {target!r}")
    with ExitStack() as files:
        return [draft.write(files.enter_context(replacing(path))) for draft, path in pairs]


def jitter_report(regions: Regions) -> JitterReport:
    """Write a file to nowhere, encode its tables, and encode the result again.

    Raises FormatError and LimitError where the file breaks a rule.
    """
    data = regions.buffer()
    is_copied = Draft.of(regions).pieces().is_all_of(data)
    return JitterReport(
        is_copied,
        len(data),
        (),
        ReadComparison(is_copied, ()),
        _graph_report(regions),
        kind=regions.kind,
    )


def _graph_report(regions: Regions) -> GraphReport:
    """Report where tables differ once they are encoded anew, and once more."""
    try:
        once = Draft.of(regions).pieces(anew=True)
    except UnsupportedError as error:
        return GraphReport(unprinted=(Unprinted(error.record or "", error.message),))
    changed = _changes(regions.buffer(), once, regions)
    if not changed:
        return GraphReport()
    anew = opened_regions(Source(memoryview(once.join())), regions.kind)
    again = Draft.of(anew).pieces(anew=True)
    return GraphReport(changed, _changes(anew.buffer(), again, anew))


def _changes(before: memoryview, after: Pieces, regions: Regions) -> tuple[RecordDifference, ...]:
    """Return the first difference between a file and what would be written, if any.

    It names the smallest record that holds the byte, or the file where no record does.
    """
    if after.is_all_of(before):
        return ()
    (found,) = changes({"": bytes(before)}, {"": after.join()})
    at, records = found.offset, regions.records.values()
    holding = [each for each in records if each.offset <= at < each.offset + each.size]
    if not holding:
        return (found,)
    smallest = min(holding, key=lambda each: each.size)
    return (replace(found, record=smallest.name, offset=at - smallest.offset),)
