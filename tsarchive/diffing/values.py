"""How far the elements of two tensors are apart, added up piece by piece."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy
from numpy.typing import NDArray

from tsarchive.diffing.numbers import Bits, Numbers, Reals, Space
from tsarchive.diffing.report import ValueDifference
from tsarchive.formats.strides import Piece

Chosen: TypeAlias = NDArray[numpy.bool_]

# What is in the work at a time stays in the caches of the processor.
_AT_ONCE: Final = 1 << 17
# Elements that differ are picked where they are less than one of so many.
_FEW: Final = 4
# Squares that are smaller may have lost digits.
_TINY: Final = 1e-200


class Distance:
    """How far the elements are apart that have been added."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._space = Space()
        self._differing = self._elements = 0
        self._absolute = self._relative = 0.0
        self._steps = 0 if numbers.has_steps else None
        self._norm = self._norm_before = 0.0
        self._became_nan = self._was_nan = self._infinite = 0

    @property
    def found(self) -> ValueDifference:
        """What was added so far, once there is an element."""
        return ValueDifference(
            self._differing,
            self._elements,
            self._absolute,
            self._relative,
            self._steps,
            self._norm,
            self._norm_before,
            self._became_nan,
            self._was_nan,
            self._infinite,
        )

    def add(self, before: Piece, after: Piece) -> None:
        """Add elements in the same order on both sides."""
        with numpy.errstate(all="ignore"):
            for start in range(0, len(before), _AT_ONCE):
                end = start + _AT_ONCE
                bits = (self._numbers.bits(memoryview(x)[start:end]) for x in (before, after))
                self._add(*bits)

    def _add(self, before: Bits, after: Bits) -> None:
        differ = self._differ(before, after)
        self._elements += len(differ)
        count = int(numpy.count_nonzero(differ))
        self._differing += count
        if count >= len(differ) // _FEW:
            sizes, apart = self._numbers.distances(before, after, self._space)
            self._add_before(sizes)
            self._add_pairs(before, after, sizes, apart)
            return
        self._add_before(self._numbers.sizes(before, self._space))
        if count:
            self._add_picked(before, after, differ)

    def _differ(self, before: Bits, after: Bits) -> Chosen:
        differ: Chosen = self._space.array("differ", len(before), bool)
        numpy.not_equal(before, after, out=differ)
        parts = self._numbers.parts
        return differ if parts == 1 else numpy.logical_or.reduce(differ.reshape(-1, parts), axis=1)

    def _add_before(self, sizes: Reals) -> None:
        self._norm_before = math.hypot(self._norm_before, self._norm_of_finite(sizes))

    def _add_picked(self, before: Bits, after: Bits, chosen: Chosen) -> None:
        parts = self._numbers.parts
        one, other = (bits.reshape(-1, parts)[chosen].reshape(-1) for bits in (before, after))
        self._add_pairs(one, other, *self._numbers.distances(one, other, self._space))

    def _add_pairs(self, before: Bits, after: Bits, sizes: Reals, apart: Reals) -> None:
        if not math.isfinite(apart.max()):
            finite = self._finite(before, after)
            if not finite.all():
                if finite.any():
                    self._add_picked(before, after, finite)
                return
        self._add_finite(sizes, apart)
        if self._steps is not None:
            self._steps = max(self._steps, self._numbers.steps(before, after, self._space))

    def _finite(self, before: Bits, after: Bits) -> Chosen:
        """Return which pairs differ and are finite.

        Others are infinitely far apart, but for those of two NaN.
        """
        other = self._numbers.sizes(after, self._space).copy()
        one = self._numbers.sizes(before, self._space)
        differ: Chosen = self._differ(before, after)
        finite: Chosen = numpy.isfinite(one) & numpy.isfinite(other)
        self._count(differ & ~finite, numpy.isnan(one), numpy.isnan(other))
        return finite & differ

    def _count(self, chosen: Chosen, was_nan: Chosen, is_nan: Chosen) -> None:
        """Count pairs that are not finite by what they are before and after."""
        counts = [
            int(numpy.count_nonzero(chosen & kind))
            for kind in (~was_nan & is_nan, was_nan & ~is_nan, ~was_nan & ~is_nan)
        ]
        self._became_nan += counts[0]
        self._was_nan += counts[1]
        self._infinite += counts[2]
        if any(counts):
            self._absolute = self._relative = self._norm = math.inf

    def _add_finite(self, sizes: Reals, apart: Reals) -> None:
        self._absolute = max(self._absolute, float(apart.max()))
        self._norm = math.hypot(self._norm, self._norm_of_finite(apart))
        apart /= sizes
        relative = float(apart.max())
        if math.isnan(relative):  # zeros before that are zeros after
            relative = float(numpy.nanmax(apart, initial=0.0))
        self._relative = max(self._relative, relative)

    def _norm_of_finite(self, values: Reals) -> float:
        squares = self._space.array("squares", len(values))
        total = float(numpy.multiply(values, values, out=squares).sum())
        if _TINY < total < math.inf:
            return math.sqrt(total)
        return _norm(values[numpy.isfinite(values)])


def _norm(values: Reals) -> float:
    """Return the Euclidean norm, also where squares are too large or too small for a float."""
    largest = float(values.max(initial=0.0))
    if largest == 0 or math.isinf(largest):
        return largest
    return largest * math.sqrt(float(numpy.square(values / largest).sum()))
