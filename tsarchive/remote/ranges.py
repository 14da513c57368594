"""What every file elsewhere can do, and the one that an object gives that reads and seeks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from tsarchive.errors import ArchiveError, RemoteError


class Tail(NamedTuple):
    """The last bytes of a file, and the size of all of it."""

    size: int
    data: bytes | bytearray


class Ranges(ABC):
    """A file that is read by byte ranges, all of one version of it.

    ``name`` is what errors call the file, without credentials.
    """

    name: str

    @abstractmethod
    def tail(self, count: int) -> Tail:
        """Return the last ``count`` bytes, or all there are, and the size of the file.

        This is the first request. What is read later is of the same version.

        Raises RemoteError where the file cannot be read.
        """

    @abstractmethod
    def read_into(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        """Fill each piece of memory with the bytes from an offset on, in parallel where it can.

        Raises RemoteError where the file cannot be read, or is another one by now.
        """

    @abstractmethod
    def close(self) -> None:
        """Release connections."""


class SeekableRanges(Ranges):
    """A file object that reads and seeks, from its position on. It stays its owner's to close."""

    def __init__(self, file: BinaryIO) -> None:
        self.name = f"the file object ({type(file).__name__})"
        self._file = file
        self._start = file.tell()

    def tail(self, count: int) -> Tail:
        size = self._file.seek(0, os.SEEK_END) - self._start
        data = bytearray(min(count, size))
        with memoryview(data) as memory:
            self.read_into([(size - len(data), memory)])
        return Tail(size, data)

    def read_into(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        try:
            for offset, memory in wanted:
                self._file.seek(self._start + offset)
                self._fill(memory)
        except (ArchiveError, OSError):
            raise
        except Exception as error:
            problem = f"{self.name} fails with {type(error).__name__}: {error}"
            raise RemoteError(problem, hint="It has to stay open as long as the archive") from error

    def close(self) -> None:
        """Leave the object as it is."""

    def _fill(self, memory: memoryview) -> None:
        done = 0
        while done < len(memory):
            piece = self._file.read(len(memory) - done)
            if piece is None:
                raise BlockingIOError(f"{self.name} has no bytes at the moment")
            if not piece:
                problem = f"{self.name} has become shorter since it was opened"
                raise RemoteError(problem, hint="Open it again")
            memory[done : done + len(piece)] = piece
            done += len(piece)
