"""Moving constants between a program and a data file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tsarchive.errors import CallError, FormatError, MissingRecordError

from .data_draft import DataDraft
from .data_file import RECORD, DataFile, Entry
from .pieces import Bytes
from .program import RECORD as PROGRAM
from .program_draft import ProgramDraft
from .program_tensors import StoredTensor, make_external, make_internal
from .segment_users import segment_users
from .segments import part_of
from .table_values import Values, set_scalar
from .values import Layout


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
    outside = _external_tensors(program)
    chosen = list(dict.fromkeys(_usable_keys(outside, data) if names is None else names))
    found = [(entry := _entry(data, name), data.data_of(entry)) for name in chosen]
    for entry, _ in found:
        _require_outside(program, entry, outside.get(entry.key, ()))
    numbers: dict[object, int] = {}
    for entry, content in found:
        if entry.layout is None:
            _add_key(program, entry, content, numbers)
        else:
            for one in outside[entry.key]:
                _add_tensor(program, one, entry, content, numbers)
    program.forget_tensors()
    return chosen


def _external_tensors(program: ProgramDraft) -> dict[str, list[StoredTensor]]:
    """Return the tensors in data files by key; one method's constant may be another's buffer."""
    found: dict[str, list[StoredTensor]] = {}
    for one in program.tensors.values():
        if one.is_external:
            found.setdefault(one.key, []).append(one)
    return found


def _usable_keys(outside: Collection[str], data: DataFile) -> Iterator[str]:
    """Yield tensors in program order, then bytes without layout, which backends read."""
    yield from (key for key in outside if key in data.by_key)
    for key, entry in data.by_key.items():
        if entry.layout is None:
            yield key


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


def _add_key(
    program: ProgramDraft, entry: Entry, content: memoryview, numbers: dict[object, int]
) -> None:
    if entry.segment not in numbers:
        numbers[entry.segment] = program.file.add_segment(content)
    table: Values = {"key": entry.key}
    set_scalar(table, "segment_index", numbers[entry.segment])
    program.root.setdefault("named_data", []).append(table)


def _keys(program: ProgramDraft) -> dict[str, Values]:
    """Return the first table of each key."""
    found: dict[str, Values] = {}
    for table in program.root.get("named_data", ()):
        found.setdefault(table.get("key", ""), table)
    return found


def _bytes(program: ProgramDraft, one: StoredTensor) -> memoryview:
    pool = program.pool(one.is_mutable)
    pool.require(one.number)
    return part_of(memoryview(pool.items[one.number]), 0, one.layout.nbytes, PROGRAM)


def _bytes_of_key(program: ProgramDraft, key: str) -> Bytes:
    return program.file.segment(_keys(program)[key].get("segment_index", 0)).data


def _entry(data: DataFile, name: str) -> Entry:
    found = data.by_key.get(name)
    if found is None:
        raise MissingRecordError(f"the data file has no {name!r}", record=RECORD)
    return found


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
