"""The directory of a zip archive: its entries, and that no two claim the same bytes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from tsarchive.container.end import DirectoryPlace, find_directory
from tsarchive.container.extra import parse_extra, widen
from tsarchive.container.layout import (
    CENTRAL,
    CENTRAL_SIGNATURE,
    DESCRIPTOR,
    FLAG_DESCRIPTOR,
    FLAG_ENCRYPTED,
    FLAG_MASKED,
    FLAG_PATCHED,
    FLAG_STRONG_ENCRYPTION,
    FLAG_UTF8,
    LOCAL,
    MAX16,
    STORED,
    UNICODE_PATH_FIELD,
    CentralHeader,
)
from tsarchive.container.names import name_problem
from tsarchive.errors import ArchiveError, FormatError, UnsupportedError

__all__ = ["Directory", "Entry", "read_directory"]

_REFUSED_FLAGS = (
    (FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION, "is encrypted"),
    (FLAG_MASKED, "has a masked header"),
    (FLAG_PATCHED, "holds patch data"),
)


class Entry(NamedTuple):
    """What the directory says of one member. ``name`` includes the root folder."""

    name: str
    flags: int
    method: int
    crc: int
    stored_size: int
    size: int
    header_offset: int


@dataclass(frozen=True, slots=True)
class Directory:
    """All entries in directory order, and where each header and the directory begin."""

    entries: tuple[Entry, ...]
    starts: tuple[int, ...]

    def limit(self, entry: Entry) -> int:
        """The first byte after ``entry`` that belongs to something else."""
        return self.starts[bisect_right(self.starts, entry.header_offset)]


def read_directory(buffer: memoryview) -> Directory:
    """Read and check the directory of the archive in ``buffer``; no other part is touched.

    Raises FormatError and UnsupportedError as said in Container.open.
    """
    place = find_directory(buffer)
    entries = tuple(_parse_entries(bytes(buffer[place.offset : place.offset + place.size]), place))
    if not entries:
        raise FormatError("the archive holds no records", offset=place.offset)
    _check_names(entries)
    return Directory(entries, _check_order(entries, place.offset))


def _parse_entries(directory: bytes, place: DirectoryPlace) -> list[Entry]:
    entries: list[Entry] = []
    position = 0
    for _ in range(place.entries):
        try:
            entry, position = _parse_entry(directory, position)
        except ArchiveError as error:
            error.offset = place.offset + position
            raise
        entries.append(entry)
    if position != len(directory):
        raise FormatError(
            f"{len(directory) - position} bytes of the directory belong to no entry",
            offset=place.offset + position,
        )
    return entries


def _parse_entry(directory: bytes, position: int) -> tuple[Entry, int]:
    """Parse the entry at ``position``; give it and the position after it."""
    name_start = position + CENTRAL.size
    if name_start > len(directory):
        raise FormatError("the directory ends inside an entry")
    header = CentralHeader(*CENTRAL.unpack_from(directory, position))
    if header.signature != CENTRAL_SIGNATURE:
        raise FormatError("a directory entry has the wrong signature")
    extra_start = name_start + header.name_length
    extra_end = extra_start + header.extra_length
    end = extra_end + header.comment_length
    if end > len(directory):
        raise FormatError("the directory ends inside an entry")
    raw_name = directory[name_start:extra_start]
    return _entry(header, raw_name, directory[extra_start:extra_end]), end


def _entry(header: CentralHeader, raw_name: bytes, extra: bytes) -> Entry:
    name = _decode(raw_name, header.flags)
    fields = parse_extra(extra)
    if fields.get(UNICODE_PATH_FIELD, b"12345" + raw_name)[5:] != raw_name:
        raise FormatError("the entry has a second, different name", record=name)
    size, stored_size, header_offset = widen(
        fields, header.size, header.stored_size, header.header_offset
    )
    entry = Entry(name, header.flags, header.method, header.crc, stored_size, size, header_offset)
    _check_support(entry, header.disk)
    if entry.method == STORED and stored_size != size:
        raise FormatError(
            f"stored without compression, yet {size} bytes take {stored_size}", record=name
        )
    return entry


def _decode(raw_name: bytes, flags: int) -> str:
    try:
        return raw_name.decode("utf-8" if flags & FLAG_UTF8 else "ascii")
    except UnicodeDecodeError:
        encoding = "UTF-8" if flags & FLAG_UTF8 else "ASCII, and not marked as UTF-8"
        raise FormatError(f"the name {raw_name!r} is not {encoding}") from None


def _check_support(entry: Entry, disk: int) -> None:
    for flags, problem in _REFUSED_FLAGS:
        if entry.flags & flags:
            raise UnsupportedError(f"the record {problem}", record=entry.name)
    if disk not in (0, MAX16):
        raise UnsupportedError("the record is in another volume", record=entry.name)


def _check_names(entries: tuple[Entry, ...]) -> None:
    seen: set[str] = set()
    for entry in entries:
        problem = name_problem(entry.name)
        if problem is not None:
            raise FormatError(f"the name {entry.name!r} {problem}", offset=entry.header_offset)
        if entry.name in seen:
            raise FormatError(
                "two records have this name, and readers disagree on which one counts",
                record=entry.name,
                offset=entry.header_offset,
            )
        seen.add(entry.name)


def _check_order(entries: tuple[Entry, ...], directory_offset: int) -> tuple[int, ...]:
    """Check that entries lie one after another from byte 0 on; give their starts, sorted.

    Local headers may have extra fields, so this is the least that each entry takes up.
    """
    by_offset = sorted(entries, key=lambda entry: entry.header_offset)
    starts = (*(entry.header_offset for entry in by_offset), directory_offset)
    if starts[0]:
        raise FormatError(f"{starts[0]} bytes stand before the first record", offset=0)
    for entry, following in zip(by_offset, starts[1:], strict=True):
        if entry.header_offset + _least_length(entry) > following:
            raise FormatError(
                f"the record runs into what begins at byte {following}",
                record=entry.name,
                offset=entry.header_offset,
            )
    return starts


def _least_length(entry: Entry) -> int:
    # The signature of a descriptor may be left out.
    descriptor = DESCRIPTOR.size - 4 if entry.flags & FLAG_DESCRIPTOR and entry.size else 0
    return LOCAL.size + len(entry.name.encode()) + entry.stored_size + descriptor
