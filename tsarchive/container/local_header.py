"""Checks of a member's local header and descriptor against the directory.

They are checked when a record's data is first requested, not when the archive is opened: the
headers of a large archive are spread over all of its pages.
"""

from __future__ import annotations

from .entries import Entry
from .extra_fields import apply_zip64, parse_extra
from .faults import Faults, Place
from .layout import (
    DESCRIPTOR,
    DESCRIPTOR64,
    DESCRIPTOR_SIGNATURE,
    FLAG_DESCRIPTOR,
    FLAGS_OF_ENCODER,
    LOCAL,
    LOCAL_SIGNATURE,
    MAX32,
    LocalHeader,
)
from .names import quoted

# CRC-32 and sizes in a header whose entry has a descriptor.
_NOT_YET_KNOWN = (0, 0, 0)


def locate_data(buffer: memoryview, entry: Entry, limit: int, record: str, faults: Faults) -> int:
    """Return the offset of an entry's data in the file; ``limit`` is where the next thing begins.

    A local header that contradicts the directory is a fault of ``record``.
    """
    start = entry.header_offset
    header = LocalHeader(*LOCAL.unpack_from(buffer, start))
    if header.signature != LOCAL_SIGNATURE:
        problem = "there is no local header where the directory says"
        faults.stop("zip-no-local-header", problem, Place(record, start))
    extra_start = start + LOCAL.size + header.name_length
    raw_name = bytes(buffer[start + LOCAL.size : extra_start])
    if raw_name != entry.raw_name:
        other = quoted(raw_name.decode("utf-8", "surrogateescape"))
        problem = f"the local header has another name than the directory: {other}"
        faults.report("zip-local-header", problem, Place(record, start))
    data = extra_start + header.extra_length
    # Fast path: the header agrees in the form that torch and other writers use.
    numbers = _NOT_YET_KNOWN if header.flags & FLAG_DESCRIPTOR else entry[3:6]
    if header[6:9] != numbers or header[2:4] != entry[1:3]:
        _compare_fields(header, entry, buffer[extra_start:data], Place(record, start), faults)
    if data + entry.stored_size > limit:
        # Values that are stored only once may be wrong: the length of the extra fields, and sizes
        # that a descriptor should repeat.
        is_told_twice = start + entry.least_length > limit and not header.flags & FLAG_DESCRIPTOR
        problem = f"the record runs into what begins at byte {limit}"
        rule = "zip-overlap" if is_told_twice else "zip-local-header"
        faults.stop(rule, problem, Place(record, start))
    return data


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
    buffer: memoryview, entry: Entry, data: int, limit: int, record: str, faults: Faults
) -> int:
    """Check the descriptor after the data at ``data``; return where the member ends.

    Its numbers have 32 or 64 bits and its signature is optional. The form is not marked, so any one
    that agrees with the directory is accepted. A record without data need not have one.
    """
    start = data + entry.stored_size
    if not entry.flags & FLAG_DESCRIPTOR:
        return start
    found = bytes(buffer[start : min(start + DESCRIPTOR64.size, limit)])
    fitting = [form for form in _descriptors(entry) if found.startswith(form)]
    if not fitting:
        is_told = _is_descriptor(found, entry) if entry.size else _is_measured(buffer[start:limit])
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


def _descriptors(entry: Entry) -> list[bytes]:
    """Return every form of a descriptor with the values of the directory."""
    forms = _signed(entry)
    return forms + [form[4:] for form in forms]


def _signed(entry: Entry) -> list[bytes]:
    numbers = (entry.crc, entry.stored_size, entry.size)
    forms = [DESCRIPTOR64.pack(DESCRIPTOR_SIGNATURE, *numbers)]
    if max(numbers) <= MAX32:
        forms.append(DESCRIPTOR.pack(DESCRIPTOR_SIGNATURE, *numbers))
    return forms
