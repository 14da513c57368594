"""What is left of a zip archive without a directory that fits: members, by their local headers.

One pass finds all signatures, so the time grows with the size of the file whatever it holds.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from mmap import mmap
from typing import Final, NamedTuple, TypeAlias

from tsarchive.container import caps
from tsarchive.container.contents import checked_pieces
from tsarchive.container.directory import (
    Entry,
    apply_zip64,
    has_directory,
    parse_extra,
    zip64_field,
)
from tsarchive.container.extent import Extent
from tsarchive.container.faults import STRICT, Collected, Place
from tsarchive.container.layout import (
    CENTRAL,
    CENTRAL_SIGNATURE,
    DESCRIPTOR,
    DESCRIPTOR64,
    END,
    END64,
    END_SIGNATURE,
    FLAG_DESCRIPTOR,
    LOCAL,
    LOCAL_SIGNATURE,
    LOCATOR64,
    MAX32,
    METHOD_NAMES,
    PADDING_FIELD,
    STORED,
    CentralHeader,
    LocalHeader,
)
from tsarchive.container.names import MAX_NAME_BYTES, name_problem
from tsarchive.container.source import Source
from tsarchive.errors import ArchiveError

Data: TypeAlias = bytes | bytearray | memoryview | mmap

_SIGNATURES: Final = re.compile(rb"PK(?:\x03\x04|\x07\x08|\x01\x02)")
# Far more than an archive may have, by chance or design; what stands behind them is left aside.
_MOST_SIGNATURES: Final = 4 * caps.MAX_ENTRIES
_ARCHIVES: Final = (".pt", ".pth", ".zip")
# What torch writes behind the directory, whatever the size.
_ENDS_OF_TORCH: Final = END64.size + LOCATOR64.size + END.size


class Remnant(NamedTuple):
    """A member that has a local header: its numbers, and where its data lies.

    ``end`` is where it ends, None where neither its header nor a descriptor tells.
    """

    entry: Entry
    data: int
    end: int | None
    is_padded: bool

    @property
    def name(self) -> str:
        """The name, with the root folder."""
        return self.entry.name

    def is_in(self, size: int) -> bool:
        """Return whether the member ends within so many bytes."""
        return self.end is not None and self.end <= size

    def pieces(self, data: Data) -> Iterator[bytes | memoryview]:
        """Yield the data, inflated. Raises ArchiveError where it is not what its CRC-32 tells."""
        with memoryview(data) as view:
            payload = view[self.data : self.data + self.entry.stored_size]
            yield from checked_pieces(self.entry, payload, Place(self.name, self.data), STRICT)

    @property
    def is_bounded(self) -> bool:
        """Return whether its sizes are within the caps of a directory's entries."""
        entry, cap = self.entry, caps.size_cap(self.name)
        if cap is not None and entry.size > cap:
            return False
        if entry.method == STORED:
            return entry.size == entry.stored_size
        free = caps.FREE_INFLATED_BYTES if cap is None else caps.FREE_PARSED_BYTES
        return entry.size <= max(free, caps.MAX_INFLATED_RATIO * entry.stored_size)

    def is_whole(self, data: Data) -> bool:
        """Return whether all of the member is there, as it was written."""
        if not self.is_in(len(data)) or not self.is_bounded:
            return False
        try:
            for _ in self.pieces(data):
                pass
        except ArchiveError:
            return False
        return True


class Signatures(NamedTuple):
    """Where things of a zip archive seem to begin.

    ``descriptors`` are by the byte at which the data began that they are about.
    """

    headers: Sequence[int]
    descriptors: Mapping[int, Sequence[tuple[int, int]]]
    central: Sequence[int]


def _signatures(data: Data) -> Signatures:
    headers: list[int] = []
    descriptors: dict[int, list[tuple[int, int]]] = {}
    central: list[int] = []
    for count, match in enumerate(_SIGNATURES.finditer(data)):
        if count == _MOST_SIGNATURES:
            break
        at = match.start()
        if match[0] == LOCAL_SIGNATURE:
            headers.append(at)
        elif match[0] == CENTRAL_SIGNATURE:
            central.append(at)
        else:
            for start, width in _described(data, at):
                descriptors.setdefault(start, []).append((at, width))
    return Signatures(headers, descriptors, central)


def _described(data: Data, at: int) -> Iterator[tuple[int, int]]:
    """Yield where the data before a descriptor would begin, in each width that it may have."""
    for form in (DESCRIPTOR, DESCRIPTOR64):
        if at + form.size <= len(data):
            start = at - form.unpack_from(data, at)[2]
            if start >= LOCAL.size:
                yield start, form.size


def is_archive_from(data: Data, start: int) -> bool:
    """Return whether what stands from there to the end has the directory of an archive."""
    return has_directory(Source(memoryview(data)[start:]))


