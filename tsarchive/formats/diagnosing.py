"""What has happened to a file that cannot be opened, in the same words for all verbs.

Sizes of records that are not there any more are told by the pickle that refers to them.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple

from tsarchive.container.diagnosis import BOM, diagnose, file_at, marked_as_text
from tsarchive.container.extent import CUT_SHORT, RESCUE, Extent
from tsarchive.container.recognise import HEAD_BYTES, TORCH_SAVE_LEGACY, Diagnosis
from tsarchive.container.remains import Remains
from tsarchive.container.source import Source
from tsarchive.errors import ArchiveError
from tsarchive.pickler import Global, PersistentId, loads
from tsarchive.pickler.values import STORAGE_TYPES, parts_of

_PICKLE: Final = "data.pkl"
_FOLDER: Final = "data/"
_LEGACY: Final = re.compile(TORCH_SAVE_LEGACY, re.DOTALL)
# Magic number, protocol, the system; then the value, and the keys of its storages.
_BEFORE_VALUE: Final = 3
_COUNT_BYTES: Final = 8
_MOST_PICKLED: Final = 1 << 26
# Pickles are short beside storages: more is read only where these bytes do not have them all.
_PICKLED_AT_FIRST: Final = 1 << 16
_GROWTH: Final = 1 << 5
_MOST_OPCODES: Final = 1 << 22


def diagnosis_of(source: Source) -> Diagnosis | None:
    """Return what has happened to a file; None where it is whole, and where nothing is known."""
    head = bytes(source.piece(0, HEAD_BYTES))
    if _LEGACY.match(head):
        return _of_legacy_checkpoint(source)
    if head.startswith(BOM):
        what = file_at(source, len(BOM))
        if what is not None:
            return marked_as_text(what)
    return diagnose(source, _told_sizes)


def _told_sizes(remains: Remains) -> Mapping[str, int]:
    """Return the sizes of the storages that the values of an archive refer to."""
    member = remains.by_record().get(_PICKLE)
    if member is None or not member.is_whole(remains.data):
        return {}
    try:
        value = loads(b"".join(member.pieces(remains.data)), record=_PICKLE, any_int=True)
    except ArchiveError:
        return {}
    return {f"{_FOLDER}{key}": told.nbytes for key, told in _storages(value).items()}


class _Told(NamedTuple):
    """A storage, as a pickle refers to it; ``itemsize`` is 0 for a kind that is not known."""

    length: int
    itemsize: int

    @property
    def nbytes(self) -> int:
        return self.length * self.itemsize


def _storages(value: Any) -> dict[str, _Told]:
    """Return all storages in a value, by key."""
    found: dict[str, _Told] = {}
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, PersistentId):
            match each.value:
                case ("storage", Global(_, kind), str(key), _, int(count), *_):
                    size = 1 if kind == "UntypedStorage" else _itemsize(kind)
                    found[key] = _Told(max(count, 0), size)
        waiting.extend(parts_of(each))
    return found


def _itemsize(kind: str) -> int:
    """Return the size of an element of a storage; 0 for a kind that is not known."""
    known = STORAGE_TYPES.get(kind)
    return 0 if known is None else known.itemsize


def _of_legacy_checkpoint(source: Source) -> Diagnosis | None:
    """Tell whether a file of torch.save of before torch 1.6 is cut short.

    Its storages stand behind the pickles, in the order of a list of their keys.
    """
    extent = _extent_of_legacy(source)
    if extent is None or extent.missing <= 0:
        return None
    return Diagnosis(CUT_SHORT, extent.message, RESCUE, extent=extent)


def _extent_of_legacy(source: Source) -> Extent | None:
    """Return how much of such a file there is; None where its pickles do not tell."""
    (head, ends), size = _pickles_of(source), source.size
    if len(ends) <= _BEFORE_VALUE:
        return Extent(size, size + 1, is_exact=False) if size == len(head) else None
    begin, end = ends[_BEFORE_VALUE - 1], ends[_BEFORE_VALUE]
    try:
        sizes = _storages(loads(head[begin:end], any_int=True))
        keys: Any = loads(head[end : ends[-1]]) if ends[-1] != end else None
    except ArchiveError:
        return None
    if keys is None:
        rest = sum(_COUNT_BYTES + told.nbytes for told in sizes.values())
        return Extent(size, size + 1 + rest, is_exact=False)
    if not isinstance(keys, list) or not set(map(str, keys)) <= sizes.keys():
        return None
    total = ends[-1] + sum(_COUNT_BYTES + sizes[str(key)].nbytes for key in keys)
    return Extent(size, total, is_exact=all(told.nbytes for told in sizes.values()))


def legacy_records(source: Source) -> dict[str, bytes | memoryview] | None:
    """Return a file of torch.save of before torch 1.6 as records, with storages that are whole.

    None for a file of another kind, and for one whose values are cut off.
    """
    if not _LEGACY.match(bytes(source.piece(0, HEAD_BYTES))):
        return None
    head, ends = _pickles_of(source)
    if len(ends) <= _BEFORE_VALUE:
        return None
    begin, end = ends[_BEFORE_VALUE - 1], ends[_BEFORE_VALUE]
    found: dict[str, bytes | memoryview] = {_PICKLE: head[begin:end]}
    with suppress(ArchiveError):
        sizes = _storages(loads(head[begin:end], any_int=True))
        keys: Any = loads(head[end : ends[-1]])
        listed = map(str, keys if isinstance(keys, list) else ())
        found.update(_storages_behind(source.piece(ends[-1], source.size), listed, sizes))
    return found


def _storages_behind(
    data: memoryview, keys: Iterable[str], sizes: Mapping[str, _Told]
) -> Iterator[tuple[str, memoryview]]:
    """Yield the storages that are where they should be: between counts that are as told.

    They have no checksum, but a count stands before each, and nothing behind the last.
    """
    told = [(key, sizes.get(key, _Told(0, 0))) for key in keys]
    starts = [0, *accumulate(_COUNT_BYTES + each.nbytes for _, each in told)]
    counts = [each.length.to_bytes(_COUNT_BYTES, "little") for _, each in told]
    for (key, each), start, count, end, following in zip(
        told, starts, counts, starts[1:], [*counts[1:], b""], strict=False
    ):
        behind = bytes(data[end : end + _COUNT_BYTES])  # the next count may be cut
        is_there = data[start : start + _COUNT_BYTES] == count and end <= len(data)
        if is_there and following.startswith(behind):
            yield f"{_FOLDER}{key}", data[end - each.nbytes : end]


def _pickles_of(source: Source) -> tuple[bytes, list[int]]:
    """Return the beginning of such a file, and where its pickles end in it."""
    size = _PICKLED_AT_FIRST
    while True:
        head = bytes(source.piece(0, size))
        ends = list(islice(_pickle_ends(head), _BEFORE_VALUE + 2))
        if len(ends) == _BEFORE_VALUE + 2 or size >= min(source.size, _MOST_PICKLED):
            return head, ends
        size *= _GROWTH


def _pickle_ends(data: bytes) -> Iterator[int]:
    """Yield where each of the pickles ends that stand one after another, while they are whole."""
    stream = BytesIO(data)
    left = _MOST_OPCODES
    while stream.tell() < len(data):
        try:
            for opcode, _, _ in pickletools.genops(stream):
                left -= 1
                if left < 0:
                    return
                if opcode.name == "STOP":
                    break
        except (ValueError, OverflowError, MemoryError):
            return
        yield stream.tell()
