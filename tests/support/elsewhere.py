"""Files elsewhere as tests have them: bytes that are given by ranges, and counted."""

from __future__ import annotations

import io
from collections.abc import Sequence

from tsarchive.container.traffic import Traffic
from tsarchive.remote.ranges import Ranges, Tail


class CountedRanges(Ranges):
    """Bytes as a file elsewhere; ``asked`` are the ranges that were read, the end included."""

    name = "mem://net.pt"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []
        self.is_closed = False

    def tail(self, count: int) -> Tail:
        start = max(0, len(self.data) - count)
        self.asked.append((start, len(self.data)))
        return Tail(len(self.data), self.data[start:])

    def read_into(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        assert not self.is_closed
        for start, memory in wanted:
            stop = start + len(memory)
            self.asked.append((start, stop))
            memory[:] = self.data[start:stop]

    def close(self) -> None:
        self.is_closed = True

    @property
    def traffic(self) -> Traffic:
        return Traffic(len(self.asked), sum(stop - start for start, stop in self.asked))


class Seekable(io.RawIOBase):
    """An object that reads and seeks, which counts the bytes that are read."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)
        self.reads = self.nbytes = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        found = self._stream.read(size)
        self.reads += bool(found)
        self.nbytes += len(found)
        return found
