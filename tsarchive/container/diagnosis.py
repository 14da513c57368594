"""What has happened to a zip archive on its way: cut short, two files in one, changed as text.

Only files whose directory is not where it should be, or whose records are damaged, are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final

from tsarchive.container.directory import (
    Directory,
    Entry,
    entries_at,
    find_directory,
    has_directory,
    told_place,
)
from tsarchive.container.extent import CUT_SHORT, RESCUE
from tsarchive.container.faults import Collected, Stopped
from tsarchive.container.layout import END, END_SIGNATURE, LOCAL, LOCAL_SIGNATURE, LocalHeader
from tsarchive.container.names import shown
from tsarchive.container.recognise import HEAD_BYTES, Diagnosis, recognise
from tsarchive.container.remains import Data, Remains, Remnant, is_archive_from
from tsarchive.container.source import Source

Sizes = Callable[[Remains], Mapping[str, int]]

TWO_IN_ONE: Final = "file-two-in-one"
SHIFTED: Final = "file-shifted"
TEXT_MODE: Final = "file-text-mode"
HOLE: Final = "file-hole"
ZEROS: Final = "file-zeros"

_UNKNOWN: Final = ("file-not-zip", "file-empty", ZEROS, CUT_SHORT)
BOM: Final = b"\xef\xbb\xbf"
_REPLACED: Final = "\ufffd".encode()
_AS_TEXT: Final = "Get it again, and copy or download it as binary: not as text"
_ANEW: Final = "Delete the file and download it anew, not resuming what is there"
# In fewer line ends a rule of them may be chance.
_ENOUGH: Final = 8
_SAMPLE: Final = 1 << 22
# Downloads leave holes of whole blocks.
_BLOCK: Final = 512
# More than stand in a row in headers and in directories.
_FEW_ZEROS: Final = 128
_ZEROS: Final = re.compile(rb"\0{%d,}" % _BLOCK)
_MOST_HOLES: Final = 5
_MOST_ENDS: Final = 1 << 10
_ONE_WRONG: Final = 2
_MISPLACED: Final = frozenset({"zip-directory-place", "zip-locator64", "zip-end64-length"})


def diagnose(source: Source, sizes: Sizes) -> Diagnosis | None:
    """Return what has happened to a file that begins or ends as a zip archive.

    ``sizes`` tells the sizes of records that others name. None where the directory is in its
    place, and where nothing is known.
    """
    faults = Collected()
    with suppress(Stopped):
        find_directory(source, faults)
    rules = {finding.rule for finding in faults.findings()}
    if "zip-several-ends" in rules:
        return None  # which one counts is for readers to say
    if not rules & {*_MISPLACED, "zip-appended", CUT_SHORT}:
        return None
    data = source.data
    with memoryview(data) as buffer:
        if rules & _MISPLACED:
            return as_text(data) or _shifted(buffer, data, sizes)
        if "zip-appended" in rules:
            return as_text(data) or _behind(buffer, data)
        return as_text(data) or _behind(buffer, data) or _cut(data, Remains(data), sizes)


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


def changed_on_the_way(data: Data) -> Diagnosis | None:
    """Tell of a broken file of any format: that it was copied as text, or ends with zeros."""
    text = as_text(data)
    if text is not None:
        return text
    zeros = _zeros_at_end(data)
    return _unfinished(data, zeros) if zeros >= _BLOCK else None


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
    source = Source(buffer)
    place, end = told_place(source)
    shift = end - place.offset - place.size
    entries = entries_at(source, place._replace(offset=place.offset + shift))
    ordered = sorted(entries, key=lambda entry: entry.header_offset)
    moved = [entry for entry in ordered if _is_at(buffer, entry, entry.header_offset + shift)]
    if not moved or not shift:
        return None
    remains = Remains(data)
    if any(_has_inside(member, shift, data) for member in remains.members):
        return _cut(data, remains, sizes)
    if shift > 0 and len(moved) == len(ordered):
        return _in_front(buffer, data, shift)
    kept = list(takewhile(lambda e: _is_at(buffer, e, e.header_offset), ordered))
    if kept:
        moved = [entry for entry in moved if entry.header_offset > kept[-1].header_offset]
        return _resumed(kept[-1], moved[0] if moved else None, shift, place.offset)
    if shift < 0:
        return Diagnosis(SHIFTED, f"its first {-shift:,} bytes are missing", RESCUE)
    return None


def _is_at(buffer: memoryview, entry: Entry, start: int) -> bool:
    """Return whether the header of a member stands there."""
    if not 0 <= start <= len(buffer) - LOCAL.size:
        return False
    header = LocalHeader(*LOCAL.unpack_from(buffer, start))
    name = bytes(buffer[start + LOCAL.size : start + LOCAL.size + header.name_length])
    return header.signature == LOCAL_SIGNATURE and name == entry.raw_name


def _has_inside(member: Remnant, start: int, data: Data) -> bool:
    """Return whether the archive that begins there is in a member of another one.

    Otherwise that one was cut where the data of its member begins, and another archive follows.
    """
    if member.data != start or member.end == start:
        return False
    return not is_archive_from(data, start) or member.is_whole(data)


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


def _in_front(buffer: memoryview, data: Data, size: int) -> Diagnosis | None:
    """Tell what stands in front of an archive that begins at ``size``."""
    front = bytes(data[: min(size, HEAD_BYTES)])
    if front == BOM:
        return marked_as_text("the archive")
    if not front.startswith(LOCAL_SIGNATURE):
        message = f"{size:,} bytes stand in front of the archive, which begins at byte {size:,}"
        kind = recognise(front)
        what = "" if kind.rule in _UNKNOWN else f": {_noun(kind)}"
        hint = f"Download it again, or remove the first {size:,} bytes"
        return Diagnosis(SHIFTED, message + what, hint, size)
    is_whole = has_directory(Source(buffer[:size]))
    return _two_in_one(buffer, size, "the first" if is_whole else "part of one")


def _two_in_one(buffer: memoryview, end: int, first: str) -> Diagnosis | None:
    what = file_at(Source(buffer), end)
    return None if what is None else two_in_one(what, end, first)


def two_in_one(what: str, end: int, first: str = "the first") -> Diagnosis:
    """Tell of a file behind which another one begins."""
    message = f"it is two files in one: {first} ends at byte {end:,}, where another begins: {what}"
    hint = f"Download it again, or cut it in two at byte {end:,}"
    return Diagnosis(TWO_IN_ONE, message, hint, end)


def marked_as_text(what: str) -> Diagnosis:
    """Tell of a byte order mark in front of a file."""
    message = f"a byte order mark, 3 bytes that begin a text, stands in front of {what}"
    return Diagnosis(SHIFTED, message, f"Remove these 3 bytes. {_AS_TEXT}", len(BOM))


def _noun(kind: Diagnosis) -> str:
    return kind.message.removeprefix("it is ").partition(", not a zip")[0]


def _behind(buffer: memoryview, data: Data) -> Diagnosis | None:
    """Tell of an archive that is whole, with something behind it."""
    end = next(_whole_ends(buffer, data), None)
    if end is None:
        return None
    rest = len(buffer) - end
    if _zeros_at_end(data) >= rest:
        message = f"the archive ends at byte {end:,}, and {rest:,} zeros follow"
        return Diagnosis(SHIFTED, message, f"Keep the first {end:,} bytes alone", end)
    return _two_in_one(buffer, end, "the first")


def file_at(source: Source, start: int) -> str | None:
    """Say what kind of file begins there; None where nothing is known."""
    head = bytes(source.piece(start, start + HEAD_BYTES))
    if head.startswith(LOCAL_SIGNATURE):
        name = _name_at(source, start)
        return f"an archive, with record {name}" if name else "an archive"
    kind = recognise(head)
    return None if kind.rule in _UNKNOWN else _noun(kind)


def _name_at(source: Source, start: int) -> str:
    """Return the name in the header of a member, as it is shown; "" where it is cut off."""
    begin = start + LOCAL.size
    length = int.from_bytes(source.piece(begin - 4, begin - 2), "little")
    name = bytes(source.piece(begin, begin + length))
    return shown(name.decode("utf-8", "backslashreplace")) if len(name) == length else ""


def _whole_ends(buffer: memoryview, data: Data) -> Iterator[int]:
    """Yield where whole archives end that begin as the file does."""
    for count, match in enumerate(re.finditer(re.escape(END_SIGNATURE), data)):
        if count == _MOST_ENDS:
            return
        end = match.start() + END.size
        if end < len(buffer) and has_directory(Source(buffer[:end])):
            yield end


# Cut short


def _cut(data: Data, remains: Remains, sizes: Sizes) -> Diagnosis:
    zeros = _zeros_at_end(data)
    last = next(reversed(remains.up_to_the_cut()), None)
    is_in_record = last is not None and last.end is None
    if zeros >= (_BLOCK if is_in_record else _FEW_ZEROS):
        return _unfinished(data, zeros, last if is_in_record else None)
    extent = remains.extent(sizes(remains))
    if extent.missing <= 0:
        return _unfinished(data, zeros) if zeros else _without_end(remains)
    directory = "among them the directory, which zip archives have at their end"
    message = f"{extent.message}, {directory}{_where(remains)}"
    return Diagnosis(CUT_SHORT, message, RESCUE, extent=extent)


def _without_end(remains: Remains) -> Diagnosis:
    """Tell of a file that is long enough for its end record, and has none."""
    start = remains.directory_start
    where = "" if start is None else f" behind its directory, which begins at byte {start:,}"
    message = (
        f"there is no end record{where}: part of another file, or of another version of this one, "
        "may stand there"
    )
    return Diagnosis(TWO_IN_ONE, message, RESCUE, start)


def _where(remains: Remains) -> str:
    """Say between which records an archive is cut."""
    members = remains.up_to_the_cut()
    if not members:
        return ""
    last = members[-1]
    is_whole = last.is_in(len(remains.data))
    place = "the last whole record is" if is_whole else "the cut is in record"
    return f"; {place} {shown(last.name)}"


def _unfinished(data: Data, zeros: int, last: Remnant | None = None) -> Diagnosis:
    """Tell of a file that ends with zeros, which may all be data of its ``last`` member."""
    start = len(data) - zeros
    may_be_data = last is not None and start <= last.data
    told = f", unless they are data of record {shown(last.name)}" if last and may_be_data else ""
    message = (
        f"it is cut short: from byte {start:,} of {len(data):,} on there are only zeros, as a "
        f"download leaves that did not finish{told}"
    )
    return Diagnosis(CUT_SHORT, message, RESCUE, start)


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
    explained = (*_of_another_file(data, directory, damaged), *_holes(data, directory, damaged))
    yield from explained or _damaged_part(directory, damaged)


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
        yield Diagnosis(TWO_IN_ONE, message, _ANEW, sound[-1])


def _damaged_part(directory: Directory, damaged: Sequence[Entry]) -> Iterator[Diagnosis]:
    """Tell of damage from one record to another."""
    starts = directory.starts[:-1]
    in_doubt = {entry.header_offset for entry in damaged}
    places = [place for place, start in enumerate(starts) if start in in_doubt]
    is_one_part = places == list(range(places[0], places[-1] + 1)) if places else False
    if is_one_part and len(places) > _ONE_WRONG:
        begin, end = starts[places[0]], directory.starts[places[-1] + 1]
        message = (
            f"nothing between byte {begin:,} and byte {end:,} is as the directory tells: part of "
            "another file, or of another version of this one, may stand there"
        )
        yield Diagnosis(TWO_IN_ONE, message, _ANEW, begin)


def _holes(data: Data, directory: Directory, damaged: Sequence[Entry]) -> Iterator[Diagnosis]:
    holes: list[tuple[int, int]] = []
    for entry in sorted(damaged, key=lambda entry: entry.header_offset):
        start = entry.header_offset
        if start >= directory.offset:
            continue
        limit = directory.limit(entry)
        # A hole may begin in the record before, or end in the one behind.
        found = _ZEROS.finditer(data, max(0, start - _BLOCK), min(limit + _BLOCK, directory.offset))
        for begin, end in (match.span() for match in found):
            if begin >= limit or end <= start:
                continue
            if holes and holes[-1][1] >= begin:
                previous = holes.pop()
                begin, end = previous[0], max(previous[1], end)
            holes.append((begin, end))
    if holes:
        ranges = ", ".join(f"{begin:,} to {end:,}" for begin, end in holes[:_MOST_HOLES])
        more = f" and {len(holes) - _MOST_HOLES:,} more" if len(holes) > _MOST_HOLES else ""
        message = f"damaged records have only zeros from byte {ranges}{more}"
        hint = "Parts of the download are missing there: download it again"
        yield Diagnosis(HOLE, message, hint, holes[0][0])
