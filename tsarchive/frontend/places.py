"""Places of code in a code record, and through its debug record in the source of the user."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tsarchive.errors import ArchiveError, SourceError
from tsarchive.ir.source_ranges import Location, Range, TaggedRange, byte_length


class RecordPlaces:
    """The places in one code record. Text and debug rows are read when a place is asked for."""

    def __init__(
        self, record: str, text: Callable[[], str], debug: Mapping[str, Sequence[TaggedRange]]
    ) -> None:
        self.record = record
        self._text = text
        self._debug = debug

    @cached_property
    def lines(self) -> Sequence[str]:
        return self._text().split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + byte_length(line) + 1)
        return starts

    @cached_property
    def _rows(self) -> Sequence[TaggedRange]:
        """The rows of the debug record; none where it is absent, or cannot be read.

        Places help to understand errors: they must not put another error in their place.
        """
        try:
            return self._debug[self.record]
        except (ArchiveError, KeyError):
            return ()

    @cached_property
    def _offsets(self) -> list[int]:
        return [row.offset for row in self._rows]

    def range_at(self, line: int, column: int) -> Range | None:
        """The user source of the byte at ``column`` of a 1-based line.

        For a byte that comes from nowhere, it is that of the next on its line that does not.
        """
        if not self._rows or line >= len(self._starts):
            return None
        first = bisect_right(self._offsets, self._starts[line - 1] + column) - 1
        after = bisect_left(self._offsets, self._starts[line])
        rows = self._rows[max(first, 0) : after]
        return next((row.range for row in rows if row.range and row.range.source.text), None)


class CodePlace(NamedTuple):
    """The place of a graph node in a code record. ``column`` counts bytes from 0."""

    places: RecordPlaces
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.places.record}:{self.line}: {self.text}"

    @property
    def range(self) -> Range | None:
        """The place in user source; None where the archive does not tell."""
        return self.places.range_at(self.line, self.column)

    @property
    def origin(self) -> Location | None:
        """The line of user source; None where the archive does not tell."""
        range_ = self.range
        return None if range_ is None else range_.location

    @property
    def text(self) -> str:
        """The line of the code record, without its indentation."""
        lines = self.places.lines
        return lines[self.line - 1].strip() if self.line <= len(lines) else ""


def place_of(node: ast.AST, places: RecordPlaces, line_offset: int) -> CodePlace:
    """The place where ``node`` begins. ``line_offset`` is added to the line that it names."""
    line = getattr(node, "lineno", 1) + line_offset
    return CodePlace(places, line, getattr(node, "col_offset", 0))


def located(error: SourceError, place: CodePlace) -> SourceError:
    """The error with a place, unless it names one already."""
    if error.line is None:
        error.record, error.line = place.places.record, place.line
        error.construct = place.text
        error.origin = str(place.origin or "") or None
    return error
