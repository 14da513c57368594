"""Bytes of a file that belong to none of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .bundled import BundledProgram
from .data_file import DataFile
from .program import Program
from .segments import Segment


class Unclaimed(NamedTuple):
    """Bytes from ``start`` in the file on, not all zero. ``is_rest``: up to the end of the file."""

    start: int
    data: memoryview
    is_rest: bool


def find_unclaimed(content: Program | DataFile | BundledProgram) -> Iterator[Unclaimed]:
    """Yield bytes behind the tables of a file that are in no segment, and are not padding.

    Of a bundle, those behind its own tables and those in its program. Raises FormatError and
    LimitError where the tables break a rule.
    """
    if isinstance(content, BundledProgram):
        yield from _between(content.data, content.tables_end, (), 0)
        yield from find_unclaimed(content.program)
    else:
        start = content.start if isinstance(content, Program) else 0
        yield from _between(content.data, content.tables_end, content.segments, start)


def _between(
    data: memoryview, end: int, segments: tuple[Segment, ...], start: int
) -> Iterator[Unclaimed]:
    for segment in (*sorted(segments), Segment(len(data), 0)):
        gap = data[end : segment.start]
        if bytes(gap).strip(b"\0"):
            yield Unclaimed(start + end, gap, is_rest=segment.start == len(data))
        end = max(end, segment.start + segment.size)
