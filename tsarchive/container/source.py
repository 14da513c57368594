"""The bytes of an archive: a private map of a file, or a copy of a file object's contents."""

from __future__ import annotations

import io
import mmap
import os
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple, TypeVar

from tsarchive.container import caps
from tsarchive.container.faults import STRICT, Faults, Stopped
from tsarchive.errors import ArchiveError, CallError
from tsarchive.remote import is_url, located


class FileChanged(Stopped):
    """The file is no longer the one that was opened, so nothing more can be read."""


class Span(NamedTuple):
    """The bytes from ``start`` up to ``stop``."""

    start: int
    stop: int


class Source:
    """The bytes of an archive and, where they are a map of a file, the state of that file.

    Touching a page of the map beyond the end of a file that has since been truncated kills the
    process, and untouched pages show later writes to the file. So users of the map call
    ``require_unchanged`` first. Replacing the file by another of its name is harmless: the map is
    of the first one.
    """

    def __init__(
        self, data: mmap.mmap | bytearray | memoryview, descriptor: int | None = None
    ) -> None:
        """Take ownership of ``data`` and, when it is a map, of a descriptor of the file."""
        self._data = data
        self._descriptor = descriptor
        if descriptor is not None:
            self._written = os.fstat(descriptor).st_mtime_ns
            self._release = weakref.finalize(self, os.close, descriptor)

    @property
    def data(self) -> mmap.mmap | bytearray | memoryview:
        """All bytes of the file."""
        return self._data

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self._data)

    def piece(self, start: int, stop: int) -> memoryview:
        """Return the bytes from ``start`` to ``stop``, or to the end of the file, uncopied."""
        with memoryview(self._data) as buffer:
            return buffer[start:stop]

    def prefetch(self, spans: Iterable[Span]) -> None:
        """Get the bytes of these spans at once, since ``piece`` is going to be asked for them."""

    def require_unchanged(self, faults: Faults, *, contents: bool) -> None:
        """Raise FormatError when the file has another size than when it was opened.

        With ``contents``, also when it was written to: for uses that no CRC-32 protects.
        """
        if self._descriptor is None:
            return
        status, before = os.fstat(self._descriptor), len(self._data)
        if status.st_size != before:
            problem = f"the file had {before} bytes when it was opened and has {status.st_size} now"
        elif contents and status.st_mtime_ns != self._written:
            problem = "the file was written to after it was opened"
        else:
            return
        faults.report("file-changed", problem, hint=_REPLACE)
        raise FileChanged

    def let_go(self) -> None:
        """Let go of the memory of a map that nobody has written to; its file is read again then.

        Otherwise all that was read of a large file counts as memory of this process.
        """
        if isinstance(self._data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._data.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Release the file. Views of the data stay valid and keep what they need of it."""
        if self._descriptor is not None:
            self._descriptor = None
            self._release()
        if isinstance(self._data, mmap.mmap):
            try:
                self._data.close()
            except BufferError:
                # Views lie in the map: it is unmapped with the last of them.
                return


class PartOfSource(Source):
    """A byte range of another source, whose file it shares."""

    def __init__(self, whole: Source, start: int, stop: int) -> None:
        super().__init__(memoryview(b""))
        self._whole = whole
        self._start, self._stop = start, stop

    @property
    def data(self) -> memoryview:
        return self._whole.piece(self._start, self._stop)

    @property
    def size(self) -> int:
        return self._stop - self._start

    def piece(self, start: int, stop: int) -> memoryview:
        first = self._start + start
        return self._whole.piece(first, min(self._start + stop, self._stop))

    def prefetch(self, spans: Iterable[Span]) -> None:
        self._whole.prefetch(Span(self._start + a, self._start + b) for a, b in spans)

    def require_unchanged(self, faults: Faults, *, contents: bool) -> None:
        """Delegate to the other source."""
        self._whole.require_unchanged(faults, contents=contents)


_PIECE_BYTES = 1 << 20
_TO_DISK = "Write it to a file on disk, of which only what is needed is read"
_REPLACE = "Open it again, and replace files by renaming instead of writing into them"


def open_source(source: str | os.PathLike[str] | BinaryIO, faults: Faults = STRICT) -> Source:
    """Map the file, or read it when it cannot be mapped: a pipe, a buffer, a decompressor.

    The map is private: it may be written to, and the file does not change. Of a URL, what is asked
    for is fetched. Raises CallError for anything but a path, a URL or a binary file object, OSError
    when it cannot be read, RemoteError where that is of a URL. Any other failure of a file object
    is a fault.
    """
    source = located(source)
    if is_url(source):
        from tsarchive.container.ranges import RangedSource
        from tsarchive.remote.opening import ranges_of

        return RangedSource(ranges_of(source))
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return _source_of(file, faults)
    if not hasattr(source, "read"):
        raise not_a_file(type(source).__name__)
    return _source_of(source, faults)


def _source_of(file: BinaryIO, faults: Faults) -> Source:
    try:
        # A file object is read from its position; a map can only begin at the first byte.
        if _is_plain_file(file) and file.tell() == 0:
            return _map(file.fileno())
        return Source(read_all(file, faults))
    except (ArchiveError, Stopped, OSError, MemoryError):
        raise
    except Exception as error:
        faults.stop(
            "file-unreadable",
            f"the file object fails with {type(error).__name__}: {error}",
            hint="A file object has to be open for reading in binary mode, 'rb'",
        )


def _map(number: int) -> Source:
    descriptor = os.dup(number)
    try:
        return Source(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY), descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def read_all(file: BinaryIO, faults: Faults = STRICT) -> bytearray:
    """Read up to the end, in as many reads as the object needs.

    Raises CallError when it gives no bytes, OSError when it cannot be read. An endless object is a
    fault.
    """
    raw = getattr(file, "raw", file)
    is_device = isinstance(raw, io.FileIO) and stat.S_ISCHR(os.fstat(raw.fileno()).st_mode)
    most = caps.MAX_DEVICE_BYTES if is_device else caps.MAX_COPIED_BYTES
    content = bytearray()
    while piece := _piece(file):
        content += piece
        if len(content) > most:
            problem = f"more than {most:,} bytes come, which are not read into memory"
            faults.stop("file-unreadable", problem, limit=most, hint=_TO_DISK)
    return content


def _piece(file: BinaryIO) -> memoryview:
    piece: Any = file.read(_PIECE_BYTES)
    if isinstance(piece, str):
        raise not_a_file("a file opened as text")
    if piece is None:
        raise BlockingIOError("the file object has no bytes at the moment")
    return memoryview(piece)


def not_a_file(what: str) -> CallError:
    """Return the error for an object that no archive can be read from."""
    hint = "Pass a path, a file opened with mode 'rb', or io.BytesIO(data)"
    return CallError(f"an archive cannot be read from {what}", hint=hint)


def _is_plain_file(file: BinaryIO) -> bool:
    """Return whether the file object gives exactly the bytes of a file on disk.

    A file number is not enough: a gzip.GzipFile has that of its compressed file.
    """
    raw = getattr(file, "raw", file)
    if not isinstance(raw, io.FileIO):
        return False
    status = os.fstat(raw.fileno())
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


_T = TypeVar("_T", bound="Closing")


class Closing(ABC):
    """A context manager that closes itself."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release the file."""

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
