"""The central directory of a zip archive: the end records that lead to it, and its entries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from struct import Struct, pack, unpack
from typing import Any, NamedTuple, NoReturn

from tsarchive.container import caps
from tsarchive.container.faults import Collected, Faults, Place, Stopped
from tsarchive.container.layout import (
    CENTRAL,
    CENTRAL_SIGNATURE,
    DESCRIPTOR,
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    FLAG_DESCRIPTOR,
    FLAG_ENCRYPTED,
    FLAG_MASKED,
    FLAG_PATCHED,
    FLAG_STRONG_ENCRYPTION,
    FLAG_UTF8,
    LOCAL,
    LOCATOR64,
    LOCATOR64_SIGNATURE,
    MAX16,
    MAX32,
    STORED,
    UNICODE_PATH_FIELD,
    ZIP64_FIELD,
    CentralHeader,
    End64Record,
    EndRecord,
    Locator64,
)
from tsarchive.container.names import fold_name, is_plain, name_problem, quoted
from tsarchive.container.recognise import HEAD_BYTES, recognise
from tsarchive.container.source import Source, Span

# Maximum length of the comment after the end record.
_MAX_COMMENT = MAX16


class DirectoryPlace(NamedTuple):
    """The position of the directory in the file, in bytes, and the number of its entries."""

    offset: int
    size: int
    entries: int


def find_directory(source: Source, faults: Faults) -> DirectoryPlace:
    """Find the directory of a zip archive that fills ``source``.

    Reports a fault when there is no end record, more than one, or one that contradicts the file,
    and when the archive is split over several volumes.
    """
    position = _find_end_record(source, faults)
    end = EndRecord(*_unpacked(source, END, position))
    located = _find_end64(source, position, faults)
    if located is None:
        return _place(end, position, faults)
    wide, position = located
    _compare(end, wide, position, faults)
    return _place(wide, position, faults)


def has_end(source: Source) -> bool:
    """Return whether there may be an end record, which is told by the end of the file alone."""
    return bool(_end_candidates(_end_of(source)))


def has_directory(source: Source) -> bool:
    """Return whether a directory is where the end records of a zip archive tell, all being well."""
    faults = Collected()
    try:
        find_directory(source, faults)
    except Stopped:
        return False
    return not faults.refused


def told_place(source: Source) -> tuple[DirectoryPlace, int]:
    """Return the place of the directory as the end records tell it, and where they begin.

    They need not be right. Raises Stopped where there are none.
    """
    position = _find_end_record(source, Collected())
    end: EndRecord | End64Record = EndRecord(*_unpacked(source, END, position))
    wide = position - LOCATOR64.size - END64.size
    if wide >= 0 and source.piece(wide, wide + 4) == END64_SIGNATURE:
        end, position = End64Record(*_unpacked(source, END64, wide)), wide
    return DirectoryPlace(end.directory_offset, end.directory_size, end.entries), position


def _unpacked(source: Source, layout: Struct, position: int) -> tuple[Any, ...]:
    return layout.unpack(source.piece(position, position + layout.size))


def _find_end_record(source: Source, faults: Faults) -> int:
    tail = _end_of(source)
    start = source.size - len(tail)
    found = _end_candidates(tail)
    if not found:
        kind = recognise(bytes(source.piece(0, HEAD_BYTES)))
        faults.stop(kind.rule, kind.message, hint=kind.hint)
    complete = [position for position, after in found if after == len(tail)]
    if not complete:
        position, after = found[-1]
        _report_wrong_end(start + position, len(tail) - after, faults)
        return start + position
    # Readers that search backwards take the last signature, whatever the length of its comment.
    if len(complete) > 1 or found[-1][0] != complete[-1]:
        faults.report(
            "zip-several-ends",
            "two end records fit the end of the file, so readers disagree on what it holds",
            Place(offset=start + complete[0]),
        )
    comment = len(tail) - complete[-1] - END.size
    if comment:
        place = Place(offset=start + complete[-1])
        faults.report("zip-comment", f"the archive has a comment of {comment} bytes", place)
    return start + complete[-1]


def _end_of(source: Source) -> bytes:
    """Return the bytes in which the end record stands, be there one."""
    return bytes(source.piece(max(0, source.size - END.size - _MAX_COMMENT), source.size))


def _end_candidates(tail: bytes) -> list[tuple[int, int]]:
    """Return positions of all end records in ``tail``, each with the position after its comment."""
    found = []
    position = tail.find(END_SIGNATURE)
    while 0 <= position <= len(tail) - END.size:
        end = EndRecord(*END.unpack_from(tail, position))
        found.append((position, position + END.size + end.comment_length))
        position = tail.find(END_SIGNATURE, position + 1)
    return found


def _report_wrong_end(offset: int, surplus: int, faults: Faults) -> None:
    if surplus > 0:
        faults.report(
            "zip-appended",
            f"{surplus} bytes follow the end record and are not its comment",
            Place(offset=offset),
            hint="Something was appended to the archive, or its end was cut off",
        )
    else:
        faults.report(
            "zip-cut-comment",
            f"the comment after the end record lacks {-surplus} bytes",
            Place(offset=offset),
            hint="The file is cut short: download or copy it again",
        )


def _find_end64(source: Source, end: int, faults: Faults) -> tuple[End64Record, int] | None:
    """Return the ZIP64 end record and its position, or None where no locator points to one."""
    place = end - LOCATOR64.size
    if place < 0 or source.piece(place, place + 4) != LOCATOR64_SIGNATURE:
        return None
    locator = Locator64(*_unpacked(source, LOCATOR64, place))
    if locator.disk or locator.disks > 1:
        _report_volumes(place, faults)
    position = locator.end_offset
    is_before = position <= place - END64.size
    if not is_before or source.piece(position, position + 4) != END64_SIGNATURE:
        faults.stop(
            "zip-locator64", "the ZIP64 locator points at no ZIP64 end record", Place(offset=place)
        )
    wide = End64Record(*_unpacked(source, END64, position))
    if position + 12 + wide.record_size != place:
        faults.report(
            "zip-end64-length",
            "the ZIP64 end record has the wrong length",
            Place(offset=position),
        )
    return wide, position


def _compare(end: EndRecord, wide: End64Record, position: int, faults: Faults) -> None:
    """Check that each number of the narrow record equals the wide record's or defers to it."""
    pairs = (
        ("disk", end.disk, wide.disk, MAX16),
        ("directory disk", end.directory_disk, wide.directory_disk, MAX16),
        ("entries on this disk", end.disk_entries, wide.disk_entries, MAX16),
        ("entries", end.entries, wide.entries, MAX16),
        ("directory size", end.directory_size, wide.directory_size, MAX32),
        ("directory offset", end.directory_offset, wide.directory_offset, MAX32),
    )
    for field, narrow, value, ceiling in pairs:
        if narrow not in (value, ceiling):
            faults.report(
                "zip-end64-differs",
                f"the two end records contradict: {field} {narrow} and {value}",
                Place(offset=position),
            )


