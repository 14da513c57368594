"""How long calls take, in turns, so that what disturbs one disturbs all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

_SECONDS: Final = 0.02
_FEWEST: Final = 5
_MOST: Final = 50


def times_of(*calls: Callable[[], Any]) -> list[float]:
    """Return the least time of each call, in seconds."""
    for call in calls:
        call()
    best = [float("inf")] * len(calls)
    started, turns = time.perf_counter(), 0
    while turns < _FEWEST or (turns < _MOST and time.perf_counter() - started < _SECONDS):
        turns += 1
        for index, call in enumerate(calls):
            before = time.perf_counter()
            call()
            best[index] = min(best[index], time.perf_counter() - before)
    return best
