"""How far the elements of two tensors are apart, added up piece by piece."""

from __future__ import annotations

import math
from typing import Final

import numpy
from numpy.typing import NDArray

from tsarchive.diffing.numbers import Bits, Numbers, Reals
from tsarchive.diffing.report import ValueDifference
from tsarchive.formats.strides import Piece

# What is in the work at a time stays in the caches of the processor.
_AT_ONCE: Final = 1 << 16
# Elements that differ are picked where they are less than one of so many.
_FEW: Final = 4
# Squares that are smaller may have lost digits.
_TINY: Final = 1e-200


class Distance:
    """How far the elements are apart that have been added."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._itemsize = numbers.unit.itemsize * numbers.parts
        self._differing = self._elements = 0
        self._absolute = self._relative = 0.0
        self._ulps = 0 if numbers.has_steps else None
        self._norm = self._norm_before = 0.0

    @property
    def found(self) -> ValueDifference:
        """What was added so far, once there is an element."""
        return ValueDifference(
            self._differing,
            self._elements,
            self._absolute,
            self._relative,
            self._ulps,
            self._norm,
            self._norm_before,
        )

    def add(self, before: Piece, after: Piece) -> None:
        """Add elements in the same order on both sides."""
        with numpy.errstate(all="ignore"):
            for start in range(0, len(before), _AT_ONCE):
                end = start + _AT_ONCE
                one = self._numbers.bits(memoryview(before)[start:end])
                other = self._numbers.bits(memoryview(after)[start:end])
                self._add(one, other)

    def _add(self, before: Bits, after: Bits) -> None:
        self._elements += len(before)
        differ = self._differ(before, after)
        count = int(numpy.count_nonzero(differ))
        self._differing += count
        if not count:
            self._add_before(self._numbers.sizes(before))
        elif count < len(before) // _FEW:
            self._add_before(self._numbers.sizes(before))
            before, after = before[differ], after[differ]
            self._add_pairs(before, after, *self._numbers.measured(before, after))
        else:
            sizes, apart = self._numbers.measured(before, after)
            self._add_before(sizes)
            self._add_pairs(before, after, sizes, apart)

    def _differ(self, before: Bits, after: Bits) -> NDArray[numpy.bool_]:
        differ: NDArray[numpy.bool_] = before != after
        return differ if differ.ndim == 1 else differ.any(axis=1)

    def _add_before(self, sizes: Reals) -> None:
        self._norm_before = math.hypot(self._norm_before, _norm_of_finite(sizes))

    def _add_pairs(self, before: Bits, after: Bits, sizes: Reals, apart: Reals) -> None:
        if not math.isfinite(apart.max()):
            differ = self._differ(before, after)
            before, after, sizes, apart = (
                before[differ],
                after[differ],
                sizes[differ],
                apart[differ],
            )
            finite = self._finite(sizes, self._numbers.sizes(after))
            before, after, sizes, apart = (
                before[finite],
                after[finite],
                sizes[finite],
                apart[finite],
            )
        if len(before):
            self._add_finite(before, after, sizes, apart)

    def _finite(self, before: Reals, after: Reals) -> NDArray[numpy.bool_]:
        """Return which pairs are finite on both sides; others are infinitely far apart, or NaN."""
        finite = numpy.isfinite(before) & numpy.isfinite(after)
        if not (finite | (numpy.isnan(before) & numpy.isnan(after))).all():
            self._absolute = self._relative = self._norm = math.inf
        return finite

    def _add_finite(self, before: Bits, after: Bits, sizes: Reals, apart: Reals) -> None:
        self._absolute = max(self._absolute, float(apart.max()))
        self._norm = math.hypot(self._norm, _norm_of_finite(apart))
        apart /= sizes
        relative = float(apart.max())
        if math.isnan(relative):  # zeros before, that are zeros after
            relative = float(numpy.nanmax(apart, initial=0.0))
        self._relative = max(self._relative, relative)
        if self._ulps is not None:
            self._ulps = max(self._ulps, int(self._numbers.ulps(before, after).max()))


def _norm_of_finite(values: Reals) -> float:
    squares = float(numpy.square(values).sum())
    if _TINY < squares < math.inf:
        return math.sqrt(squares)
    return _norm(values[numpy.isfinite(values)])


def _norm(values: Reals) -> float:
    """Return the Euclidean norm, also where squares are too large or too small for a float."""
    largest = float(values.max(initial=0.0))
    if largest == 0 or math.isinf(largest):
        return largest
    return largest * math.sqrt(float(numpy.square(values / largest).sum()))
