"""The end of a zip archive: the end record, its ZIP64 form, and what the two must agree on."""

from __future__ import annotations

from typing import NamedTuple

from tsarchive.container.layout import (
    CENTRAL,
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    LOCATOR64,
    LOCATOR64_SIGNATURE,
    MAX16,
    MAX32,
    End64Record,
    EndRecord,
    Locator64,
)
from tsarchive.container.recognise import HEAD_BYTES, not_a_zip_hint
from tsarchive.errors import FormatError, UnsupportedError

__all__ = ["DirectoryPlace", "find_directory"]

# The comment after the end record is at most this long.
_MAX_COMMENT = MAX16


class DirectoryPlace(NamedTuple):
    """Where the directory stands in the file, in bytes, and how many entries it has."""

    offset: int
    size: int
    entries: int


def find_directory(buffer: memoryview) -> DirectoryPlace:
    """Find the directory of a zip archive that fills ``buffer`` from its first byte to its last.

    Raises FormatError when there is no end record, more than one, or one that contradicts the
    file, and UnsupportedError for an archive in several volumes.
    """
    position = _find_end_record(buffer)
    end = EndRecord(*END.unpack_from(buffer, position))
    located = _find_end64(buffer, position)
    if located is None:
        return _place(end, position)
    wide, position = located
    _compare(end, wide, position)
    return _place(wide, position)


def _find_end_record(buffer: memoryview) -> int:
    start = max(0, len(buffer) - END.size - _MAX_COMMENT)
    tail = bytes(buffer[start:])
    found = _end_candidates(tail)
    if not found:
        hint = not_a_zip_hint(bytes(buffer[:HEAD_BYTES]))
        raise FormatError("not a zip archive: there is no end record", hint=hint)
    complete = [position for position, after in found if after == len(tail)]
    if len(complete) > 1:
        raise FormatError(
            "two end records fit the end of the file, so readers disagree on what it holds",
            offset=start + complete[0],
        )
    if not complete:
        position, after = found[-1]
        raise _wrong_end(start + position, len(tail) - after)
    return start + complete[0]


def _end_candidates(tail: bytes) -> list[tuple[int, int]]:
    """Positions of all end records in ``tail``, each with the position after its comment."""
    found = []
    position = tail.find(END_SIGNATURE)
    while 0 <= position <= len(tail) - END.size:
        end = EndRecord(*END.unpack_from(tail, position))
        found.append((position, position + END.size + end.comment_length))
        position = tail.find(END_SIGNATURE, position + 1)
    return found


def _wrong_end(offset: int, surplus: int) -> FormatError:
    if surplus > 0:
        return FormatError(
            f"{surplus} bytes follow the end record and are not its comment",
            offset=offset,
            hint="Something was appended to the archive, or its end was cut off",
        )
    return FormatError(
        f"the comment after the end record lacks {-surplus} bytes",
        offset=offset,
        hint="The file is cut short: download or copy it again",
    )


def _find_end64(buffer: memoryview, end: int) -> tuple[End64Record, int] | None:
    """Read the ZIP64 end record by its locator; give it with its position, if there is one."""
    place = end - LOCATOR64.size
    if place < 0 or buffer[place : place + 4] != LOCATOR64_SIGNATURE:
        return None
    locator = Locator64(*LOCATOR64.unpack_from(buffer, place))
    if locator.disk or locator.disks > 1:
        raise _several_volumes(place)
    position = locator.end_offset
    if position > place - END64.size or buffer[position : position + 4] != END64_SIGNATURE:
        raise FormatError("the ZIP64 locator points at no ZIP64 end record", offset=place)
    wide = End64Record(*END64.unpack_from(buffer, position))
    if position + 12 + wide.record_size != place:
        raise FormatError("the ZIP64 end record has the wrong length", offset=position)
    return wide, position


def _compare(end: EndRecord, wide: End64Record, position: int) -> None:
    """Each number of the narrow record is the wide record's, or says to look there."""
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
            raise FormatError(
                f"the two end records contradict: {field} {narrow} and {value}", offset=position
            )


def _place(end: EndRecord | End64Record, position: int) -> DirectoryPlace:
    """Check that the directory fills the bytes up to the first end record at ``position``."""
    if end.disk or end.directory_disk or end.disk_entries != end.entries:
        raise _several_volumes(position)
    if end.directory_offset + end.directory_size != position:
        raise FormatError(
            f"the directory should end at byte {end.directory_offset + end.directory_size}, "
            f"where the end record begins, but that begins at byte {position}",
            offset=position,
            hint="Bytes were put in front of the archive or taken from it",
        )
    if end.entries * CENTRAL.size > end.directory_size:
        raise FormatError(
            f"{end.entries} entries do not fit a directory of {end.directory_size} bytes",
            offset=end.directory_offset,
        )
    return DirectoryPlace(end.directory_offset, end.directory_size, end.entries)


def _several_volumes(offset: int) -> UnsupportedError:
    return UnsupportedError(
        "the archive is one of several volumes",
        offset=offset,
        hint="Join the volumes with the tool that split them",
    )
