"""The members of an archive: its single root folder, and the records in it by name.

Local headers and descriptors are compared with the directory when a record's data is first
requested, not when the archive is opened: they are spread over all pages of a large archive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tsarchive.container.directory import Directory, Entry, apply_zip64, parse_extra, read_directory
from tsarchive.container.faults import Faults, Place
from tsarchive.container.layout import (
    ALIGNMENT,
    DESCRIPTOR,
    DESCRIPTOR64,
    DESCRIPTOR_SIGNATURE,
    FLAG_DESCRIPTOR,
    FLAGS_OF_ENCODER,
    LOCAL,
    LOCAL_SIGNATURE,
    MAX16,
    MAX32,
    LocalHeader,
)
from tsarchive.container.names import is_plain, quoted, start_problem
from tsarchive.container.source import Source, Span

# Added by the Finder of macOS to the archives that it packs. torch ignores it too.
_MACOS_FOLDER = "__MACOSX/"
_MACOS_FILE = ".DS_Store"


class Members(NamedTuple):
    """The root folder, empty when there is none, and the entries of records by name without it."""

    directory: Directory
    root: str
    entries: Mapping[str, Entry]

    def without_root(self, name: str) -> str:
        """Strip the root folder from a member's name; the root folder itself keeps its name."""
        return (name.removeprefix(f"{self.root}/") or name) if self.root else name


def read_members(source: Source, faults: Faults) -> Members:
    """Read the directory of the archive in ``source`` and collect its records."""
    directory = read_directory(source, faults)
    root = _root(directory.entries)
    directory = directory._replace(entries=_without_checksums(directory.entries, root))
    return Members(directory, root, _entries_by_record(directory.entries, root, faults))


def _without_checksums(entries: tuple[Entry, ...], root: str) -> tuple[Entry, ...]:
    """Mark the entries whose CRC-32 torch was told not to compute.

    ``set_crc32_options(False)`` omits those of all records, ``skip_data()`` those of all storages.
    A single record of CRC-32 zero among others is damaged.
    """
    folder = f"{root}/{_STORAGES}" if root else _STORAGES
    held = [entry for entry in entries if entry.size]
    for agreeing in held, [entry for entry in held if entry.name.startswith(folder)]:
        if agreeing and not any(entry.crc for entry in agreeing):
            unknown = {entry.name for entry in agreeing}
            return tuple(e._replace(has_checksum=e.name not in unknown) for e in entries)
    return entries


def is_left_by_macos(entry: Entry) -> bool:
    """Return whether the entry stands beside the root folder because macOS put it there."""
    return entry.name.startswith(_MACOS_FOLDER) or entry.name == _MACOS_FILE


# Where torch.save puts storages.
_STORAGES = "data/"

# Every format has one of these directly in the root folder.
_TOP_RECORDS = ("version", "data.pkl", "model.json", "archive_format")


def _root(entries: Sequence[Entry]) -> str:
    """Return the folder of the first entry, as torch does, unless the records are in no folder."""
    first = next((entry for entry in entries if not is_left_by_macos(entry)), entries[0])
    root, slash, _ = first.name.partition("/")
    if not slash:
        return ""
    # torch looks up records case-insensitively.
    names = {entry.name.lower() for entry in entries}
    at_top = any(name in names for name in _TOP_RECORDS)
    below = {name for name in _TOP_RECORDS if f"{root.lower()}/{name}" in names}
    if root == "models" and "archive_format" in names:
        below.discard("model.json")  # a model of this name in a PT2 archive
    return "" if at_top and not below else root


