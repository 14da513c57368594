"""Stability of a file: whether its tables, encoded anew, are the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsarchive.comparing import (
    GraphReport,
    JitterReport,
    ReadComparison,
    RecordDifference,
    Unprinted,
)
from tsarchive.container import Record
from tsarchive.container.source import Source
from tsarchive.errors import UnsupportedError

from .draft import Draft
from .encoding import Pieces
from .regions import Regions, opened_regions

_SHOWN = 32
_STEP = 1 << 16


def jitter_report(regions: Regions) -> JitterReport:
    """Write a file to nowhere, encode its tables, and encode the result again.

    Raises FormatError and LimitError where the file breaks a rule.
    """
    data = regions.buffer()
    is_copied = _first_difference(data, Draft.of(regions).pieces()) is None
    return JitterReport(
        is_copied,
        len(data),
        (),
        ReadComparison(is_copied, ()),
        _graph_report(regions),
        kind=regions.kind,
    )


def _graph_report(regions: Regions) -> GraphReport:
    """The part whose tables are otherwise when they are encoded anew, and once more."""
    try:
        once = Draft.of(regions).pieces(anew=True)
    except UnsupportedError as error:
        return GraphReport(unprinted=(Unprinted(error.record or "", error.message),))
    changed = _changes(regions.buffer(), once, regions)
    if not changed:
        return GraphReport()
    anew = opened_regions(Source(memoryview(once.join())), regions.kind)
    again = Draft.of(anew).pieces(anew=True)
    return GraphReport(changed, _changes(anew.buffer(), again, anew))


def _changes(before: memoryview, after: Pieces, regions: Regions) -> tuple[RecordDifference, ...]:
    """Return the first difference between a file and what would be written, if any."""
    at = _first_difference(before, after)
    if at is None:
        return ()
    name, start = _record_at(at, regions.records)
    shown = bytes(before[at : at + _SHOWN])
    return (RecordDifference(name, at - start, shown, _bytes_at(after, at)),)


def _first_difference(before: memoryview, after: Pieces) -> int | None:
    start = 0
    for step in _steps(after):
        found = before[start : start + len(step)]
        if found != step:
            pairs = enumerate(zip(found, step, strict=False))
            return start + next((at for at, (a, b) in pairs if a != b), len(found))
        start += len(step)
    return None if start == len(before) else start


def _steps(pieces: Pieces) -> Iterator[bytes | memoryview]:
    for part in pieces:
        for at in range(0, len(part), _STEP):
            yield part[at : at + _STEP]


def _record_at(at: int, records: Mapping[str, Record]) -> tuple[str, int]:
    """Return the smallest record with this byte, and its start; the file where there is none."""
    holding = [each for each in records.values() if each.offset <= at < each.offset + each.size]
    found = min(holding, key=lambda each: each.size, default=None)
    return ("", 0) if found is None else (found.name, found.offset)


def _bytes_at(pieces: Pieces, at: int) -> bytes:
    found = b""
    for step in _steps(pieces):
        found += step[at : at + _SHOWN - len(found)]
        at = max(at - len(step), 0)
        if len(found) == _SHOWN:
            break
    return found
