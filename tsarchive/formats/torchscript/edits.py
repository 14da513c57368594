"""Edits of a code record's text, and the mapping of offsets through them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from tsarchive.errors import PickleError
from tsarchive.pickler import Value, dumps, loads


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace bytes ``start`` to ``end`` of a record by ``text``."""

    start: int
    end: int
    text: bytes


class EditedText:
    """A code record after edits; nested edits are ignored. Offsets are in bytes."""

    def __init__(self, data: bytes, edits: Iterable[Edit]) -> None:
        self._edits: list[Edit] = []
        for edit in sorted(set(edits), key=lambda edit: (edit.start, -edit.end)):
            if not self._edits or edit.start >= self._edits[-1].end:
                self._edits.append(edit)
        self._starts = [edit.start for edit in self._edits]
        self._shifts = [0]
        parts, position = [], 0
        for edit in self._edits:
            parts += [data[position : edit.start], edit.text]
            position = edit.end
            self._shifts.append(self._shifts[-1] + len(edit.text) - (edit.end - edit.start))
        self.data = b"".join([*parts, data[position:]])

    def offset(self, before: int) -> int:
        """Map an offset to the edited text; a replaced byte maps to its replacement."""
        count = bisect_right(self._starts, before)
        if not count:
            return before
        last = self._edits[count - 1]
        if before < last.end:
            return last.start + self._shifts[count - 1]
        return before + self._shifts[count]


def move_debug_record(data: bytes, edited: EditedText, record: str) -> bytes:
    """Adjust the row offsets of a debug record to edited text.

    Works for all forms that torch has written: rows are (offset, place, tag). Raises PickleError.
    """
    value = loads(data, record=record)
    match value:
        case (str(form), texts, tuple(rows)):
            return dumps((form, texts, tuple(_row(row, edited, record) for row in rows)))
        case tuple(rows):
            return dumps(tuple(_row(row, edited, record) for row in rows))
    raise PickleError("the debug record is malformed", record=record)


def _row(row: Value, edited: EditedText, record: str) -> Value:
    match row:
        case (int(offset), *place):
            return (edited.offset(offset), *place)
    raise PickleError("the debug record is malformed", record=record)
