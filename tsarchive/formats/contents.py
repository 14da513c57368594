"""The contents of a file, in forms that fingerprints digest and comparisons compare.

Elements of tensors are bytes in the order of their indices, little-endian, whatever the strides,
the sharing and the compression of their storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from tsarchive.analyses.encoding import Plain
from tsarchive.errors import FormatError

from .strides import Piece, pieces_of


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

    def pieces(self) -> Iterator[Piece]:
        """Yield the elements in the order of their indices, in pieces.

        Raises FormatError where the storage is too short.
        """
        if self.storage is None or 0 in self.shape:
            return
        data = self.storage()
        dimensions = [*zip(self.shape, self.strides, strict=True)]
        end = self.offset + sum((n - 1) * step for n, step in dimensions) + self.itemsize
        if end > len(data):
            raise FormatError(f"a tensor ends at byte {end:,} of its storage", limit=len(data))
        pieces = pieces_of(data[self.offset : end], dimensions, self.itemsize)
        yield from map(self._swapped, pieces) if self.is_swapped else pieces

    def _swapped(self, piece: Piece) -> bytearray:
        swapped = bytearray(len(piece))
        for place in range(self.unit):
            swapped[place :: self.unit] = piece[self.unit - 1 - place :: self.unit]
        return swapped


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
