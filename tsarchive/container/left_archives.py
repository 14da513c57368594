"""Which archive members belong to that are left of a file, by the directories that it still has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from tsarchive.container.directory import DirectoryPlace, Entry, entries_at
from tsarchive.container.layout import (
    CENTRAL_SIGNATURE,
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    LOCAL_SIGNATURE,
    End64Record,
    EndRecord,
)
from tsarchive.container.remains import Data, Remains, Remnant, entry_ends
from tsarchive.container.source import Source


class LeftArchive(NamedTuple):
    """Members that are of one archive, by record, and all whole.

    ``lost`` are records that are known of and are not there whole; of those that are ``foreign``,
    too, there is one, with another CRC-32 than the directory tells.
    """

    root: str
    members: Mapping[str, Remnant]
    lost: Sequence[str]
    foreign: frozenset[str]


class _Directory(NamedTuple):
    """A directory that begins at ``start``, and where its archive begins.

    ``begin`` is None where the directory is not complete.
    """

    entries: Mapping[str, Sequence[Entry]]
    begin: int | None
    start: int

    def tells(self, member: Remnant) -> bool | None:
        """Return whether it has the member as it is; None where it has none of that name."""
        same = self.entries.get(member.name)
        found = (member.entry.crc, member.entry.size)
        return None if same is None else any(found == (each.crc, each.size) for each in same)

    def spans(self, offset: int) -> bool:
        """Return whether an offset lies within its archive."""
        return self.begin is not None and self.begin <= offset < self.start


def left_archives(remains: Remains, is_whole: Callable[[Remnant], bool]) -> list[LeftArchive]:
    """Return the archives of which there is something, those with a directory first.

    What a directory tells of counts as its own wherever it stands, and nothing else does: a member
    of the same name that has another CRC-32 is of another file. Where there is no directory, an
    archive has the members in a folder up to the first name that was there before.
    """
    found = [*_directories(remains)]
    own = [d for d in found if not any(d is not other and other.spans(d.start) for other in found)]
    complete = [directory for directory in own if directory.begin is not None]
    archives = [_told(directory, remains.members, is_whole) for directory in complete]
    rest = [
        member
        for member in remains.members
        if not any(
            each.spans(member.entry.header_offset) or (each.tells(member) and is_whole(member))
            for each in complete
        )
    ]
    partial = [directory for directory in own if directory.begin is None]
    for members in _segments(rest):
        archive = _untold(members, partial, is_whole)
        if archive.members or not archives:
            archives.append(archive)
    return archives


def _told(
    directory: _Directory, members: Sequence[Remnant], is_whole: Callable[[Remnant], bool]
) -> LeftArchive:
    """Return the archive that a complete directory tells of."""
    first = next(iter(directory.entries), "")
    prefix = first[: first.find("/") + 1]
    known: dict[str, Remnant] = {}
    foreign: set[str] = set()
    inner = [member for member in members if directory.spans(member.entry.header_offset)]
    for member in (*inner, *members):
        if member.name.startswith(prefix) and is_whole(member):
            name = member.name.removeprefix(prefix)
            if directory.tells(member):
                known.setdefault(name, member)
            elif directory.tells(member) is False:
                foreign.add(name)
    names = [
        name.removeprefix(prefix)
        for name in directory.entries
        if name.startswith(prefix) and not name.endswith("/")
    ]
    whole = {name: known[name] for name in names if name in known}
    lost = [name for name in names if name not in whole]
    return LeftArchive(prefix.removesuffix("/"), whole, lost, frozenset(foreign.intersection(lost)))


def _untold(
    members: Sequence[Remnant],
    directories: Sequence[_Directory],
    is_whole: Callable[[Remnant], bool],
) -> LeftArchive:
    """Return the archive of members of which no complete directory tells."""
    prefix = _prefix(members[0])
    whole: dict[str, Remnant] = {}
    lost: list[str] = []
    foreign: set[str] = set()
    for member in members:
        name = member.name.removeprefix(prefix)
        if not name or member.entry.is_folder:
            continue
        differs = any(each.tells(member) is False for each in directories)
        if is_whole(member) and not differs:
            whole[name] = member
        else:
            lost.append(name)
            foreign.update([name] if is_whole(member) else ())
    return LeftArchive(prefix.removesuffix("/"), whole, lost, frozenset(foreign))


def _prefix(member: Remnant) -> str:
    return member.name[: member.name.find("/") + 1]


def _segments(members: Sequence[Remnant]) -> Iterator[Sequence[Remnant]]:
    """Yield members that may be of one archive: in one folder, each name once."""
    names: set[str] = set()
    segment: list[Remnant] = []
    for member in members:
        is_inside = bool(segment) and member.name.startswith(_prefix(segment[0]))
        if segment and (not is_inside or member.name in names):
            yield segment
            segment, names = [], set()
        segment.append(member)
        names.add(member.name)
    if segment:
        yield segment


def _directories(remains: Remains) -> Iterator[_Directory]:
    """Yield the directories that stand in no member."""
    behind = 0
    for start in remains.directory_entries():
        if start >= behind:
            found, behind = _directory_at(remains.data, start)
            yield found


def _directory_at(data: Data, start: int) -> tuple[_Directory, int]:
    """Return the directory whose first entry stands there, and where it ends."""
    ends = [start]
    for end in takewhile(lambda each: _is_uncut(data, ends[-1], each), entry_ends(data, start)):
        ends.append(end)
    end = ends[-1]
    with memoryview(data) as buffer:
        entries = entries_at(Source(buffer), DirectoryPlace(start, end - start, len(ends) - 1))
    by_name: dict[str, list[Entry]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, []).append(entry)
    told = _told_place(data, end)
    is_complete = told is not None and (told.size, told.entries) == (end - start, len(entries))
    begin = start - told.offset if told is not None and is_complete else None
    return _Directory(by_name, begin, start), end


def _is_uncut(data: Data, start: int, end: int) -> bool:
    """Return whether no other header begins in an entry of a directory: otherwise it is cut off,
    and another file begins there."""
    entry = bytes(data[start + len(CENTRAL_SIGNATURE) : end])
    return LOCAL_SIGNATURE not in entry and CENTRAL_SIGNATURE not in entry


def _told_place(data: Data, end: int) -> DirectoryPlace | None:
    """Return the place that the end record behind a directory tells; None where there is none."""
    record: EndRecord | End64Record | None = None
    if data[end : end + 4] == END64_SIGNATURE and end + END64.size <= len(data):
        record = End64Record(*END64.unpack_from(data, end))
    elif data[end : end + 4] == END_SIGNATURE and end + END.size <= len(data):
        record = EndRecord(*END.unpack_from(data, end))
    if record is None:
        return None
    return DirectoryPlace(record.directory_offset, record.directory_size, record.entries)
