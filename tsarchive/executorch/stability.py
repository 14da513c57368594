"""Stability of a file: whether its tables, encoded anew, are the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsarchive.container import Record
from tsarchive.container.source import Source
from tsarchive.errors import UnsupportedError

from .draft import Draft
from .pieces import Pieces
from .regions import Regions, opened_regions

__all__ = ["Change", "Stability", "stability_of"]

_SHOWN = 32
_STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class Change:
    """The first byte that differs: ``offset`` in a record, and up to 32 bytes of both sides."""

    record: str
    offset: int
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Stability:
    """The effects of writing a file.

    ``is_copied`` tells that it is written as it was read; ``once`` is the first change when its
    tables are encoded anew, ``again`` that when the result is read and encoded once more.
    ``unread`` is the record that cannot be encoded, and the reason.
    """

    is_copied: bool
    once: Change | None = None
    again: Change | None = None
    unread: tuple[str, str] | None = None


def stability_of(regions: Regions) -> Stability:
    """Write a file to nowhere, encode its tables, and encode the result again.

    Raises FormatError and LimitError where the file breaks a rule.
    """
    data = regions.buffer()
    is_copied = _first_difference(data, Draft.of(regions).pieces()) is None
    try:
        once = Draft.of(regions).pieces(anew=True)
    except UnsupportedError as error:
        return Stability(is_copied, unread=(error.record or "", error.message))
    changed = _first_change(data, once, regions)
    if changed is None:
        return Stability(is_copied)
    anew = opened_regions(Source(memoryview(once.join())), regions.kind)
    again = _first_change(anew.buffer(), Draft.of(anew).pieces(anew=True), anew)
    return Stability(is_copied, changed, again)


def _first_change(before: memoryview, after: Pieces, regions: Regions) -> Change | None:
    """Return the first difference between a file and what would be written; None without any."""
    at = _first_difference(before, after)
    if at is None:
        return None
    name, start = _record_at(at, regions.records)
    return Change(name, at - start, bytes(before[at : at + _SHOWN]), _bytes_at(after, at))


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