def _place(end: EndRecord | End64Record, position: int, faults: Faults) -> DirectoryPlace:
    """Check that the directory fills the bytes up to the first end record at ``position``."""
    if end.disk or end.directory_disk or end.disk_entries != end.entries:
        _report_volumes(position, faults)
    if end.directory_offset + end.directory_size != position:
        faults.stop(
            "zip-directory-place",
            f"the directory should end at byte {end.directory_offset + end.directory_size}, "
            f"where the end record begins, but that begins at byte {position}",
            Place(offset=position),
            hint="Bytes were put in front of the archive or taken from it",
        )
    if end.entries * CENTRAL.size > end.directory_size:
        faults.report(
            "zip-entry-count",
            f"{end.entries} entries do not fit a directory of {end.directory_size} bytes",
            Place(offset=end.directory_offset),
        )
    return DirectoryPlace(end.directory_offset, end.directory_size, end.entries)


def _report_volumes(offset: int, faults: Faults) -> None:
    faults.report(
        "zip-volumes",
        "the archive is one of several volumes",
        Place(offset=offset),
        hint="Join the volumes with the tool that split them",
    )


class Entry(NamedTuple):
    """The directory's entry for one member. ``name`` includes the root folder.

    Without ``has_checksum`` the CRC-32 is 0 because the writer of the archive did not compute it.
    """

    name: str
    flags: int
    method: int
    crc: int
    stored_size: int
    size: int
    header_offset: int
    has_checksum: bool = True

    @property
    def place(self) -> Place:
        return Place(self.name, self.header_offset)

    @property
    def raw_name(self) -> bytes:
        """The bytes of the name as stored in the file."""
        return self.name.encode("utf-8", "surrogateescape")

    @property
    def least_length(self) -> int:
        """The minimum number of bytes that the member takes up in the file."""
        # The signature of a descriptor is optional.
        descriptor = DESCRIPTOR.size - 4 if self.flags & FLAG_DESCRIPTOR and self.size else 0
        length = len(self.name) if self.name.isascii() else len(self.raw_name)
        return LOCAL.size + length + self.stored_size + descriptor

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/")


