"""Reading a container: a zip archive whose members share one root folder; replacing records."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from tsarchive.container.contents import checked_pieces, crc32
from tsarchive.container.directory import Entry
from tsarchive.container.faults import STRICT, Place
from tsarchive.container.layout import STORED
from tsarchive.container.members import (
    Members,
    check_descriptor,
    locate_data,
    read_members,
    usual_place,
)
from tsarchive.container.opening import open_source
from tsarchive.container.source import Closing, PartOfSource, Source, Span
from tsarchive.errors import INCOMPLETE, ArchiveError, FormatError, MissingRecordError

if TYPE_CHECKING:
    from tsarchive.container.remains import Remnant
    from tsarchive.container.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Record:
    """One member of a container; sizes are in bytes.

    ``name`` is without the root folder, ``size`` that of the data, ``stored_size`` what it takes up
    in the file, ``method`` the zip compression method (0 stored, 8 deflated, ...) and ``crc`` the
    CRC-32 of the data, None in formats without checksums and where torch was told to write none.
    """

    name: str
    size: int
    stored_size: int
    method: int
    crc: int | None
    _locate: Callable[[str], int] = field(repr=False, compare=False)

    @property
    def offset(self) -> int:
        """The offset of the stored data in the file.

        Reads the record's local header, so it raises FormatError when that contradicts the
        directory, and ArchiveError when the container is closed.
        """
        return self._locate(self.name)


class _Records(Mapping[str, Record]):
    """A mapping that makes Records from directory entries on access."""

    def __init__(self, entries: Mapping[str, Entry], locate: Callable[[str], int]) -> None:
        self._entries = entries
        self._locate = locate

    def __getitem__(self, name: str) -> Record:
        entry = self._entries[name]
        crc = entry.crc if entry.has_checksum else None
        return Record(name, entry.size, entry.stored_size, entry.method, crc, self._locate)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class Container(Closing):
    """A zip archive opened for reading, usable as a context manager.

    ``root`` is the folder that all records are in: the first component of the first entry, or empty
    when that entry is in no folder. ``records`` maps the names of the records, without the root, to
    their Records in directory order. Entries for folders are no records.
    """

    root: str
    records: Mapping[str, Record]

    def __init__(self, source: Source, members: Members) -> None:
        """Take ownership of the bytes of an archive; ``members`` is its directory.

        Use ``open`` instead.
        """
        self._source: Source | None = source
        self._directory = members.directory
        self._entries = members.entries
        self.root = members.root
        self.records = _Records(self._entries, self._offset)

    @classmethod
    def open(cls, source: str | os.PathLike[str] | BinaryIO) -> Container:
        """Open a path or a binary file object; only the end and the directory are read.

        A file on disk is mapped privately into memory. Of a file elsewhere, and of an object that
        reads and seeks, only what is needed is read, so the object has to stay open until the
        container is closed. Anything else (a pipe, io.BytesIO, a decompressor) is read into memory.
        A file object is read from its position on.

        Raises FormatError when the file is not a zip archive, is cut short, or contradicts itself;
        when records overlap, share a name (regardless of letter case, kinds of slashes and
        composition of accents), have a name that leads out of the archive, or are in several root
        folders; when bytes before the first record or after the end record belong to nothing; and
        when there are more records, or more data in them, than ``caps.py`` allows. Raises
        UnsupportedError for encrypted records and for archives in several volumes, and OSError when
        the file cannot be read.
        """
        return cls.of_source(open_source(source))

    @classmethod
    def of_source(cls, opened: Source) -> Container:
        """Open the container in these bytes, which are released when it cannot be opened."""
        try:
            return cls(opened, read_members(opened, STRICT))
        except BaseException:
            opened.close()
            raise

    def inside(self, name: str) -> Container:
        """Open a record whose data is itself a container, as ``torch.save`` writes it.

        A stored record is not copied. The result stays open when this container is closed. Raises
        what ``view`` and ``open`` raise; errors name the records of the inner container.
        """
        return Container.of_source(self.part(name))

    def part(self, name: str) -> Source:
        """Return the data of a record as a Source. Raises what ``view`` raises."""
        source = self._sound(contents=True)
        if source.is_elsewhere:
            source.prefetch(self.ends((name,)))
        place = self._place(source, name)
        if self.records[name].method != STORED:
            return Source(self.view(name))
        return PartOfSource(source, *place)

    def prefetch(self, names: Iterable[str]) -> None:
        """Get all of these records, with their headers, at once where the file is elsewhere.

        Raises MissingRecordError, and RemoteError when they cannot be had.
        """
        self._sound(contents=False).prefetch(self.spans(names))

    def spans(self, names: Iterable[str]) -> Iterator[Span]:
        """Yield where these records are in the file, each with its header and what follows it.

        Raises MissingRecordError.
        """
        return (self._directory.span(self._entry(name)) for name in names)

    def ends(self, names: Iterable[str]) -> Iterator[Span]:
        """Yield the start and the end of records that are archives, as ``spans`` does."""
        return (end for whole in self.spans(names) for end in _ends(whole))

    def size(self, name: str) -> int | None:
        """Return the size of a record's data in bytes; None when there is no such record."""
        entry = self._entries.get(name)
        return None if entry is None else entry.size

    def read(self, name: str) -> bytes:
        """Return the data of a record, inflated and with its CRC-32 checked where it has one.

        Raises MissingRecordError when there is no such record, FormatError when the data is
        damaged, its headers contradict, or the file has changed its size since it was opened;
        UnsupportedError for an unknown compression method.
        """
        entry = self._entry(name)
        limit = self._directory.limit(entry)
        source = self._sound(contents=False)
        if source.is_elsewhere:
            self.prefetch((name,))
        data = locate_data(source, entry, limit, name, STRICT)
        check_descriptor(source, entry, data, limit, name, STRICT)
        with source.piece(data, data + entry.stored_size) as payload:
            at = Place(name, data)
            return b"".join(checked_pieces(entry, payload, at, STRICT, entry.size + 1))

    def view(self, name: str) -> memoryview:
        """Return the data of a record as writable bytes; writing does not change the file.

        A stored record is not copied: the view lies in the map of the file, its CRC-32 is not
        checked, and writes to it are seen by later reads of the record. Any other record is
        inflated and checked as ``read`` does. Raises what ``read`` raises, and FormatError when the
        file was written to since it was opened.
        """
        if self._entry(name).method == STORED:
            return self.payload(name)
        return memoryview(bytearray(self.read(name)))

    def payload(self, name: str) -> memoryview:
        """Return the bytes of a record as stored in the file, compressed or not, uncopied.

        Raises MissingRecordError, and FormatError when its header contradicts the directory or
        the file was written to since it was opened.
        """
        source = self._sound(contents=True)
        if source.is_elsewhere:
            self.prefetch((name,))
        return source.piece(*self._place(source, name))

    @property
    def is_sparing(self) -> bool:
        """True where weights should be left unread. Raises what ``piece`` raises."""
        return self._sound(contents=False).is_sparing

    @property
    def traffic(self) -> Traffic | None:
        """What reading a file elsewhere has cost so far. Raises what ``piece`` raises."""
        return self._sound(contents=False).traffic

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the file is one of which records are fetched."""
        return self._source is not None and self._source.is_elsewhere

    def awaited(self, name: str) -> memoryview | None:
        """Return where the data of a stored record is going to be, before it is fetched.

        None where that is not known, and for data that is compressed. ``arrive`` fetches it.
        """
        entry = self._entry(name)
        start = usual_place(entry, self._directory.limit(entry))
        if entry.method != STORED or start is None:
            return None
        return self._sound(contents=True).memory(start, start + entry.stored_size)

    def arrive(self, names: Collection[str]) -> None:
        """Fetch the data of records that ``awaited`` has given the memory of.

        Raises RemoteError where they cannot be fetched, FormatError when the data is elsewhere in
        the file.
        """
        source = self._sound(contents=True)
        self.prefetch(names)
        for name in names:
            entry = self._entry(name)
            expected = usual_place(entry, self._directory.limit(entry))
            if self._place(source, name).start != expected:
                problem = "the data of the record is not where torch's writers put it"
                raise FormatError(problem, record=name, hint="Load it without lazy=True")

    @property
    def nbytes(self) -> int:
        """The size of the file in bytes. Raises what ``piece`` raises."""
        return self._sound(contents=False).size

    def piece(self, start: int, stop: int) -> memoryview:
        """Return bytes of the file.

        Raises ArchiveError when the container is closed, FormatError when the file has changed its
        size since it was opened.
        """
        return self._sound(contents=False).piece(start, stop)

    def _place(self, source: Source, name: str) -> Span:
        """Return where the stored data of a record is in the file."""
        entry = self._entry(name)
        data = locate_data(source, entry, self._directory.limit(entry), name, STRICT)
        return Span(data, data + entry.stored_size)

    def buffer(self) -> memoryview:
        """Return the bytes of the whole file.

        Raises ArchiveError when the container is closed, FormatError when the file was written
        to since it was opened.
        """
        return memoryview(self._sound(contents=True).data)

    def close(self) -> None:
        """Release the file. Views handed out stay valid and keep what they need of it."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def __repr__(self) -> str:
        return f"<Container {self.root!r}: {len(self.records)} records>"

    def _entry(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise MissingRecordError(
                "the archive has no such record",
                record=name,
                hint=INCOMPLETE,
            )
        return entry

    def _offset(self, name: str) -> int:
        return self._place(self._sound(contents=False), name).start

    def _sound(self, *, contents: bool) -> Source:
        """Return the bytes of a file that is open and has not changed."""
        if self._source is None:
            raise ArchiveError("the container is closed", hint="Open it again")
        self._source.require_unchanged(STRICT, contents=contents)
        return self._source


# The directory and the pickle of what ``torch.save`` writes are at the end and at the start.
_START_BYTES, _END_BYTES = 32 << 10, 72 << 10


def _ends(whole: Span) -> tuple[Span, Span]:
    """Return the start and the end of a record that is an archive."""
    start, stop = whole
    return Span(start, min(start + _START_BYTES, stop)), Span(max(start, stop - _END_BYTES), stop)


class ChangedContainer(Container):
    """``container`` with the records in ``changed`` in place of its own, as if they were stored.

    The file is left as it is. This object owns ``container`` and closes it.
    """

    def __init__(self, container: Container, changed: Mapping[str, bytes]) -> None:
        self._container = container
        self.root = container.root
        self._changed = {name: bytearray(data) for name, data in changed.items()}
        self.records = MappingProxyType(
            {
                name: _stored(name, changed[name]) if name in changed else record
                for name, record in container.records.items()
            }
        )

    def size(self, name: str) -> int | None:
        changed = self._changed.get(name)
        return self._container.size(name) if changed is None else len(changed)

    def read(self, name: str) -> bytes:
        changed = self._changed.get(name)
        return self._container.read(name) if changed is None else bytes(changed)

    def view(self, name: str) -> memoryview:
        changed = self._changed.get(name)
        return self._container.view(name) if changed is None else memoryview(changed)

    def payload(self, name: str) -> memoryview:
        changed = self._changed.get(name)
        return self._container.payload(name) if changed is None else memoryview(changed)

    @property
    def is_elsewhere(self) -> bool:
        return self._container.is_elsewhere

    def awaited(self, name: str) -> memoryview | None:
        return None if name in self._changed else self._container.awaited(name)

    def arrive(self, names: Collection[str]) -> None:
        self._container.arrive(names)

    def buffer(self) -> memoryview:
        return self._container.buffer()

    @property
    def is_sparing(self) -> bool:
        return self._container.is_sparing

    @property
    def traffic(self) -> Traffic | None:
        return self._container.traffic

    @property
    def nbytes(self) -> int:
        return self._container.nbytes

    def piece(self, start: int, stop: int) -> memoryview:
        return self._container.piece(start, stop)

    def spans(self, names: Iterable[str]) -> Iterator[Span]:
        return self._container.spans(name for name in names if name not in self._changed)

    def prefetch(self, names: Iterable[str]) -> None:
        self._container.prefetch(name for name in names if name not in self._changed)

    def close(self) -> None:
        self._container.close()


class RemainingContainer(Container):
    """The members that are left of an archive whose directory or records are damaged.

    All of ``members``, by record, are whole. This object owns ``source`` and closes it.
    """

    def __init__(self, source: Source, members: Mapping[str, Remnant], root: str) -> None:
        self._source = source
        self._members = members
        self.root = root
        self.records = MappingProxyType({n: _left(n, member) for n, member in members.items()})

    def size(self, name: str) -> int | None:
        member = self._members.get(name)
        return None if member is None else member.entry.size

    def read(self, name: str) -> bytes:
        with memoryview(self._sound(contents=False).data) as buffer:
            return b"".join(self._member(name).pieces(buffer))

    def view(self, name: str) -> memoryview:
        if self._member(name).entry.method == STORED:
            return self.payload(name)
        return memoryview(bytearray(self.read(name)))

    def spans(self, names: Iterable[str]) -> Iterator[Span]:
        """Yield nothing: all of the file was read to find the members."""
        return iter(())

    def _place(self, source: Source, name: str) -> Span:
        member = self._member(name)
        return Span(member.data, member.data + member.entry.stored_size)

    def _member(self, name: str) -> Remnant:
        found = self._members.get(name)
        if found is None:
            raise MissingRecordError("the record is lost", record=name, hint=INCOMPLETE)
        return found


def _left(name: str, member: Remnant) -> Record:
    entry = member.entry
    return Record(
        name, entry.size, entry.stored_size, entry.method, entry.crc, lambda _: member.data
    )


def _stored(name: str, data: bytes) -> Record:
    return Record(name, len(data), len(data), STORED, crc32(data), _nowhere)


def _nowhere(name: str) -> NoReturn:
    raise ArchiveError("the record was changed in memory and is nowhere in the file", record=name)
