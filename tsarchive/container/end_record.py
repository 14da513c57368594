"""The end of a zip archive: the end record, its ZIP64 form, and their agreement."""

from __future__ import annotations

from typing import NamedTuple

from .faults import Faults, Place
from .layout import (
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
from .recognise import HEAD_BYTES, recognise

# Maximum length of the comment after the end record.
_MAX_COMMENT = MAX16


class DirectoryPlace(NamedTuple):
    """Where the directory stands in the file, in bytes, and how many entries it has."""

    offset: int
    size: int
    entries: int


def find_directory(buffer: memoryview, faults: Faults) -> DirectoryPlace:
    """Find the directory of a zip archive that fills ``buffer``.

    Reports a fault when there is no end record, more than one, or one that contradicts the file,
    and when the archive is split over several volumes.
    """
    position = _find_end_record(buffer, faults)
    end = EndRecord(*END.unpack_from(buffer, position))
    located = _find_end64(buffer, position, faults)
    if located is None:
        return _place(end, position, faults)
    wide, position = located
    _compare(end, wide, position, faults)
    return _place(wide, position, faults)


def _find_end_record(buffer: memoryview, faults: Faults) -> int:
    start = max(0, len(buffer) - END.size - _MAX_COMMENT)
    tail = bytes(buffer[start:])
    found = _end_candidates(tail)
    if not found:
        kind = recognise(bytes(buffer[:HEAD_BYTES]))
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


def _end_candidates(tail: bytes) -> list[tuple[int, int]]:
    """Positions of all end records in ``tail``, each with the position after its comment."""
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


def _find_end64(buffer: memoryview, end: int, faults: Faults) -> tuple[End64Record, int] | None:
    """Return the ZIP64 end record and its position, or None where no locator points to one."""
    place = end - LOCATOR64.size
    if place < 0 or buffer[place : place + 4] != LOCATOR64_SIGNATURE:
        return None
    locator = Locator64(*LOCATOR64.unpack_from(buffer, place))
    if locator.disk or locator.disks > 1:
        _report_volumes(place, faults)
    position = locator.end_offset
    if position > place - END64.size or buffer[position : position + 4] != END64_SIGNATURE:
        faults.stop(
            "zip-locator64", "the ZIP64 locator points at no ZIP64 end record", Place(offset=place)
        )
    wide = End64Record(*END64.unpack_from(buffer, position))
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
