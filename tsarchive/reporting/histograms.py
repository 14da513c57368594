"""The distribution of a tensor's values: a histogram of equal bins, and statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy

from .elements import Numbers, Stored

# A power of two: bin edges are then exact for all but extreme values.
_BINS: Final = 64


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of a tensor's values.

    ``counts`` are those of finite values in equal bins from ``low`` to ``high``, the last bin
    including its upper edge; empty where there are none, or their range exceeds a float.
    ``elements`` counts all, ``nans`` and ``infinities`` those that are not finite. Bounds, mean and
    standard deviation (of the population) are those of finite values.
    """

    counts: tuple[int, ...]
    low: float
    high: float
    mean: float
    deviation: float
    elements: int
    zeros: int
    nans: int
    infinities: int

    def document(self) -> dict[str, Any]:
        """Return JSON for the script of the page; numbers that are only shown are text."""
        facts = {
            "elements": f"{self.elements:,}",
            "minimum": _shown(self.low),
            "mean": _shown(self.mean),
            "maximum": _shown(self.high),
            "standard deviation": _shown(self.deviation),
            "zeros": f"{self.zeros:,}",
        }
        if self.nans or self.infinities:
            facts |= {"NaN": f"{self.nans:,}", "infinite": f"{self.infinities:,}"}
        return {"counts": self.counts, "facts": facts}


def _shown(number: float) -> str:
    return f"{number:.6g}" if math.isfinite(number) else "none"


@dataclass(slots=True)
class _Totals:
    """The sums of one pass over the elements."""

    finite: int = 0
    nans: int = 0
    infinities: int = 0
    zeros: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0

    def add(self, piece: Numbers) -> None:
        nans = int(numpy.isnan(piece).sum())
        values = _finite(piece)
        self.nans += nans
        self.infinities += piece.size - values.size - nans
        self.finite += values.size
        self.zeros += values.size - int(numpy.count_nonzero(values))
        if values.size:
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))
            self.total += float(values.sum(dtype=numpy.float64))


def histogram(stored: Stored) -> Histogram:
    """Make two passes over the elements, piecewise: one for their bounds, one to count them."""
    with numpy.errstate(all="ignore"):
        totals = _Totals()
        for piece in stored.pieces():
            totals.add(piece)
        return _counted(stored, totals)


def _counted(stored: Stored, totals: _Totals) -> Histogram:
    mean = totals.total / totals.finite if totals.finite else math.nan
    low, high, times = totals.low, totals.high, stored.times
    bins = _bins(low, high, is_float=_is_float(stored.dtype)) if totals.finite else 0
    counts = numpy.zeros(bins, numpy.int64)
    squares = 0.0
    for piece in stored.pieces():
        values = _finite(piece).astype(numpy.float64)
        squares += float(numpy.square(values - mean).sum())
        if bins:
            counts += numpy.histogram(values, bins, _range(low, high))[0]
    deviation = math.sqrt(squares / totals.finite) if totals.finite else math.nan
    return Histogram(
        tuple(int(count) * times for count in counts), low, high, mean, deviation,
        stored.array.size * times, totals.zeros * times, totals.nans * times,
        totals.infinities * times,
    )  # fmt: skip


def _finite(piece: Numbers) -> Numbers:
    return piece[numpy.isfinite(piece)] if piece.dtype.kind == "f" else piece


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _bins(low: float, high: float, *, is_float: bool) -> int:
    """Return the number of bins; for integers in a short range, one for each."""
    if low == high or not math.isfinite(high - low):
        return int(low == high)
    return _BINS if is_float else int(min(high - low + 1, _BINS))


def _range(low: float, high: float) -> tuple[float, float]:
    """Return the bounds of the bins, widened if there is only a single value."""
    return (low, high) if low < high else (low - 0.5, high + 0.5)
