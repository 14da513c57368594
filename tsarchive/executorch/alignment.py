"""Which alignment a writer was told, by where things came to stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tsarchive.errors import CallError

__all__ = ["aligned", "alignments_of", "require_alignment"]

SEGMENT_ALIGNMENT: Final = 128
CONSTANT_ALIGNMENT: Final = 16
_LEAST: Final = 16
_LARGEST: Final = 1 << 20
_LIKELY: Final = (*(1 << power for power in range(4, 13)), 8, 4, 2, 1)


def aligned(place: int, width: int) -> int:
    """The first multiple of ``width`` from ``place`` on."""
    return place + -place % width


def alignments_of(places: Sequence[tuple[int, int]], usual: int) -> list[int]:
    """For each end of one thing and start of the next, what makes that start there.

    One for all where that can be, the usual before others.
    """
    widths = (usual, *_LIKELY)
    common = next((width for width in widths if all(_fits(place, width) for place in places)), None)
    if common is not None:
        return [common] * len(places)
    return [_alignment(place, widths) for place in places]


def require_alignment(width: int) -> None:
    """Raise CallError for what segments and constants are not aligned to."""
    if width & (width - 1) or not _LEAST <= width <= _LARGEST:
        raise CallError(
            f"an alignment of {width} is none: it is a power of two from {_LEAST:,} to {_LARGEST:,}"
        )


def _alignment(place: tuple[int, int], widths: Sequence[int]) -> int:
    """Where none fits, the start shall stay a multiple of the same power of two."""
    start = place[1]
    power = min(start & -start, max(widths))
    return next((width for width in widths if _fits(place, width)), power or widths[0])


def _fits(place: tuple[int, int], width: int) -> bool:
    end, start = place
    return aligned(end, width) == start
