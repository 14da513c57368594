"""A data file under edit, and moving constants between it and a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tsarchive.errors import CallError, FormatError, MissingRecordError, UnsupportedError

from .data_file import RECORD, DataFile, Entry, first_by_key, part_of
from .encoding import SEGMENT_ALIGNMENT, Bytes, Order, Pieces, TableEncoding, Values, set_scalar
from .header import data_header
from .program import RECORD as PROGRAM
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
from .schema import FLAT_TENSOR
from .values import Layout

# Headers of 40 bytes, rounded up to the alignment of tables.
_TABLES_AT: Final = 48
_UPGRADE: Final = "Call upgrade() first, which writes it in the layout of today"


class DataDraft:
    """Entries by key, in segments that several entries may share."""

    def __init__(self, found: DataFile | None = None) -> None:
        self.is_of_06 = found is not None and found.is_of_06
        self.file = _new_file() if found is None else _opened(found)
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
            raise MissingRecordError(f"the data file has no {key!r}", record=RECORD)
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


def _opened(found: DataFile) -> SegmentedDraft:
    made = open_draft(found.data, found.root(), found.header, found.segments, data_header)
    made.keeps_header = True
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
    return part_of(memoryview(data), 0, one.layout.nbytes, PROGRAM)


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
                f"{_shown(entry.layout)} in the data file", record=RECORD,
                hint="The two are not of one model",
            )  # fmt: skip


def _shown(layout: Layout) -> str:
    return f"{layout.dtype}{list(layout.sizes)} in the order {list(layout.dim_order)}"
