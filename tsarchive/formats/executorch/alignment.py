"""Inference of the alignments that a writer used from the positions of what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tsarchive.errors import CallError

SEGMENT_ALIGNMENT: Final = 128
CONSTANT_ALIGNMENT: Final = 16
_LEAST: Final = 16
_LARGEST: Final = 1 << 20
_LIKELY: Final = (*(1 << power for power in range(4, 13)), 8, 4, 2, 1)


def align_up(place: int, width: int) -> int:
    """Round ``place`` up to a multiple of ``width``."""
    return place + -place % width


def infer_alignments(places: Sequence[tuple[int, int]], usual: int) -> list[int]:
    """Return the alignment that explains each (end of one thing, start of the next).

    A single alignment for all where there is one, preferring ``usual``.
    """
    widths = (usual, *_LIKELY)
    common = next((width for width in widths if all(_fits(place, width) for place in places)), None)
    if common is not None:
        return [common] * len(places)
    return [_alignment(place, widths) for place in places]


def require_alignment(width: int) -> None:
    """Raise CallError for widths that segments and constants cannot be aligned to."""
    if width & (width - 1) or not _LEAST <= width <= _LARGEST:
        raise CallError(
            f"an alignment of {width} is none: it is a power of two from {_LEAST:,} to {_LARGEST:,}"
        )


def _alignment(place: tuple[int, int], widths: Sequence[int]) -> int:
    """Return an alignment for one place.

    If none fits, the largest power of two that divides the start.
    """
    start = place[1]
    power = min(start & -start, max(widths))
    return next((width for width in widths if _fits(place, width)), power or widths[0])


def _fits(place: tuple[int, int], width: int) -> bool:
    end, start = place
    return align_up(end, width) == start
