"""What has happened to a zip archive on its way: cut short, two files in one, changed as text.

Only files whose directory is not where it should be, or whose records are damaged, are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from tsarchive.container.directory import (
    Directory,
    Entry,
    entries_at,
    find_directory,
    told_place,
)
from tsarchive.container.extent import AGAIN, CUT_SHORT
from tsarchive.container.faults import Collected, Stopped
from tsarchive.container.layout import END_SIGNATURE, LOCAL, LOCAL_SIGNATURE, LocalHeader
from tsarchive.container.names import shown
from tsarchive.container.recognise import HEAD_BYTES, Diagnosis, recognise
from tsarchive.container.remains import Data, Remains, Remnant

Sizes = Callable[[Remains], Mapping[str, int]]

TWO_IN_ONE: Final = "file-two-in-one"
SHIFTED: Final = "file-shifted"
TEXT_MODE: Final = "file-text-mode"
HOLE: Final = "file-hole"
ZEROS: Final = "file-zeros"
DIAGNOSES: Final = (TWO_IN_ONE, SHIFTED, TEXT_MODE, HOLE)
"""The rules of findings about what has happened to a file, beside those of what it is."""

_BOM: Final = b"\xef\xbb\xbf"
_REPLACED: Final = "\ufffd".encode()
_AS_TEXT: Final = "Get it again, and copy or download it as binary: not as text"
_ANEW: Final = "Delete the file and download it anew, not resuming what is there"
# In fewer line ends a rule of them may be chance.
_ENOUGH: Final = 8
_SAMPLE: Final = 1 << 22
# Downloads leave holes of whole blocks.
_BLOCK: Final = 512
_ZEROS: Final = re.compile(rb"\0{%d,}" % _BLOCK)
_MOST_HOLES: Final = 5
_MOST_ENDS: Final = 1 << 10
_ONE_WRONG: Final = 2


def diagnose(data: Data, sizes: Sizes) -> Diagnosis | None:
    """Return what has happened to a file that begins or ends as a zip archive.

    ``sizes`` tells the sizes of records that others name. None where the directory is in its
    place, and where nothing is known.
    """
    faults = Collected()
    with memoryview(data) as buffer:
        try:
            find_directory(buffer, faults)
        except Stopped:
            pass
        rules = {finding.rule for finding in faults.findings()}
        if rules & {"zip-directory-place", "zip-locator64"}:
            return as_text(data) or _shifted(buffer, data, sizes)
        if "zip-appended" in rules:
            return as_text(data) or _behind(buffer, data)
        if CUT_SHORT in rules:
            return as_text(data) or _behind(buffer, data) or _cut(data, Remains(data), sizes)
    return None


# Changed as text


def as_text(data: Data) -> Diagnosis | None:
    """Tell of a file that was copied as text."""
    sample = bytes(data[:_SAMPLE])
    lines, pairs = sample.count(b"\n"), sample.count(b"\r\n")
    if lines == pairs >= _ENOUGH:
        return Diagnosis(
            TEXT_MODE,
            f"it was copied as text: a carriage return stands before each of {lines:,} line feeds",
            _AS_TEXT,
        )
    if sample.count(_REPLACED) >= _ENOUGH and not _has_other_bytes(sample):
        message = "it was copied as text: bytes that are no UTF-8 have been replaced"
        return Diagnosis(TEXT_MODE, message, _AS_TEXT)
    return None


def _has_other_bytes(sample: bytes) -> bool:
    """Return whether not all is UTF-8, but for a character that the sample may end in."""
    try:
        sample.decode()
    except UnicodeDecodeError as error:
        return error.start < len(sample) - len(_REPLACED)
    return False


# Two files in one


def _shifted(buffer: memoryview, data: Data, sizes: Sizes) -> Diagnosis | None:
    """Tell why the directory is not where its end record says."""
    place, end = told_place(buffer)
    shift = end - place.offset - place.size
    entries = entries_at(buffer, place._replace(offset=place.offset + shift))
    ordered = sorted(entries, key=lambda entry: entry.header_offset)
    moved = [entry for entry in ordered if _is_at(buffer, entry, entry.header_offset + shift)]
    if not moved:
        return None
    kept = list(takewhile(lambda e: _is_at(buffer, e, e.header_offset), ordered))
    if kept:
        moved = [entry for entry in moved if entry.header_offset > kept[-1].header_offset]
        return _resumed(kept[-1], moved[0] if moved else None, shift, place.offset)
    if shift < 0:
        return Diagnosis(SHIFTED, f"its first {-shift:,} bytes are missing", AGAIN)
    remains = Remains(data)
    if any(member.data == shift for member in remains.members):
        return _cut(data, remains, sizes)  # the directory is that of an archive in a record
    return _in_front(buffer, data, shift, moved[0])


def _is_at(buffer: memoryview, entry: Entry, start: int) -> bool:
    """Return whether the header of a member stands there."""
    if not 0 <= start <= len(buffer) - LOCAL.size:
        return False
    header = LocalHeader(*LOCAL.unpack_from(buffer, start))
    name = bytes(buffer[start + LOCAL.size : start + LOCAL.size + header.name_length])
    return header.signature == LOCAL_SIGNATURE and name == entry.raw_name


def _resumed(last: Entry, first: Entry | None, shift: int, directory: int) -> Diagnosis:
    """Tell of a download that was resumed at another byte than it had ended at."""
    begin = last.header_offset
    end = (directory if first is None else first.header_offset) + shift
    where = f"between byte {begin:,} (record {shown(last.name)}) and byte {end:,}"
    if shift < 0:
        message = f"{-shift:,} bytes are missing {where}: a download was resumed too far on"
    else:
        message = (
            f"{shift:,} bytes too many stand {where}: a download was resumed too early, or another "
            "file begins there"
        )
    return Diagnosis(SHIFTED, message, _ANEW)


def _in_front(buffer: memoryview, data: Data, size: int, first: Entry) -> Diagnosis:
    """Tell what stands in front of an archive that begins at ``size`` with a member."""
    front = bytes(data[: min(size, HEAD_BYTES)])
    if front == _BOM:
        message = "a byte order mark, 3 bytes that belong to text, stands in front of the archive"
        return Diagnosis(SHIFTED, message, f"Remove them; or: {_AS_TEXT}")
    where = f"another archive begins at byte {size:,}, with record {shown(first.name)}"
    if not front.startswith(LOCAL_SIGNATURE):
        message = f"{size:,} bytes stand in front of the archive, which begins at byte {size:,}"
        kind = recognise(front)
        what = "" if kind.rule == "file-not-zip" else f": {_noun(kind)}"
        hint = f"Download it again, or remove the first {size:,} bytes"
        return Diagnosis(SHIFTED, message + what, hint)
    if _is_whole(buffer[:size]):
        return Diagnosis(TWO_IN_ONE, f"it is two files in one: {where}", _cut_at(size))
    message = f"it is two files in one: behind the first part of an archive, {where}"
    return Diagnosis(TWO_IN_ONE, message, _cut_at(size))


def _cut_at(size: int) -> str:
    return f"Download it again, or cut it in two at byte {size:,}"


def _noun(kind: Diagnosis) -> str:
    return kind.message.removeprefix("it is ").partition(", not a zip")[0]


def _is_whole(buffer: memoryview) -> bool:
    """Return whether an archive fills the buffer, as far as its end and directory tell."""
    faults = Collected()
    try:
        find_directory(buffer, faults)
    except Stopped:
        return False
    return not faults.refused


def _behind(buffer: memoryview, data: Data) -> Diagnosis | None:
    """Tell of an archive that is whole, with something behind it."""
    end = next(_whole_ends(buffer, data), None)
    if end is None:
        return None
    rest = len(buffer) - end
    head = bytes(buffer[end : end + HEAD_BYTES])
    first = _member_at(buffer, end)
    if first is not None:
        message = f"another archive begins at byte {end:,}, with record {first}"
        return Diagnosis(TWO_IN_ONE, f"it is two files in one: {message}", _cut_at(end))
    if not head.strip(b"\0") and not bytes(buffer[end:]).strip(b"\0"):
        message = f"the archive ends at byte {end:,}, and {rest:,} zeros follow"
        return Diagnosis(SHIFTED, message, f"Keep the first {end:,} bytes alone")
    kind = recognise(head)
    if kind.rule == "file-not-zip" or kind.rule == ZEROS:
        return None
    message = f"another file begins at byte {end:,}: {_noun(kind)}"
    return Diagnosis(TWO_IN_ONE, f"it is two files in one: {message}", _cut_at(end))


def _member_at(buffer: memoryview, start: int) -> str | None:
    """Return the name of the member whose header begins there."""
    if start + LOCAL.size > len(buffer) or buffer[start : start + 4] != LOCAL_SIGNATURE:
        return None
    header = LocalHeader(*LOCAL.unpack_from(buffer, start))
    name = bytes(buffer[start + LOCAL.size : start + LOCAL.size + header.name_length])
    return shown(name.decode("utf-8", "backslashreplace"))


def _whole_ends(buffer: memoryview, data: Data) -> Iterator[int]:
    """Yield where whole archives end that begin as the file does."""
    for count, match in enumerate(re.finditer(re.escape(END_SIGNATURE), data)):
        if count == _MOST_ENDS:
            return
        end = match.start() + 22
        if end < len(buffer) and _is_whole(buffer[:end]):
            yield end


# Cut short


def _cut(data: Data, remains: Remains, sizes: Sizes) -> Diagnosis:
    zeros = _zeros_at_end(data)
    if zeros >= _BLOCK and not _may_be_zeros(remains, len(data) - zeros):
        start = len(data) - zeros
        message = (
            f"it is cut short: from byte {start:,} of {len(data):,} on there are only zeros, "
            "as a download leaves that did not finish"
        )
        return Diagnosis(CUT_SHORT, message, AGAIN)
    extent = remains.extent(sizes(remains))
    return Diagnosis(CUT_SHORT, f"{extent.message}; {_what_is_lost(remains)}", AGAIN)


def _what_is_lost(remains: Remains) -> str:
    """Say up to where an archive goes that has no end."""
    members = remains.up_to_the_cut()
    end = "the directory, which stands at the end"
    if not members:
        return f"{end}, is among them"
    last, size = members[-1], len(remains.data)
    if last.is_in(size):
        return f"{end}, is among them; the last whole record is {shown(last.name)}"
    return f"{end}, is among them; the cut is in record {shown(last.name)}"


def _may_be_zeros(remains: Remains, start: int) -> bool:
    """Return whether zeros from there to the end may be data of the last member."""
    members = remains.up_to_the_cut()
    return bool(members) and members[-1].end is None and start <= members[-1].data


def _zeros_at_end(data: Data) -> int:
    """Return how many zeros the file ends with."""
    end = len(data)
    while end > 0:
        piece = bytes(data[max(0, end - _SAMPLE) : end])
        kept = len(piece.rstrip(b"\0"))
        if kept:
            return len(data) - end + len(piece) - kept
        end -= len(piece)
    return len(data)


# Damaged records


def diagnose_records(
    data: Data, directory: Directory, damaged: Sequence[Entry]
) -> Iterator[Diagnosis]:
    """Yield what explains damage to members of an archive whose directory is in its place."""
    text = as_text(data)
    if text is not None:
        yield text
        return
    yield from _of_another_file(data, directory, damaged)
    yield from _holes(data, directory, damaged)


def _of_another_file(
    data: Data, directory: Directory, damaged: Sequence[Entry]
) -> Iterator[Diagnosis]:
    """Tell of an archive whose first members are those of another one."""
    in_doubt = {entry.header_offset for entry in damaged}
    backwards = sorted((e.header_offset for e in directory.entries), reverse=True)
    sound = list(takewhile(lambda start: start not in in_doubt, backwards))
    if not sound:
        return
    known = {(e.header_offset, e.crc, e.size) for e in directory.entries}
    others = [
        member
        for member in Remains(data).members
        if member.entry.header_offset < sound[-1]
        and (member.entry.header_offset, member.entry.crc, member.entry.size) not in known
        and member.is_whole(data)
    ]
    # The directory may be wrong about a single one.
    if others and len(others) + len(damaged) > _ONE_WRONG:
        message = (
            f"it is two files in one: the records from {shown(others[0].name)} to "
            f"{shown(others[-1].name)}, which ends at byte {others[-1].end:,}, are whole and of "
            "another archive; the directory at the end is that of what stands from byte "
            f"{sound[-1]:,} on"
        )
        yield Diagnosis(TWO_IN_ONE, message, _ANEW)


def _holes(data: Data, directory: Directory, damaged: Sequence[Entry]) -> Iterator[Diagnosis]:
    holes: list[tuple[int, int]] = []
    for entry in sorted(damaged, key=lambda entry: entry.header_offset):
        start = entry.header_offset
        if start >= directory.offset:
            continue
        found = _ZEROS.finditer(data, start, directory.limit(entry))
        for begin, end in (match.span() for match in found):
            if holes and holes[-1][1] == begin:
                begin = holes.pop()[0]
            holes.append((begin, end))
    if holes:
        ranges = ", ".join(f"{begin:,} to {end:,}" for begin, end in holes[:_MOST_HOLES])
        more = f" and {len(holes) - _MOST_HOLES:,} more" if len(holes) > _MOST_HOLES else ""
        message = f"damaged records have only zeros from byte {ranges}{more}"
        hint = "Parts of the download are missing there: download it again"
        yield Diagnosis(HOLE, message, hint)
