"""Lines of user source for lines of code records, from debug records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Final, NamedTuple

from tsarchive.archive import Archive
from tsarchive.frontend.places import RecordPlaces
from tsarchive.ir.source_ranges import Range, Source, byte_length

# Limit per piece of source. Functions have hundreds of lines; a file made to exhaust memory has
# more.
_MAX_LINES: Final = 100_000


class Origin(NamedTuple):
    """A line of user source, ``net.py:12: y = self.body(x)``, and its anchor in the page.

    Traced code has no line, since only the place was kept.
    """

    text: str
    anchor: str | None


class UserSource(NamedTuple):
    """A piece of user source from which lines of code were compiled."""

    title: str
    text: str
    first_line: int
    anchor: str


class Origins:
    """The source locations of all records, and the sources encountered.

    Pieces of source with the same place and text are merged, whichever record they come from. The
    number of lines shown is limited in total; lines beyond it have no anchors.
    """

    def __init__(self, archive: Archive, lines: int) -> None:
        self._debug = archive.debug
        self._lines_left = lines
        self._sources: dict[tuple[str | None, int, str], _Lines] = {}
        # Sources are also found by identity, which is faster.
        self._known: dict[Source, _Lines] = {}

    @property
    def sources(self) -> list[UserSource]:
        """Return the shown sources in the order in which they were encountered."""
        return [lines.source for lines in self._sources.values() if lines.is_shown]

    def of_record(self, record: str, text: str) -> RecordOrigins:
        return RecordOrigins(RecordPlaces(record, lambda: text, self._debug), self)

    def of_range(self, found: Range) -> Origin | None:
        source = found.source
        if source not in self._known:
            key = source.filename, source.first_line, source.text
            if key not in self._sources:
                self._sources[key] = _Lines(source, f"source-{len(self._sources)}", self.reserve)
            self._known[source] = self._sources[key]
        return self._known[source].at(found.begin)

    def reserve(self, lines: int) -> bool:
        """Return whether this many more lines can be shown, and count them."""
        fits = lines <= self._lines_left
        self._lines_left -= lines if fits else 0
        return fits


class RecordOrigins:
    """The source locations of one record."""

    def __init__(self, places: RecordPlaces, origins: Origins) -> None:
        self._places = places
        self._origins = origins

    def line(self, number: int) -> Origin | None:
        """Return the origin of the first piece of a 1-based line; None where it is unknown."""
        line = self._places.lines[number - 1]
        if not line.strip():
            return None
        found = self._places.range_at(number, len(line) - len(line.lstrip()))
        return None if found is None else self._origins.of_range(found)


class _Lines:
    """The lines of one source, with their byte offsets."""

    def __init__(self, source: Source, anchor: str, reserve: Callable[[int], bool]) -> None:
        is_readable = source.text.count("\n") < _MAX_LINES
        self._texts = source.text.split("\n") if is_readable else []
        self._starts = [0, *accumulate(byte_length(line) + 1 for line in self._texts)]
        self._filename = source.filename
        self._first_line = source.first_line
        self._origins: dict[int, Origin | None] = {}
        self._anchor = anchor
        self._reserve = reserve
        self.is_shown: bool | None = None

    @property
    def source(self) -> UserSource:
        last = self._first_line + len(self._texts) - 1
        title = f"{self._filename or '<unknown>'}, lines {self._first_line} to {last}"
        return UserSource(title, "\n".join(self._texts), self._first_line, self._anchor)

    def at(self, offset: int) -> Origin | None:
        """Return the line that contains the byte at ``offset``."""
        if not self._texts:
            return None
        index = min(bisect_right(self._starts, offset), len(self._texts)) - 1
        if index not in self._origins:
            self._origins[index] = self._origin(index)
        return self._origins[index]

    def _origin(self, index: int) -> Origin | None:
        number = self._first_line + index
        place = Range(Source(self._texts[index], self._filename, number), 0, 0).location
        if place is None:
            return None
        if not place.text:  # a line of a Python stack, which is no source
            return Origin(str(place), None)
        if self.is_shown is None:
            self.is_shown = self._reserve(len(self._texts))
        return Origin(str(place), f"{self._anchor}-L{number}" if self.is_shown else None)