def check_names(entries: Sequence[Entry], faults: Faults) -> None:
    """Check each name against the rules for names, and all of them against each other."""
    different = set()
    for entry in entries:
        if is_plain(entry.name):
            different.add(entry.name.lower())
            continue
        different.add(fold_name(entry.name))
        problem = name_problem(entry.name)
        if problem is not None:
            faults.report("zip-bad-name", f"the name {quoted(entry.name)} {problem}", entry.place)
    if len(different) < len(entries):
        _report_alike(entries, faults)


def _report_alike(entries: Sequence[Entry], faults: Faults) -> None:
    firsts: dict[str, Entry] = {}
    for entry in entries:
        first = firsts.setdefault(fold_name(entry.name), entry)
        if first is entry:
            continue
        if first.name == entry.name:
            problem = "two records have this name, and readers disagree on which one counts"
            faults.report("zip-duplicate-name", problem, entry.place)
        else:
            problem = f"some readers take this name and {quoted(first.name)} for the same"
            faults.report("zip-alike-names", problem, entry.place)


def check_sizes(entries: Sequence[Entry], faults: Faults) -> None:
    """Check inflated sizes against the caps before anything is inflated."""
    for entry in entries:
        if entry.size > caps.SMALLEST_CAP:
            cap = caps.size_cap(entry.name)
            if cap is not None and entry.size > cap:
                problem = f"a record of this name has {entry.size} bytes"
                faults.report("zip-large-record", problem, entry.place, limit=cap)
    packed = [entry for entry in entries if entry.method != STORED]
    _check_inflated(packed, caps.inflated_cap(sum(e.stored_size for e in packed)), faults)
    if sum(entry.size for entry in packed) > caps.FREE_PARSED_BYTES:
        parsed = [entry for entry in packed if caps.size_cap(entry.name) is not None]
        blown_up = [e for e in parsed if e.size > caps.MAX_INFLATED_RATIO * e.stored_size]
        _check_inflated(blown_up, caps.FREE_PARSED_BYTES, faults)


def _check_inflated(packed: list[Entry], limit: int, faults: Faults) -> None:
    inflated = sum(entry.size for entry in packed)
    if inflated > limit:
        stored = sum(entry.stored_size for entry in packed)
        largest = max(packed, key=attrgetter("size"))
        problem = f"{stored} bytes of compressed records inflate to {inflated}"
        faults.report("zip-bomb", problem, largest.place, limit=limit, hint=_REPACK)


_REPACK = "If the file is known to be good, pack it again without compression"


_FIELD = Struct("<2H")


def parse_extra(extra: bytes, at: Place, faults: Faults) -> dict[int, bytes]:
    """Return the contents of each field by id. Truncated and duplicate fields are faults."""
    fields: dict[int, bytes] = {}
    position = 0
    while position < len(extra):
        start = position + _FIELD.size
        if start > len(extra):
            faults.report("zip-extra-field", "an extra field is cut short", at)
            break
        field_id, length = _FIELD.unpack_from(extra, position)
        position = start + length
        if position > len(extra):
            problem = f"extra field {field_id:#06x} is longer than its header says"
            faults.report("zip-extra-field", problem, at)
            break
        if field_id in fields:
            faults.report("zip-extra-field", f"extra field {field_id:#06x} occurs twice", at)
        fields[field_id] = extra[start:position]
    return fields


