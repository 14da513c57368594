"""Stability of a file: whether its tables, encoded anew, are the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tsarchive.comparing import (
    GraphReport,
    JitterReport,
    ReadComparison,
    RecordDifference,
    Unprinted,
    changes,
)
from tsarchive.container import Record
from tsarchive.container.source import Source
from tsarchive.errors import UnsupportedError

from .draft import Draft
from .encoding import Pieces
from .regions import Regions, opened_regions


def jitter_report(regions: Regions) -> JitterReport:
    """Write a file to nowhere, encode its tables, and encode the result again.

    Raises FormatError and LimitError where the file breaks a rule.
    """
    data = regions.buffer()
    is_copied = Draft.of(regions).pieces().is_all_of(data)
    return JitterReport(
        is_copied,
        len(data),
        (),
        ReadComparison(is_copied, ()),
        _graph_report(regions),
        kind=regions.kind,
    )


def _graph_report(regions: Regions) -> GraphReport:
    """Report where tables differ once they are encoded anew, and once more."""
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
    if after.is_all_of(before):
        return ()
    (found,) = changes({"": bytes(before)}, {"": after.join()})
    name, start = _record_at(found.offset, regions.records)
    return (replace(found, record=name, offset=found.offset - start),)


def _record_at(at: int, records: Mapping[str, Record]) -> tuple[str, int]:
    """Return the smallest record with this byte, and its start; the file where there is none."""
    holding = [each for each in records.values() if each.offset <= at < each.offset + each.size]
    found = min(holding, key=lambda each: each.size, default=None)
    return ("", 0) if found is None else (found.name, found.offset)
