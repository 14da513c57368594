"""Reading a container: a zip archive whose members share one root folder."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import BinaryIO

from tsarchive.container.directory import Entry, read_directory
from tsarchive.container.inflate import inflate
from tsarchive.container.layout import STORED
from tsarchive.container.local import check_descriptor, locate_data
from tsarchive.container.names import name_problem
from tsarchive.container.source import load_bytes
from tsarchive.errors import ArchiveError, FormatError, MissingRecordError

__all__ = ["Container", "Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """One member of a container; sizes are in bytes.

    ``name`` is without the root folder, ``size`` that of the data, ``stored_size`` what it
    takes up in the file, ``method`` the zip compression method (0 stored, 8 deflated, ...) and
    ``crc`` the CRC-32 of the data.
    """

    name: str
    size: int
    stored_size: int
    method: int
    crc: int
    _locate: Callable[[str], int] = field(repr=False, compare=False)

    @property
    def offset(self) -> int:
        """Where the data, as stored, begins in the file.

        It takes a look at the record's own header, so it raises FormatError when that
        contradicts the directory, and ArchiveError when the container is closed.
        """
        return self._locate(self.name)


class Container:
    """A zip archive opened for reading. Also a context manager that closes itself.

    ``root`` is the folder that all records are in, the first component of the first entry, or
    empty when that entry is in no folder. ``records`` maps the names of the records, without
    the root, to what the directory says of them, in its order. Entries for folders are no
    records.
    """

    root: str
    records: Mapping[str, Record]

    def __init__(self, data: mmap.mmap | bytearray) -> None:
        """Take over the bytes of a whole archive. ``open`` is the usual way to get here."""
        self._data: mmap.mmap | bytearray | None = data
        with memoryview(data) as buffer:
            self._directory = read_directory(buffer)
        self.root = _root(self._directory.entries[0].name)
        self._entries = _entries_by_record(self._directory.entries, self.root)
        self.records = MappingProxyType(
            {name: self._record(name, entry) for name, entry in self._entries.items()}
        )

    @classmethod
    def open(cls, source: str | os.PathLike[str] | BinaryIO) -> Container:
        """Open a path or a binary file object; only the end and the directory are read.

        A file on disk is mapped privately into memory, anything else is read into memory. A
        file object gives its bytes from its position on; it is not needed afterwards.

        Raises FormatError when the file is not a zip archive, is cut short, or contradicts
        itself; when records overlap, share a name, have a name that leads out of the archive,
        or are in several root folders; and when bytes before the first record or after the end
        record belong to nothing. Raises UnsupportedError for encrypted records and for
        archives in several volumes, and OSError when the file cannot be read.
        """
        return cls(load_bytes(source))

    def read(self, name: str) -> bytes:
        """Give the data of a record, inflated and with its CRC-32 checked.

        Raises MissingRecordError when there is no such record, FormatError when the data is
        damaged or its headers contradict, UnsupportedError for an unknown compression method.
        """
        entry = self._entry(name)
        data = self._offset(name)
        with self.buffer() as buffer, buffer[data : data + entry.stored_size] as payload:
            check_descriptor(buffer, entry, data, self._directory.limit(entry), name)
            content = inflate(entry.method, payload, entry.size, name)
        crc = zlib.crc32(content)
        if crc != entry.crc:
            raise FormatError(
                f"the data does not match its CRC-32: {crc:08x}, not {entry.crc:08x}",
                record=name,
                offset=data,
                hint="The file is damaged: download or copy it again",
            )
        return content

    def view(self, name: str) -> memoryview:
        """Give the data of a record as writable bytes; writing does not change the file.

        A stored record is not copied: the view lies in the map of the file, its CRC-32 is not
        checked, and what is written to it is what later reads of the record meet. Any other
        record is inflated and checked as ``read`` does. Raises what ``read`` raises.
        """
        if self._entry(name).method == STORED:
            return self.payload(name)
        return memoryview(bytearray(self.read(name)))

    def payload(self, name: str) -> memoryview:
        """Give the bytes of a record as they are in the file, compressed or not, uncopied.

        Raises MissingRecordError, and FormatError when its header contradicts the directory.
        """
        entry = self._entry(name)
        data = self._offset(name)
        return self.buffer()[data : data + entry.stored_size]

    def buffer(self) -> memoryview:
        """Give the whole file. Raises ArchiveError when the container is closed."""
        if self._data is None:
            raise ArchiveError("the container is closed", hint="Open it again")
        return memoryview(self._data)

    def close(self) -> None:
        """Let go of the file. Views handed out stay valid and keep what they need of it."""
        data, self._data = self._data, None
        if isinstance(data, mmap.mmap):
            try:
                data.close()
            except BufferError:
                # Views lie in the map: it is unmapped with the last of them.
                return

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Container {self.root!r}: {len(self.records)} records>"

    def _entry(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise MissingRecordError(
                "the archive has no such record",
                record=name,
                hint="The archive is incomplete: download or copy it again",
            )
        return entry

    def _offset(self, name: str) -> int:
        entry = self._entry(name)
        with self.buffer() as buffer:
            return locate_data(buffer, entry, self._directory.limit(entry), name)

    def _record(self, name: str, entry: Entry) -> Record:
        return Record(name, entry.size, entry.stored_size, entry.method, entry.crc, self._offset)


def _root(first_name: str) -> str:
    root, slash, _ = first_name.partition("/")
    return root if slash else ""


def _entries_by_record(entries: tuple[Entry, ...], root: str) -> dict[str, Entry]:
    prefix = f"{root}/" if root else ""
    found: dict[str, Entry] = {}
    for entry in entries:
        if not entry.name.startswith(prefix):
            raise FormatError(
                f"the entry is not in the folder {root!r}, where the first one is",
                record=entry.name,
                offset=entry.header_offset,
                hint="An archive has one root folder: pack the folder itself, not its contents",
            )
        name = entry.name[len(prefix) :]
        if entry.name.endswith("/"):
            _check_folder(entry)
        else:
            _check_record_name(name, entry)
            found[name] = entry
    return found


def _check_folder(entry: Entry) -> None:
    if entry.size:
        raise FormatError(
            "the entry is named like a folder and holds data",
            record=entry.name,
            offset=entry.header_offset,
        )


def _check_record_name(name: str, entry: Entry) -> None:
    """A name that is harmless below the root may not be so without it: ``root//etc/hosts``."""
    problem = name_problem(name)
    if problem is not None:
        raise FormatError(
            f"the record name {name!r} {problem}", record=entry.name, offset=entry.header_offset
        )
