"""The bytes of an archive, which are read by pieces."""

from __future__ import annotations

import mmap
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tsarchive.container.faults import Faults, Stopped

if TYPE_CHECKING:
    from tsarchive.container.traffic import Traffic


_REPLACE = "Open it again, and replace files by renaming instead of writing into them"


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

    is_elsewhere = False
    """True where bytes are asked of a server or of a file object, so that each request counts."""
    is_sparing: bool = False
    """True where weights should be left unread, also by what checks files."""

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

    def memory(self, start: int, stop: int) -> memoryview:
        """Return where the bytes from ``start`` to ``stop`` are once they are fetched."""
        return self.piece(start, stop)

    def expect_all(self) -> None:
        """Tell that all of the file is going to be read, however much that is."""
        self.is_sparing = False

    def fetch_all(self) -> None:
        """Get all of the file at once, since all of it is going to be used."""
        self.expect_all()
        self.prefetch([Span(0, self.size)])

    @property
    def traffic(self) -> Traffic | None:
        """What reading has cost so far; None for a file that is not elsewhere."""
        return None

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
    """A byte range of another source, whose file it shares. Closing it leaves the other open."""

    def __init__(self, whole: Source, start: int, stop: int) -> None:
        super().__init__(whole.piece(0, 0))  # which keeps the map when the other is closed
        self._whole = whole
        self._start, self._stop = start, stop
        self.is_elsewhere = whole.is_elsewhere
        self.is_sparing = whole.is_sparing

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

    def memory(self, start: int, stop: int) -> memoryview:
        first = self._start + start
        return self._whole.memory(first, min(self._start + stop, self._stop))

    def let_go(self) -> None:
        """Delegate to the other source."""
        self._whole.let_go()

    def expect_all(self) -> None:
        """Delegate to the other source."""
        super().expect_all()
        self._whole.expect_all()

    @property
    def traffic(self) -> Traffic | None:
        return self._whole.traffic

    def require_unchanged(self, faults: Faults, *, contents: bool) -> None:
        """Delegate to the other source."""
        self._whole.require_unchanged(faults, contents=contents)


def lent(source: Source) -> Source:
    """Return the bytes of a source for a user that closes what it is given."""
    return PartOfSource(source, 0, source.size)


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
