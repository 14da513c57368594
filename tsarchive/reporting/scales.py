"""Round numbers for axes."""

from __future__ import annotations

import math
from collections.abc import Iterable


def ticks(limit: int, most: int) -> Iterable[int]:
    """Return about ``most`` ticks from 0 to ``limit``, spaced by 1, 2 or 5 times a power of ten."""
    wanted = max(limit / most, 1)
    power = 10 ** math.floor(math.log10(wanted))
    step = next(int(factor * power) for factor in (1, 2, 5, 10) if factor * power >= wanted)
    return range(0, limit + 1, step)


def byte_ticks(limit: int, most: int) -> Iterable[int]:
    """Return ticks for bytes, spaced by a power of two."""
    return range(0, limit + 1, 1 << max((limit - 1) // most, 0).bit_length())
