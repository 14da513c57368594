"""The contents of a file, in forms that fingerprints digest and comparisons compare.

Elements of tensors are bytes in the order of their indices, little-endian, whatever the strides,
the sharing and the compression of their storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from tsarchive.analyses.encoding import Plain
from tsarchive.errors import FormatError

# Rows that do not follow each other are gathered to pieces of about so many bytes.
_PIECE: Final = 1 << 20
# Longer runs are given in pieces, so that what was read can be let go of.
_LONGEST: Final = 1 << 24


class Elements(NamedTuple):
    """The elements of a tensor: those of ``storage`` at an offset and strides, all in bytes.

    ``storage`` gives the bytes when they are looked at; None where a tensor has no elements.
    ``unit`` is the size of the number that a byte order applies to.
    """

    storage: Callable[[], memoryview] | None
    offset: int
    shape: Sequence[int]
    strides: Sequence[int]
    itemsize: int
    unit: int
    is_swapped: bool = False

    @property
    def nbytes(self) -> int:
        """The number of bytes that :meth:`pieces` gives."""
        return 0 if self.storage is None else prod(self.shape) * self.itemsize

    def pieces(self) -> Iterator[memoryview | bytes]:
        """Yield the elements in the order of their indices, in pieces.

        Raises FormatError where the storage is too short.
        """
        if self.storage is None or 0 in self.shape:
            return
        data = self.storage()
        self._check(len(data))
        runs = _rows(data, self)
        yield from map(self._swapped, runs) if self.is_swapped else runs

    def _check(self, size: int) -> None:
        last = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        end = self.offset + last + self.itemsize
        if end > size:
            raise FormatError(f"a tensor ends at byte {end:,} of its storage", limit=size)

    def _swapped(self, piece: memoryview | bytes) -> bytes:
        swapped = bytearray(len(piece))
        for place in range(self.unit):
            swapped[place :: self.unit] = piece[self.unit - 1 - place :: self.unit]
        return bytes(swapped)


def _rows(data: memoryview, elements: Elements) -> Iterator[memoryview | bytes]:
    """Yield pieces of whole rows: what follows each other in memory stays together."""
    dimensions = [
        (n, step) for n, step in zip(elements.shape, elements.strides, strict=True) if n != 1
    ]
    width = elements.itemsize
    while dimensions and dimensions[-1][1] == width:
        width *= dimensions.pop()[0]
    if not dimensions:
        end = elements.offset + width
        for start in range(elements.offset, end, _LONGEST):
            yield data[start : min(start + _LONGEST, end)]
        return
    pieces: list[memoryview] = []
    size = 0
    for start in _starts(elements.offset, dimensions):
        pieces.append(data[start : start + width])
        size += width
        if size >= _PIECE:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join(pieces)


def _starts(offset: int, dimensions: Sequence[tuple[int, int]]) -> Iterator[int]:
    (count, step), *inner = dimensions
    starts = range(offset, offset + count * step, step) if step else [offset] * count
    if not inner:
        yield from starts
        return
    for start in starts:
        yield from _starts(start, inner)


class TensorContent(NamedTuple):
    """What a tensor holds: ``meaning`` tells how its elements are read (dtype, scale, ...)."""

    meaning: Plain
    elements: Elements


class Contents(ABC):
    """The parts of a file, each made when it is looked at."""

    @property
    @abstractmethod
    def code(self) -> Plain:
        """The graphs of all methods, and what they refer to; places in source are no part."""

    @property
    @abstractmethod
    def structure(self) -> Plain:
        """Classes and attributes: values that are no tensors, and of tensors all but elements."""

    @property
    @abstractmethod
    def tensors(self) -> Mapping[str, TensorContent]:
        """Tensors by name."""

    @property
    @abstractmethod
    def extra_files(self) -> Mapping[str, bytes]:
        """Extra files by name."""
