"""Bytes to read pickles from, as readers of opcodes ask for them."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 1 << 24


class LongArgument(Exception):
    """An argument is not worth a copy; it ends at ``end``."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self.size = end - start
        self.end = end


class PickleBytes:
    """Like ``io.BytesIO``, but bytes of no pickle, which ask for very much very often, cost
    little: what reaches beyond the end gives nothing rather than all that is left, and what is
    very long raises LongArgument."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._position = 0
        self._lines_end = data.rfind(b"\n") + 1

    def seek(self, position: int) -> None:
        """Go on from here."""
        self._position = position

    def tell(self) -> int:
        """Where the next byte comes from."""
        return self._position

    def read(self, size: int) -> bytes:
        """Exactly so many bytes, or none."""
        start = self._position
        end = start + size
        if end > len(self.data):
            return b""
        if size > _LONGEST:
            raise LongArgument(start, end)
        self._position = end
        return self.data[start:end]

    def readline(self) -> bytes:
        """A line with its end, or nothing."""
        start = self._position
        if start >= self._lines_end:
            return b""
        self._position = self.data.index(b"\n", start) + 1
        return self.data[start : self._position]

    def rest(self, most: int) -> bytes:
        """All that is left, or nothing where that is more than ``most``."""
        start = self._position
        if len(self.data) - start > most:
            return b""
        self._position = len(self.data)
        return self.data[start:]
