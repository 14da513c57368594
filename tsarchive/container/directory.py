"""The central directory of a zip archive: its entries, none of which may overlap."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple, NoReturn

from tsarchive.container import caps
from tsarchive.container.entries import Entry, check_names, check_sizes
from tsarchive.container.faults import Faults, Place, Stopped
from tsarchive.container.layout import (
    CENTRAL,
    CENTRAL_SIGNATURE,
    FLAG_ENCRYPTED,
    FLAG_MASKED,
    FLAG_PATCHED,
    FLAG_STRONG_ENCRYPTION,
    FLAG_UTF8,
    MAX16,
    MAX32,
    STORED,
    UNICODE_PATH_FIELD,
    CentralHeader,
)
from tsarchive.container.names import quoted

from .end_record import DirectoryPlace, find_directory
from .extra_fields import apply_zip64, parse_extra

# Flags that make an entry unreadable: rule and message.
_REFUSED_FLAGS = (
    (FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION, "zip-encrypted", "the record is encrypted"),
    (FLAG_MASKED, "zip-encrypted", "the record has a masked header"),
    (FLAG_PATCHED, "zip-patch-data", "the record holds patch data"),
)
ANY_REFUSED_FLAG = FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION | FLAG_MASKED | FLAG_PATCHED


class Directory(NamedTuple):
    """All entries in directory order, and where each header and the directory begin."""

    entries: tuple[Entry, ...]
    starts: tuple[int, ...]

    @property
    def offset(self) -> int:
        """The offset at which the directory begins, and the entries must end."""
        return self.starts[-1]

    def limit(self, entry: Entry) -> int:
        """Return the offset of the first byte after ``entry`` that belongs to something else."""
        return self.starts[bisect_right(self.starts, entry.header_offset)]


def read_directory(buffer: memoryview, faults: Faults) -> Directory:
    """Read and check the directory of the archive in ``buffer``; nothing else is touched.

    The root folder is checked by ``members``.
    """
    place = find_directory(buffer, faults)
    _check_caps(place, faults)
    directory = bytes(buffer[place.offset : place.offset + place.size])
    entries = tuple(_parse_entries(directory, place, faults))
    if not entries:
        faults.stop("zip-no-records", "the archive holds no records", Place(offset=place.offset))
    check_names(entries, faults)
    check_sizes(entries, faults)
    return Directory(entries, _check_order(entries, place.offset, faults))


def _check_caps(place: DirectoryPlace, faults: Faults) -> None:
    at = Place(offset=place.offset)
    if place.entries > caps.MAX_ENTRIES:
        problem = f"the archive has {place.entries} entries"
        faults.stop("zip-too-many-entries", problem, at, limit=caps.MAX_ENTRIES)
    if place.size > caps.MAX_DIRECTORY_BYTES:
        problem = f"the directory has {place.size} bytes"
        faults.stop("zip-large-directory", problem, at, limit=caps.MAX_DIRECTORY_BYTES)


def _parse_entries(directory: bytes, place: DirectoryPlace, faults: Faults) -> list[Entry]:
    entries: list[Entry] = []
    position = 0
    try:
        for _ in range(place.entries):
            entry, position = _parse_entry(directory, position, place.offset, faults)
            entries.append(entry)
    except Stopped:
        # A survey continues with the entries read so far.
        return entries
    if position != len(directory):
        faults.report(
            "zip-entry-count",
            f"{len(directory) - position} bytes of the directory belong to no entry",
            Place(offset=place.offset + position),
        )
    return entries


def _parse_entry(directory: bytes, position: int, base: int, faults: Faults) -> tuple[Entry, int]:
    """Parse the entry at ``position``; return it and the position after it."""
    name_start = position + CENTRAL.size
    if name_start > len(directory):
        _stop_entry("the directory ends inside an entry", base + position, faults)
    header = CentralHeader(*CENTRAL.unpack_from(directory, position))
    if header.signature != CENTRAL_SIGNATURE:
        _stop_entry("a directory entry has the wrong signature", base + position, faults)
    extra_start = name_start + header.name_length
    extra_end = extra_start + header.extra_length
    end = extra_end + header.comment_length
    if end > len(directory):
        _stop_entry("the directory ends inside an entry", base + position, faults)
    raw = directory[name_start:extra_start]
    extra = directory[extra_start:extra_end]
    return _entry(header, raw, extra, base + position, faults), end


def _stop_entry(problem: str, offset: int, faults: Faults) -> NoReturn:
    faults.stop("zip-directory-entry", problem, Place(offset=offset))


def _entry(header: CentralHeader, raw: bytes, extra: bytes, offset: int, faults: Faults) -> Entry:
    name = _decode(raw, header.flags, offset, faults)
    numbers = (header.size, header.stored_size, header.header_offset)
    if extra or MAX32 in numbers:
        numbers = _widened(numbers, raw, extra, Place(name, offset), faults)
    size, stored_size, header_offset = numbers
    entry = Entry(name, header.flags, header.method, header.crc, stored_size, size, header_offset)
    if entry.flags & ANY_REFUSED_FLAG or header.disk or header.comment_length:
        _check_support(header, Place(name, offset), faults)
    if entry.method == STORED and stored_size != size and not entry.flags & FLAG_ENCRYPTED:
        problem = f"stored without compression, yet {size} bytes take {stored_size}"
        faults.report("zip-stored-sizes", problem, Place(name, offset))
    return entry


def _widened(
    numbers: tuple[int, int, int], raw: bytes, extra: bytes, at: Place, faults: Faults
) -> tuple[int, int, int]:
    fields = parse_extra(extra, at, faults)
    if UNICODE_PATH_FIELD in fields and fields[UNICODE_PATH_FIELD][5:] != raw:
        faults.report("zip-second-name", "the entry has a second, different name", at)
    size, stored_size, header_offset = apply_zip64(fields, numbers, at, faults)
    return size, stored_size, header_offset


def _decode(raw: bytes, flags: int, offset: int, faults: Faults) -> str:
    encoding = "utf-8" if flags & FLAG_UTF8 else "ascii"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        wanted = "UTF-8" if flags & FLAG_UTF8 else "ASCII, and not marked as UTF-8"
        name = raw.decode(encoding, "surrogateescape")
        faults.report(
            "zip-name-encoding",
            f"the name {quoted(name)} is not {wanted}",
            Place(name, offset),
            hint="Pack the archive again with names in UTF-8",
        )
        return name


def _check_support(header: CentralHeader, at: Place, faults: Faults) -> None:
    for flags, rule, problem in _REFUSED_FLAGS:
        if header.flags & flags:
            faults.report(rule, problem, at)
    if header.disk not in (0, MAX16):
        faults.report("zip-volumes", "the record is in another volume", at)
    if header.comment_length:
        faults.report("zip-entry-comment", "the entry has a comment", at)


def _check_order(entries: tuple[Entry, ...], end: int, faults: Faults) -> tuple[int, ...]:
    """Check that entries lie one after another from byte 0 to ``end``; return their sorted starts.

    Local headers may have extra fields, so this is the least that each entry takes up.
    """
    by_offset = sorted(entries, key=attrgetter("header_offset"))
    starts = [entry.header_offset for entry in by_offset]
    if starts[0]:
        problem = f"{min(starts[0], end)} bytes stand before the first record"
        faults.report("zip-prefix", problem, Place(offset=0))
    for entry, following in zip(by_offset, (*starts[1:], end), strict=True):
        if entry.header_offset == following and following != end:
            problem = f"another record begins at byte {following} too"
            faults.report("zip-shared-header", problem, entry.place)
        elif entry.header_offset + entry.least_length > min(following, end):
            problem = f"the record runs into what begins at byte {min(following, end)}"
            faults.report("zip-overlap", problem, entry.place)
    return (*(start for start in starts if start < end), end)
