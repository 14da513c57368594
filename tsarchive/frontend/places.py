"""Places of code in a code record, and through its debug record in the source of the user."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple, NoReturn, TypeAlias

from tsarchive.errors import ArchiveError, SourceError
from tsarchive.ir.source_ranges import Location, Range, TaggedRange, byte_length
from tsarchive.ir.types import Type, annotation


@dataclass(eq=False)
class RecordPlaces:
    """The places in one code record. Text and debug rows are read when a place is asked for."""

    record: str
    text: Callable[[], str]
    debug: Mapping[str, Sequence[TaggedRange]]

    @cached_property
    def lines(self) -> Sequence[str]:
        return self.text().split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(byte_length(line) + 1 for line in self.lines)]

    @cached_property
    def _rows(self) -> Sequence[TaggedRange]:
        """The rows of the debug record; none where it is absent, or cannot be read.

        Places help to understand errors: they must not put another error in their place.
        """
        try:
            return self.debug[self.record]
        except (ArchiveError, KeyError):
            return ()

    @cached_property
    def _offsets(self) -> list[int]:
        return [row.offset for row in self._rows]

    def range_at(self, line: int, column: int) -> Range | None:
        """Return the user source of the byte at ``column`` of a 1-based line.

        For a byte that comes from nowhere, it is that of the next on its line that does not.
        """
        if not self._rows or line >= len(self._starts):
            return None
        first = bisect_right(self._offsets, self._starts[line - 1] + column) - 1
        after = bisect_left(self._offsets, self._starts[line])
        ranges = (self._rows[place].range for place in range(max(first, 0), after))
        return next((each for each in ranges if each and each.source.text), None)


class CodePlace(NamedTuple):
    """The place of a graph node in a code record: the text of the expression or statement.

    Lines count from 1, columns from 0, in bytes; the end is that of the text.
    """

    places: RecordPlaces
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.record}:{self.line}: {self.text}"

    @property
    def record(self) -> str:
        return self.places.record

    @property
    def range(self) -> Range | None:
        """The range in user source; None where the archive does not record it."""
        return self.places.range_at(self.line, self.column)

    @property
    def origin(self) -> Location | None:
        """The line of user source; None where the archive does not record it."""
        range_ = self.range
        return None if range_ is None else range_.location

    @property
    def text(self) -> str:
        """The line of the code record, without its indentation."""
        lines = self.places.lines
        return lines[self.line - 1].strip() if self.line <= len(lines) else ""


# A node of a parsed definition that says where it stands.
Located: TypeAlias = ast.expr | ast.stmt | ast.arg


_START: Final = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)


@dataclass(eq=False, slots=True)
class Cursor:
    """The place of the reader in the text of one definition of a code record.

    ``text`` is what was parsed; ``line_offset`` is added to the lines of its tree. Errors are
    reported at ``statement`` or at a node, and graph nodes get the place of ``position``, or
    ``spot`` where there is no tree.
    """

    places: RecordPlaces
    line_offset: int
    text: str
    statement: Located = _START
    position: Located = _START
    spot: CodePlace | None = None

    def here(self) -> CodePlace:
        """Return the place of the current position."""
        return self.spot or self.place(self.position)

    def place(self, node: Located) -> CodePlace:
        """Return the place of a node of the tree."""
        start = node.lineno + self.line_offset
        end = (node.end_lineno or node.lineno) + self.line_offset
        return CodePlace(self.places, start, node.col_offset, end, node.end_col_offset or 0)

    def error(
        self, node: Located, text: str, *parts: object, hint: str | None = None
    ) -> SourceError:
        """Return an error at a node; ``parts`` fill the places of its text."""
        return self.locate(SourceError(filled(text, parts), hint=hint), node)

    def refuse(self, node: Located, what: str) -> NoReturn:
        """Raise for a construct that serialized code does not have."""
        text = "{} cannot stand in TorchScript code: {!r}"
        raise self.error(node, text, what, shorten(ast.unparse(node)))

    def locate(self, error: SourceError, node: Located) -> SourceError:
        """Return the error with the place of ``node``, unless it names one already."""
        if error.line is None:
            place = self.place(node)
            error.record, error.line = place.record, place.line
            error.construct = place.text
            error.origin = str(place.origin or "") or None
        return error


def filled(text: str, parts: Sequence[object]) -> str:
    """Fill ``parts`` into the places of a text, types as their annotations."""
    shown = [annotation(part) if isinstance(part, Type) else part for part in parts]
    return text.format(*shown) if parts else text


def shorten(text: str, limit: int = 80) -> str:
    """Return the first line of a text, cut to ``limit`` characters."""
    line = text.partition("\n")[0]
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