def _entries_by_record(entries: Sequence[Entry], root: str, faults: Faults) -> dict[str, Entry]:
    prefix = f"{root}/" if root else ""
    found: dict[str, Entry] = {}
    for entry in entries:
        if not entry.name.startswith(prefix) or (not prefix and is_left_by_macos(entry)):
            _check_stray(entry, root, faults)
        elif entry.is_folder:
            if entry.size:
                problem = "the entry is named like a folder and holds data"
                faults.report("zip-folder-data", problem, entry.place)
        else:
            name = entry.name[len(prefix) :]
            # Without the root, a name may be unsafe: that of ``root//etc/hosts`` is.
            start = None if is_plain(name) else start_problem(name)
            if start is not None:
                problem = f"the record name {quoted(name)} {start}"
                faults.report("zip-bad-name", problem, entry.place)
            found.setdefault(name, entry)
    return found


def _check_stray(entry: Entry, root: str, faults: Faults) -> None:
    if is_left_by_macos(entry):
        faults.report("zip-macos", "macOS added this entry", entry.place)
        return
    faults.report(
        "zip-several-roots",
        f"the entry is not in the folder {quoted(root)}, where the first one is",
        entry.place,
        hint="An archive has one root folder: pack the folder itself, not its contents",
    )


DAMAGED = "The file is damaged: 'tsarchive verify' tells what may have happened to it"
# CRC-32 and sizes in a header whose entry has a descriptor.
_NOT_YET_KNOWN = (0, 0, 0)


_LONGEST_HEADER = LOCAL.size + 2 * MAX16


def _header_span(entry: Entry, limit: int) -> Span:
    """Return the bytes that hold the local header of an entry, if there is room for all of it."""
    start = entry.header_offset
    longest = max(LOCAL.size, limit - entry.stored_size - start)
    return Span(start, start + min(longest, _LONGEST_HEADER))


def locate_data(source: Source, entry: Entry, limit: int, record: str, faults: Faults) -> int:
    """Return the offset of an entry's data in the file; ``limit`` is where the next thing begins.

    A local header that contradicts the directory is a fault of ``record``.
    """
    start = entry.header_offset
    if source.is_elsewhere:
        source.prefetch((_header_span(entry, limit),))
    header = LocalHeader(*LOCAL.unpack(source.piece(start, start + LOCAL.size)))
    if header.signature != LOCAL_SIGNATURE:
        problem = "there is no local header where the directory says"
        faults.stop("zip-no-local-header", problem, Place(record, start), hint=DAMAGED)
    extra_start = start + LOCAL.size + header.name_length
    raw_name = bytes(source.piece(start + LOCAL.size, extra_start))
    if raw_name != entry.raw_name:
        other = quoted(raw_name.decode("utf-8", "surrogateescape"))
        told = other if raw_name.strip(b"\0") else f"{len(raw_name)} zeros"
        problem = f"the local header has another name than the directory: {told}"
        faults.report("zip-local-header", problem, Place(record, start))
    data = extra_start + header.extra_length
    # Fast path: the header agrees in the form that torch and other writers use.
    numbers = _NOT_YET_KNOWN if header.flags & FLAG_DESCRIPTOR else entry[3:6]
    if header[6:9] != numbers or header[2:4] != entry[1:3]:
        extra = source.piece(extra_start, data)
        _compare_fields(header, entry, extra, Place(record, start), faults)
    if data + entry.stored_size > limit:
        # Values that are stored only once may be wrong: the length of the extra fields, and sizes
        # that a descriptor should repeat.
        is_told_twice = start + entry.least_length > limit and not header.flags & FLAG_DESCRIPTOR
        problem = f"the record runs into what begins at byte {limit}"
        rule = "zip-overlap" if is_told_twice else "zip-local-header"
        faults.stop(rule, problem, Place(record, start))
    return data


def usual_place(entry: Entry, limit: int) -> int | None:
    """Return where the data of a stored entry is if torch's writer has put it there.

    It is told by what follows and by the alignment, without the local header. None where these
    leave no choice or several.
    """
    sizes = (DESCRIPTOR.size, DESCRIPTOR64.size) if entry.flags & FLAG_DESCRIPTOR else (0,)
    least = entry.header_offset + LOCAL.size + len(entry.raw_name)
    starts = [limit - size - entry.stored_size for size in sizes]
    fitting = [start for start in starts if start >= least and start % ALIGNMENT == 0]
    return fitting[0] if len(fitting) == 1 else None


