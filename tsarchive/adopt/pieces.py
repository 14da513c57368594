"""Sources of which torch shows pieces: those of a file's code, where they are not at hand.

With a range torch shows up to two lines before it and after it. Where it shows fewer, the source
begins or ends, which tells one function from the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from tsarchive.ir.source_ranges import Source

from .function_sources import BUILTIN_FILENAME, SourceText

_CONTEXT = 2


class Piece:
    """The known lines of one source by number; lines that no range shows are taken for empty.

    ``begins`` and ``ends`` are the numbers of its first and its last line, where they are known.
    """

    def __init__(self, file: str, first: int, lines: Sequence[str], marked: range) -> None:
        """Make the piece that one range shows; its own are the ``marked`` ones of the lines."""
        after = len(lines) - marked.stop
        self._file = file
        self._lines = dict(enumerate(lines, first))
        self.begins = first if marked.start < _CONTEXT else None
        self.ends = self._last if after == 0 else None
        # With one line behind the range, the source ends, or goes on with an empty line.
        self._may_end = {self._last} if after == 1 else set()
        self._whole: Piece = self

    @property
    def _first(self) -> int:
        return min(self._lines)

    @property
    def _last(self) -> int:
        return max(self._lines)

    def settle(self) -> None:
        """Take the last known line for the end where it may be; all ranges have been seen."""
        if self.ends is None and self._last in self._may_end:
            self.ends = self._last

    def is_of_one_source(self, other: Piece, *, may_leave_gap: bool) -> bool:
        """Return whether both can be of one source; without a gap they have a line in common."""
        common = self._lines.keys() & other._lines.keys()
        if not common and not may_leave_gap:
            return False
        first, last = min(self._first, other._first), max(self._last, other._last)
        return (
            all(self._lines[number] == other._lines[number] for number in common)
            and all(begins in (None, first) for begins in (self.begins, other.begins))
            and all(ends in (None, last) for ends in (self.ends, other.ends))
        )

    def join(self, other: Piece) -> None:
        """Make the other piece a part of this one."""
        other._whole = self
        self._lines.update(other._lines)
        self._may_end |= other._may_end
        self.begins = other.begins if self.begins is None else self.begins
        self.ends = other.ends if self.ends is None else self.ends

    @property
    def source(self) -> Source:
        """The source as far as it is known; no piece may be joined afterwards."""
        return self._source if self._whole is self else self._whole.source

    @property
    def text(self) -> SourceText:
        """The text of the source, which tells the ranges that torch's frontend computes."""
        return self._text if self._whole is self else self._whole.text

    @cached_property
    def _text(self) -> SourceText:
        is_from_frontend = self._file != BUILTIN_FILENAME
        return SourceText(
            self._source.text, self._source.first_line, is_from_frontend=is_from_frontend
        )

    @cached_property
    def _source(self) -> Source:
        numbers = range(self._first, self._last + 1)
        text = "".join(f"{self._lines.get(number, '')}\n" for number in numbers)
        return Source(text, self._file, self._first, is_read=True)


def join_pieces(functions: Iterable[Sequence[Piece]]) -> None:
    """Join what is of one source, given the pieces of one file by function.

    A function has one source, and parts of it may be shown by no range. Several functions of a text
    that was compiled as a whole have one, too: what is shown of them then overlaps.
    """
    of_all: list[Piece] = []
    for pieces in functions:
        whole = _joined(pieces, may_leave_gap=True)
        for piece in whole:
            piece.settle()
        of_all += whole
    while len(joined := _joined(of_all, may_leave_gap=False)) < len(of_all):
        of_all = joined


def _joined(pieces: Iterable[Piece], *, may_leave_gap: bool) -> list[Piece]:
    found: list[Piece] = []
    for piece in pieces:
        fitting = (one for one in found if one.is_of_one_source(piece, may_leave_gap=may_leave_gap))
        if (first := next(fitting, None)) is not None:
            first.join(piece)
        else:
            found.append(piece)
    return found
