"""Source ranges in the form that no longer changes when torch loads and saves the archive again.

torch writes the range of every node beside the text. When the text is read back, each node that
is made where some text begins gets the range recorded for that byte, and nodes without a place
lose theirs. After two such rounds the records repeat; the rounds are gone through here on the
printed text, without printing again.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .graph import Node
from .ranges import Range, Source, TaggedRange, TaggedText, range_records
from .types import FunctionType
from .values import Device

_ROUNDS = 2


class _Place(NamedTuple):
    file: int
    offset: int


def settled_ranges(files: Sequence[TaggedText]) -> list[list[TaggedRange]]:
    """The range records of each file, as torch's third save of the same program has them."""
    places = _places(files)
    records = [range_records(body.owners, lambda node: node.range) for body in files]
    for _ in range(_ROUNDS):
        loaded = [_Loaded(rows) for rows in records]
        ranges = {node: loaded[place.file].at(place.offset) for node, place in places.items()}
        records = [range_records(body.owners, ranges.get) for body in files]
    return records


class _Loaded:
    """The ranges of one file as a loader gives them: each source is a new object."""

    def __init__(self, records: Sequence[TaggedRange]) -> None:
        sources: dict[Source | None, Source] = {}
        self._offsets = [record.offset for record in records]
        self._ranges = [_reloaded(record.range, sources) for record in records]

    def at(self, offset: int) -> Range:
        return self._ranges[bisect_right(self._offsets, offset) - 1]


def _reloaded(range_: Range | None, sources: dict[Source | None, Source]) -> Range:
    source = range_.source if range_ else None
    if source not in sources:
        sources[source] = (
            Source(source.text, source.filename or "", source.first_line)
            if source
            else Source("", "", 0)
        )
    begin, end = (range_.begin, range_.end) if range_ else (0, 0)
    return Range(sources[source], begin, end)


def _places(files: Iterable[TaggedText]) -> dict[Node, _Place]:
    """Where each node is made when the text is read back; nodes without a place are left out.

    A hook is printed twice; torch reads the copy that stands first, inside the class.
    """
    places: dict[Node, _Place] = {}
    for number, body in enumerate(files):
        new: dict[Node, tuple[int, bool]] = {}
        for offset, node, is_text in body.marks:
            if node not in places and _counts(node, is_text=is_text):
                event = (offset, not is_text)
                new[node] = min(event, new.get(node, event))
        for node, (offset, is_default) in new.items():
            if not is_default:
                places[node] = _Place(number, offset)
    return places


def _counts(node: Node, *, is_text: bool) -> bool:
    """Equal constants become one node, placed where the first of them is made.

    Number literals are made before everything else, so a default never comes first.
    """
    if not node.is_constant:
        return True
    if isinstance(node.output.type, FunctionType):
        return False
    value = node.attributes["value"]
    if isinstance(value, tuple | list | dict | complex | Device):
        return False  # folded from several nodes: without a place
    return is_text or not _is_number_literal(value)


def _is_number_literal(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
