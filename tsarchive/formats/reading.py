"""Reading the tensors of a file: whole, in little memory, and as long as the file is the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tsarchive.container.faults import STRICT
from tsarchive.container.source import Source
from tsarchive.errors import FormatError

from .contents import Elements, TensorContent
from .strides import Piece

# About so many bytes of a mapped file are held in memory.
_HELD: Final = 1 << 25
# Tensors may share their bytes, and few bytes may be expanded to many elements; more than so many
# times the file, and these bytes, only to keep a reader busy.
_MOST_TIMES: Final = 1 << 10
_MOST_BYTES: Final = 1 << 30


class Reading:
    """Gives the elements of tensors of one file, to several threads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._most = source.size * _MOST_TIMES + _MOST_BYTES
        self._read = 0

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the file is one of which each byte has to be fetched."""
        return self._source.is_elsewhere

    def expect_all(self) -> None:
        """Tell that tensors are going to be read, however large they are."""
        self._source.expect_all()

    def require_unchanged(self) -> None:
        """Raise FormatError when the file was written to since it was opened."""
        self._source.require_unchanged(STRICT, contents=True)

    def require_bounded(self, tensors: Iterable[TensorContent]) -> None:
        """Raise FormatError when tensors, each counted once, are out of proportion to the file."""
        each = {id(tensor): tensor.elements.nbytes for tensor in tensors}
        total = sum(each.values())
        if total > self._most:
            message = (
                f"the elements of all tensors would be {total:,} bytes, the same again and again"
            )
            raise FormatError(message, limit=self._most)

    def pieces(self, elements: Elements) -> Iterator[Piece]:
        """Yield elements as :meth:`Elements.pieces` does.

        Raises FormatError also when the file was written to, before a piece counts as read.
        """
        self.require_unchanged()
        for piece in elements.pieces():
            yield piece
            self._count(len(piece))
            self.require_unchanged()

    def _count(self, size: int) -> None:
        self._read += size  # what another thread adds meanwhile may be lost, and does not matter
        if self._read >= _HELD:
            self._read = 0
            self._source.let_go()