class Remains:
    """The members found in the bytes of a file, in their order.

    With ``is_sound``, what does not hold for a member is not believed, and members are sought in
    what it would take up.
    """

    def __init__(
        self, data: Data, is_sound: Callable[[Remnant], bool] = lambda remnant: True
    ) -> None:
        self.data = data
        self._found = _signatures(data)
        self._taken: list[tuple[int, int]] = []
        self.members = tuple(self._members(is_sound))

    def _members(self, is_sound: Callable[[Remnant], bool]) -> Iterator[Remnant]:
        covered = 0
        for start in self._found.headers:
            found = None if start < covered else self._member(start)
            if found is None or self._is_continued(found):
                continue
            is_whole = found.end is not None and is_sound(found)
            covered = found.end if is_whole and found.end is not None else self._inside(found)
            self._taken.append((start, covered))
            yield found

    def _is_continued(self, member: Remnant) -> bool:
        """Return whether a header is cut off, and goes on with that of the data behind it."""
        place = bisect_right(self._found.headers, member.entry.header_offset)
        following = next(iter(self._found.headers[place : place + 1]), member.data)
        if following >= member.data or member.end is None:
            return False
        other = self._member(following)
        return other is not None and other.end == member.end

    def _inside(self, member: Remnant) -> int:
        """Return where members may follow behind the signature of one that does not hold.

        They are not those of an archive that its data is itself. One that ends the file is in no
        record, which a directory would follow: the file was cut where the data began.
        """
        start = member.data
        if bytes(self.data[start : start + len(LOCAL_SIGNATURE)]) != LOCAL_SIGNATURE:
            return member.entry.header_offset + len(LOCAL_SIGNATURE)
        if is_archive_from(self.data, start):
            return start
        with memoryview(self.data) as view:
            found = re.compile(re.escape(END_SIGNATURE)).search(view, start)
        return len(self.data) if found is None else found.end()

    def _member(self, start: int) -> Remnant | None:
        """Return the member whose header begins there; None where that is none."""
        if start + LOCAL.size > len(self.data):
            return None
        header = LocalHeader(*LOCAL.unpack_from(self.data, start))
        name_start = start + LOCAL.size
        extra_start = name_start + header.name_length
        data = extra_start + header.extra_length
        name = _name(bytes(self.data[name_start:extra_start]), header)
        if name is None or data > len(self.data):
            return None
        extra = bytes(self.data[extra_start:data])
        faults, at = Collected(), Place(name, start)
        fields = parse_extra(extra, at, faults) if extra else {}
        sizes = apply_zip64(fields, (header.size, header.stored_size), at, faults)
        entry = Entry(name, header.flags, header.method, header.crc, sizes[1], sizes[0], start)
        end: int | None = data + entry.stored_size
        if header.flags & FLAG_DESCRIPTOR:
            entry, end = self._described(entry, data)
        return Remnant(entry, data, end, extra.startswith(PADDING_FIELD))

    def _described(self, entry: Entry, data: int) -> tuple[Entry, int | None]:
        """Return the member with the numbers of its descriptor, and where that ends."""
        for at, width in self._found.descriptors.get(data, ()):
            form = DESCRIPTOR if width == DESCRIPTOR.size else DESCRIPTOR64
            _, crc, stored, size = form.unpack_from(self.data, at)
            if entry.method != STORED or stored == size:
                known = entry._replace(crc=crc, stored_size=stored, size=size)
                return known, at + width
        if not entry.stored_size:
            return entry, data if self._is_followed(entry, data) else None
        width = DESCRIPTOR64.size if entry.stored_size >= MAX32 else DESCRIPTOR.size
        return entry, data + entry.stored_size + width

    def _is_followed(self, entry: Entry, data: int) -> bool:
        """Return whether a member of the same folder, or the directory, begins there.

        Torch wrote members without data without a descriptor. One that is an archive itself begins
        with a header, too, of a folder of its own or, in a file of torch.save, of the same.
        """
        if entry.name.endswith(_ARCHIVES):
            return False
        kind = bytes(self.data[data : data + len(LOCAL_SIGNATURE)])
        if kind == CENTRAL_SIGNATURE:
            return True
        folder, slash, _ = entry.raw_name.partition(b"/")
        name = data + LOCAL.size
        found = bytes(self.data[name : name + len(folder) + 1])
        return kind == LOCAL_SIGNATURE and bool(slash) and found == folder + slash

    @property
    def root(self) -> str:
        """The folder of the first member, empty where that is in none."""
        first = self.members[0].name if self.members else ""
        return first.partition("/")[0] if "/" in first else ""

    def by_record(self) -> dict[str, Remnant]:
        """Return the members in the root folder by name without it, the first of each name."""
        prefix = f"{self.root}/" if self.root else ""
        found: dict[str, Remnant] = {}
        for member in self.members:
            name = member.name.removeprefix(prefix)
            if member.name.startswith(prefix) and name and not member.entry.is_folder:
                found.setdefault(name, member)
        return found

    def directory_entries(self) -> Iterator[int]:
        """Yield where entries of a directory seem to begin that stand in no member."""
        starts = [start for start, _ in self._taken]
        for at in self._found.central:
            place = bisect_left(starts, at)
            if not place or at >= self._taken[place - 1][1]:
                yield at

    def extent(self, expected: Mapping[str, int]) -> Extent:
        """Return how much of an archive without an end record there is.

        ``expected`` are the sizes of records that must have been there, by name.
        """
        size = len(self.data)
        members = self.up_to_the_cut()
        start = self.directory_start
        is_padded = bool(members) and all(member.is_padded for member in members)
        sizes = [_entry_size(member.entry) for member in members]
        ends = _ENDS_OF_TORCH if is_padded else END.size
        if start is not None:
            end = start + self._directory_size(start, members, sizes)
            return Extent(size, end + ends, is_padded)
        names = {member.name for member in members}
        prefix = f"{self.root}/" if self.root else ""
        start = self._least_end(members[-1] if members else None, expected)
        for name in (f"{prefix}{record}" for record in expected):
            if name not in names:
                start += LOCAL.size + len(name) + expected[name.removeprefix(prefix)]
                sizes.append(CENTRAL.size + len(name))
        return Extent(size, start + sum(sizes) + ends, is_exact=False)

    def up_to_the_cut(self) -> Sequence[Remnant]:
        """Return the members up to the first without an end: what follows is inside of it."""
        cut = next((n for n, member in enumerate(self.members) if member.end is None), None)
        return self.members if cut is None else self.members[: cut + 1]

    def _least_end(self, last: Remnant | None, expected: Mapping[str, int]) -> int:
        """Return the least offset at which the last member ends."""
        size = len(self.data) - self._begun_signature()
        if last is None:
            return size
        if last.end is not None:
            return max(last.end, size)
        told = expected.get(last.name.removeprefix(f"{self.root}/"), 0)
        return max(size, last.data + told + DESCRIPTOR.size if told else 0)

    def _begun_signature(self) -> int:
        """Return how many bytes at the end may be the first ones of a directory."""
        tail = bytes(self.data[1 - len(CENTRAL_SIGNATURE) :])
        parts = (CENTRAL_SIGNATURE[:count] for count in range(len(CENTRAL_SIGNATURE) - 1, 0, -1))
        return next((len(part) for part in parts if tail.endswith(part)), 0)

    @property
    def directory_start(self) -> int | None:
        """Where the directory begins, if it does: right behind the last member."""
        members = self.up_to_the_cut()
        end = members[-1].end if members else None
        if end is None:
            return None
        place = bisect_left(self._found.central, end)
        return end if list(self._found.central[place : place + 1]) == [end] else None

    def _directory_size(self, start: int, members: Sequence[Remnant], sizes: Sequence[int]) -> int:
        """Return the size of the directory, by its entries as far as they are there."""
        ends = [start]
        for member, end in zip(members, entry_ends(self.data, start), strict=False):
            if not self._is_entry_of(member, ends[-1]):
                break
            ends.append(end)
        return ends[-1] - start + sum(sizes[len(ends) - 1 :])

    def _is_entry_of(self, member: Remnant, start: int) -> bool:
        """Return whether the entry of a directory that begins there has the name of a member."""
        name = member.entry.raw_name
        begin = start + CENTRAL.size
        header = CentralHeader(*CENTRAL.unpack_from(self.data, start))
        found = bytes(self.data[begin : begin + header.name_length])
        return len(name) == header.name_length and name.startswith(found)


def entry_ends(data: Data, start: int) -> Iterator[int]:
    """Yield where each entry ends of a directory that begins there, as long as there are any."""
    while start + CENTRAL.size <= len(data):
        header = CentralHeader(*CENTRAL.unpack_from(data, start))
        if header.signature != CENTRAL_SIGNATURE:
            return
        start += CENTRAL.size + header.name_length + header.extra_length + header.comment_length
        yield start


def _name(raw: bytes, header: LocalHeader) -> str | None:
    """Return a name that a member may have, with a method that exists."""
    if not 0 < len(raw) == header.name_length <= MAX_NAME_BYTES:
        return None
    if header.method not in METHOD_NAMES:
        return None
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if name_problem(name) else name


def _entry_size(entry: Entry) -> int:
    """Return the size that the entry of a member has in the directory."""
    numbers = (entry.size, entry.stored_size, entry.header_offset)
    wide = zip64_field(*(number for number in numbers if number >= MAX32))
    return CENTRAL.size + len(entry.raw_name) + len(wide)
