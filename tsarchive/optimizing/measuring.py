"""How long calls take, in turns, so that what disturbs one disturbs all; how far results are apart.

Results are equal to rounding where numbers are within a ten-thousandth of the largest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

TOLERANCE: Final = 1e-4
_SECONDS: Final = 0.02
_FEWEST: Final = 5
_MOST: Final = 200


def times_of(*calls: Callable[[], Any], seconds: float = _SECONDS) -> list[float]:
    """Return the least time of each call, in seconds; a first one is not counted.

    Of one thread the time of the processor counts, which others do not disturb.
    """
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    for call in calls:
        call()
    best = [float("inf")] * len(calls)
    started, turns = time.perf_counter(), 0
    while turns < _FEWEST or (turns < _MOST and time.perf_counter() - started < seconds):
        turns += 1
        for index, call in enumerate(calls):
            before = clock()
            call()
            best[index] = min(best[index], clock() - before)
    return best


class Comparison(NamedTuple):
    """Whether results are equal to rounding, and how far their numbers are apart at most."""

    agree: bool
    difference: float


def compared(expected: Any, given: Any) -> Comparison:
    """Compare two results, which may hold tensors at any depth."""
    if isinstance(expected, Tensor) and isinstance(given, Tensor):
        return _compared_tensors(expected, given)
    pairs = _pairs(expected, given)
    if pairs is None:
        return Comparison(_is_same(expected, given), 0.0)
    found = [compared(*pair) for pair in pairs]
    return Comparison(
        all(each.agree for each in found), max((each.difference for each in found), default=0.0)
    )


def _pairs(expected: Any, given: Any) -> list[tuple[Any, Any]] | None:
    """Return the parts of two containers; None for what is none, or another."""
    if isinstance(expected, list | tuple) and isinstance(given, list | tuple):
        return list(zip(expected, given, strict=True)) if len(expected) == len(given) else None
    if isinstance(expected, dict) and isinstance(given, dict):
        return [(expected[key], given.get(key)) for key in expected] + [
            (None, given[key]) for key in given.keys() - expected.keys()
        ]
    return None


def _is_same(expected: Any, given: Any) -> bool:
    if isinstance(expected, float) and isinstance(given, float):
        return compared(torch.tensor(expected), torch.tensor(given)).agree
    if isinstance(expected, Tensor | list | tuple | dict):
        return False
    if isinstance(expected, Enum) and isinstance(given, Enum):
        return (expected.name, expected.value) == (given.name, given.value)
    # Objects of the archive are of classes that each loading makes anew.
    return bool(expected == given) or hasattr(expected, "tsarchive_class")


def _compared_tensors(expected: Tensor, given: Tensor) -> Comparison:
    if expected.shape != given.shape or expected.dtype != given.dtype:
        return Comparison(False, float("inf"))
    if not (expected.is_floating_point() or expected.is_complex()) or expected.is_quantized:
        return Comparison(torch.equal(expected, given), 0.0)
    apart = (expected - given).abs().nan_to_num()
    finite = expected[expected.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    agree = torch.allclose(
        given, expected, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True
    )
    return Comparison(agree, float(apart.max()) if apart.numel() else 0.0)