def _compare_fields(
    header: LocalHeader, entry: Entry, extra: memoryview, at: Place, faults: Faults
) -> None:
    flags, other_flags = header.flags & ~FLAGS_OF_ENCODER, entry.flags & ~FLAGS_OF_ENCODER
    _compare("method", header.method, entry.method, at, faults)
    _compare("flags", flags, other_flags, at, faults)
    crc, size, stored_size = header.crc, header.size, header.stored_size
    if header.flags & FLAG_DESCRIPTOR:
        # The writer did not know the numbers yet: each is right, zero, or in the ZIP64 field, where
        # torch puts those it knows. The descriptor after the data has them all.
        crc = crc or entry.crc
        size = entry.size if size in (0, MAX32) else size
        stored_size = entry.stored_size if stored_size in (0, MAX32) else stored_size
    elif MAX32 in (size, stored_size):
        fields = parse_extra(bytes(extra), at, faults)
        size, stored_size = apply_zip64(fields, (size, stored_size), at, faults)
    _compare("CRC-32", crc, entry.crc, at, faults)
    _compare("size", size, entry.size, at, faults)
    _compare("stored size", stored_size, entry.stored_size, at, faults)


def _compare(field: str, local: int, central: int, at: Place, faults: Faults) -> None:
    if local != central:
        problem = f"{field} {local} in the local header, {central} in the directory"
        faults.report("zip-local-header", problem, at)


def check_descriptor(
    source: Source, entry: Entry, data: int, limit: int, record: str, faults: Faults
) -> int:
    """Check the descriptor after the data at ``data``; return where the member ends.

    Its numbers have 32 or 64 bits and its signature is optional. The form is not marked, so any one
    that agrees with the directory is accepted. A record without data need not have one.
    """
    start = data + entry.stored_size
    if not entry.flags & FLAG_DESCRIPTOR:
        return start
    found = bytes(source.piece(start, min(start + DESCRIPTOR64.size, limit)))
    signed = _signed(entry)
    forms = (*signed, *(form[4:] for form in signed))
    fitting = [form for form in forms if found.startswith(form)]
    if not fitting:
        rest = source.piece(start, limit)
        is_told = _is_descriptor(found, entry) if entry.size else _is_measured(rest)
        if is_told:
            problem = "the descriptor after the data contradicts the directory"
            faults.report("zip-descriptor", problem, Place(record, start))
        elif entry.size:
            problem = "there is no descriptor after the data"
            faults.report("zip-no-descriptor", problem, Place(record, start))
    return start + max(map(len, fitting), default=0)


def _is_descriptor(found: bytes, entry: Entry) -> bool:
    """Return whether the bytes after the data look like a descriptor, even a wrong one.

    Either they have its signature, or the right CRC-32 or sizes.
    """
    unsigned = [form[4:] for form in _signed(entry)]
    return found.startswith((DESCRIPTOR_SIGNATURE, unsigned[0][:4])) or any(
        found[4 : len(form)] == form[4:] for form in unsigned
    )


def _is_measured(found: memoryview) -> bool:
    """Return whether bytes behind an empty record are data and a descriptor that counts them."""
    for form in (DESCRIPTOR, DESCRIPTOR64):
        numbers = bytes(found[4 - form.size :])
        for rest in (len(found) - form.size, len(found) - form.size + 4):
            if rest > 0 and form.unpack(DESCRIPTOR_SIGNATURE + numbers)[2] == rest:
                return True
    return False


def _signed(entry: Entry) -> list[bytes]:
    """Return every form of a descriptor with a signature and the values of the directory."""
    numbers = (entry.crc, entry.stored_size, entry.size)
    forms = [DESCRIPTOR64.pack(DESCRIPTOR_SIGNATURE, *numbers)]
    if max(numbers) <= MAX32:
        forms.append(DESCRIPTOR.pack(DESCRIPTOR_SIGNATURE, *numbers))
    return forms
