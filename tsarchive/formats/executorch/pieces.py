"""Bytes that lie in several places, and are copied only when they are written."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, TypeAlias

# Pieces above this size stand alone; smaller neighbours are joined.
_LARGE: Final = 1 << 16


class Pieces:
    """A sequence of pieces that acts as one run of bytes."""

    __slots__ = ("_parts", "_size")

    def __init__(self, parts: Iterable[Bytes]) -> None:
        self._parts = tuple(_join_small(_flatten(parts)))
        self._size = sum(map(len, self._parts))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._parts)

    def join(self) -> bytes:
        """Return all of it, copied."""
        return b"".join(self._parts)

    def is_at(self, data: memoryview, start: int = 0) -> bool:
        """Return whether ``data`` has these bytes from ``start`` on."""
        for part in self._parts:
            if data[start : start + len(part)] != part:
                return False
            start += len(part)
        return True


Bytes: TypeAlias = bytes | memoryview | Pieces


def write_pieces(stream: BinaryIO, pieces: Pieces) -> None:
    """Write bytes directly from where they lie."""
    for part in pieces:
        stream.write(part)


def _flatten(parts: Iterable[Bytes]) -> Iterator[bytes | memoryview]:
    for part in parts:
        if isinstance(part, Pieces):
            yield from part
        else:
            yield part


def _join_small(parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    for is_large, run in itertools.groupby(parts, key=lambda part: len(part) > _LARGE):
        if is_large:
            yield from run
        elif joined := b"".join(run):
            yield joined