def apply_zip64(
    fields: dict[int, bytes], values: tuple[int, ...], at: Place, faults: Faults
) -> tuple[int, ...]:
    """Replace each 0xFFFFFFFF, in order, by the 64 bit numbers of the ZIP64 field."""
    missing = values.count(MAX32)
    if not missing:
        return values
    field = fields.get(ZIP64_FIELD, b"")
    if len(field) != 8 * missing:
        faults.report(
            "zip-field64",
            f"the ZIP64 field has {len(field)} bytes where {8 * missing} are needed",
            at,
        )
        return values
    wide = iter(unpack(f"<{missing}Q", field))
    return tuple(next(wide) if value == MAX32 else value for value in values)


def zip64_field(*numbers: int) -> bytes:
    """Encode a ZIP64 field; empty when there are no numbers."""
    if not numbers:
        return b""
    return pack(f"<2H{len(numbers)}Q", ZIP64_FIELD, 8 * len(numbers), *numbers)


# Flags that make an entry unreadable: rule and message.
_REFUSED_FLAGS = (
    (FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION, "zip-encrypted", "the record is encrypted"),
    (FLAG_MASKED, "zip-encrypted", "the record has a masked header"),
    (FLAG_PATCHED, "zip-patch-data", "the record holds patch data"),
)
ANY_REFUSED_FLAG = FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION | FLAG_MASKED | FLAG_PATCHED


def entries_at(source: Source, place: DirectoryPlace) -> list[Entry]:
    """Return the entries of a directory at a place, as far as they can be read and are bounded."""
    size = min(place.size, caps.MAX_DIRECTORY_BYTES)
    directory = bytes(source.piece(place.offset, place.offset + size)) if place.offset >= 0 else b""
    bounded = place._replace(entries=min(place.entries, caps.MAX_ENTRIES))
    return _parse_entries(directory, bounded, Collected())


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

    def span(self, entry: Entry) -> Span:
        """Return the bytes of ``entry`` with its header, and what follows it up to its limit."""
        return Span(entry.header_offset, self.limit(entry))


def read_directory(source: Source, faults: Faults) -> Directory:
    """Read and check the directory of the archive in ``source``; nothing else is touched.

    The root folder is checked by ``members``.
    """
    place = find_directory(source, faults)
    at = Place(offset=place.offset)
    if place.entries > caps.MAX_ENTRIES:
        problem = f"the archive has {place.entries} entries"
        faults.stop("zip-too-many-entries", problem, at, limit=caps.MAX_ENTRIES)
    if place.size > caps.MAX_DIRECTORY_BYTES:
        problem = f"the directory has {place.size} bytes"
        faults.stop("zip-large-directory", problem, at, limit=caps.MAX_DIRECTORY_BYTES)
    directory = bytes(source.piece(place.offset, place.offset + place.size))
    entries = tuple(_parse_entries(directory, place, faults))
    if not entries:
        faults.stop("zip-no-records", "the archive holds no records", at)
    check_names(entries, faults)
    check_sizes(entries, faults)
    return Directory(entries, _check_order(entries, place.offset, faults))


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
    numbers: tuple[int, ...] = (header.size, header.stored_size, header.header_offset)
    if extra or MAX32 in numbers:
        at = Place(name, offset)
        fields = parse_extra(extra, at, faults)
        if UNICODE_PATH_FIELD in fields and fields[UNICODE_PATH_FIELD][5:] != raw:
            faults.report("zip-second-name", "the entry has a second, different name", at)
        numbers = apply_zip64(fields, numbers, at, faults)
    size, stored_size, header_offset = numbers
    entry = Entry(name, header.flags, header.method, header.crc, stored_size, size, header_offset)
    if entry.flags & ANY_REFUSED_FLAG or header.disk or header.comment_length:
        _check_support(header, Place(name, offset), faults)
    if entry.method == STORED and stored_size != size and not entry.flags & FLAG_ENCRYPTED:
        problem = f"stored without compression, yet {size} bytes take {stored_size}"
        faults.report("zip-stored-sizes", problem, Place(name, offset))
    return entry


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
