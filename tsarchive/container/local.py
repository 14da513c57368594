"""The local header before a member's data and the descriptor after it, held against the directory.

They are checked when a record's data is first asked for, not when the archive is opened: the
headers of a large archive are spread over all of its pages.
"""

from __future__ import annotations

from tsarchive.container.directory import Entry
from tsarchive.container.extra import parse_extra, widen
from tsarchive.container.layout import (
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
from tsarchive.errors import FormatError

__all__ = ["check_descriptor", "locate_data"]


def locate_data(buffer: memoryview, entry: Entry, limit: int, record: str) -> int:
    """Give the offset of an entry's data in the file; ``limit`` is where the next thing begins.

    Raises FormatError, naming ``record``, when the local header contradicts the directory.
    """
    try:
        return _locate(buffer, entry, limit)
    except FormatError as error:
        error.record, error.offset = record, entry.header_offset
        raise


def _locate(buffer: memoryview, entry: Entry, limit: int) -> int:
    start = entry.header_offset
    header = LocalHeader(*LOCAL.unpack_from(buffer, start))
    if header.signature != LOCAL_SIGNATURE:
        raise FormatError("there is no local header where the directory says")
    extra_start = start + LOCAL.size + header.name_length
    if buffer[start + LOCAL.size : extra_start] != entry.name.encode():
        raise FormatError("the local header has another name than the directory")
    data = extra_start + header.extra_length
    if data + entry.stored_size > limit:
        raise FormatError(f"the record runs into what begins at byte {limit}")
    _compare("method", header.method, entry.method)
    _compare("flags", header.flags & ~FLAGS_OF_ENCODER, entry.flags & ~FLAGS_OF_ENCODER)
    _compare_sizes(header, entry, bytes(buffer[extra_start:data]))
    return data


def _compare_sizes(header: LocalHeader, entry: Entry, extra: bytes) -> None:
    crc, size, stored_size = header.crc, header.size, header.stored_size
    if header.flags & FLAG_DESCRIPTOR:
        # The writer did not know the numbers yet: each is right, zero, or in the ZIP64 field,
        # where torch puts what it knows. The descriptor after the data has them all.
        crc = crc or entry.crc
        size = entry.size if size in (0, MAX32) else size
        stored_size = entry.stored_size if stored_size in (0, MAX32) else stored_size
    elif MAX32 in (size, stored_size):
        size, stored_size = widen(parse_extra(extra), size, stored_size)
    _compare("CRC-32", crc, entry.crc)
    _compare("size", size, entry.size)
    _compare("stored size", stored_size, entry.stored_size)


def _compare(field: str, local: int, central: int) -> None:
    if local != central:
        raise FormatError(f"{field} {local} in the local header, {central} in the directory")


def check_descriptor(buffer: memoryview, entry: Entry, data: int, limit: int, record: str) -> None:
    """Check the descriptor after the data at ``data``, when the entry says that it has one.

    Its numbers have 32 or 64 bits and its signature may be missing; nothing says which form it
    is, so any that agrees with the directory will do. Raises FormatError naming ``record``.
    """
    if not entry.flags & FLAG_DESCRIPTOR or not entry.size:
        return
    start = data + entry.stored_size
    found = bytes(buffer[start : min(start + DESCRIPTOR64.size, limit)])
    numbers = (entry.crc, entry.stored_size, entry.size)
    forms = [DESCRIPTOR64.pack(DESCRIPTOR_SIGNATURE, *numbers)]
    if max(numbers) <= MAX32:
        forms.append(DESCRIPTOR.pack(DESCRIPTOR_SIGNATURE, *numbers))
    if not found.startswith(tuple(forms + [form[4:] for form in forms])):
        raise FormatError(
            "the descriptor after the data contradicts the directory", record=record, offset=start
        )
