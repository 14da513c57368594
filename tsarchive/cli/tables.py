"""Tables: rows of text in columns, as wide as they need to be and as a terminal lets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from tsarchive.cli.terminal import cells, drawn, folded, styled, width
from tsarchive.describing.text import visible

# No column is made narrower, however narrow the terminal is.
_NARROWEST = 8


class Column(NamedTuple):
    """How the texts of a column are shown; ``heading`` is empty where there is none.

    Texts that are ``whole`` are never folded: names are copied from where they are shown.
    """

    heading: str = ""
    is_right: bool = False
    style: str = ""
    is_whole: bool = False

    def aligned(self, text: str, room: int, style: str) -> str:
        """A line of a text with spaces around it."""
        padding = " " * (room - cells(text))
        shown = styled(text, style)
        return padding + shown if self.is_right else shown + padding


class Table:
    """Rows below headings, if there are any; ``gap`` spaces are between columns."""

    def __init__(self, columns: Sequence[Column], *, gap: int = 3) -> None:
        self._columns = columns
        self._gap = " " * gap
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *texts: str) -> None:
        """One text for each column; it may have several lines, and be that of a file."""
        self._rows.append(tuple(map(visible, texts)))

    def lines(self) -> Iterator[str]:
        """The table for stdout."""
        headings = tuple(column.heading for column in self._columns)
        heads = [headings] if any(headings) else []
        widths = self._widths([*heads, *self._rows])
        for row in heads:
            yield from self._drawn(row, widths, ["bold"] * len(widths))
            yield drawn("─" * self._whole(widths))
        styles = [column.style for column in self._columns]
        for row in self._rows:
            yield from self._drawn(row, widths, styles)

    def _whole(self, widths: Sequence[int]) -> int:
        return sum(widths) + len(self._gap) * (len(widths) - 1)

    def _widths(self, rows: Sequence[tuple[str, ...]]) -> list[int]:
        """The widths of columns: the widest give way until the terminal holds all."""
        widths = [max(map(_longest, texts)) for texts in zip(*rows, strict=True)]
        limit = width()
        excess = 0 if limit is None else self._whole(widths) - limit
        giving = [index for index, column in enumerate(self._columns) if not column.is_whole]
        while excess > 0 and max([0, *(widths[index] for index in giving)]) > _NARROWEST:
            *_, second, widest = sorted([_NARROWEST, *(widths[index] for index in giving)])
            less = min(excess, max(1, widest - second))
            widths[next(index for index in giving if widths[index] == widest)] -= less
            excess -= less
        return widths

    def _drawn(
        self, row: Sequence[str], widths: Sequence[int], styles: Sequence[str]
    ) -> Iterator[str]:
        folds = [
            [piece for line in text.split("\n") for piece in folded(line, room)]
            for text, room in zip(row, widths, strict=True)
        ]
        for pieces in zip_longest(*folds, fillvalue=""):
            aligned = map(Column.aligned, self._columns, pieces, widths, styles)
            yield self._gap.join(aligned).rstrip(" ")


def _longest(text: str) -> int:
    return max(map(cells, text.split("\n")))
