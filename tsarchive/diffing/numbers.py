"""Elements of tensors as numbers: their sizes, and how far two of them are apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy
from numpy.typing import NDArray

Bits: TypeAlias = NDArray[Any]
"""Elements as unsigned integers, a row for the parts of each where it has several."""
Reals: TypeAlias = NDArray[numpy.float64]


class Numbers(ABC):
    """Elements of one dtype, each of ``parts`` that ``unit`` holds as unsigned integers."""

    parts = 1
    has_steps = True
    """Whether numbers that follow each other differ by more or less than others do."""

    def __init__(self, unit: str) -> None:
        self.unit = numpy.dtype(unit)

    def bits(self, piece: Any) -> Bits:
        """Return the elements in little-endian bytes."""
        found = numpy.frombuffer(piece, self.unit)
        return found if self.parts == 1 else found.reshape(-1, self.parts)

    @abstractmethod
    def sizes(self, bits: Bits) -> Reals:
        """Return the absolute value of each; NaN and infinity as they are."""

    @abstractmethod
    def measured(self, before: Bits, after: Bits) -> tuple[Reals, Reals]:
        """Return the sizes before, and the absolute difference of each pair.

        Where one of a pair is not finite, neither is the difference.
        """

    @abstractmethod
    def ulps(self, before: Bits, after: Bits) -> Bits:
        """Return the number of steps between each pair of finite numbers."""


class Integers(Numbers):
    """Integers; those of quantized tensors, and truth values, are what is stored."""

    has_steps = False

    def __init__(self, size: int, *, is_signed: bool) -> None:
        super().__init__(f"<u{size}")
        self._own = numpy.dtype(f"<{'i' if is_signed else 'u'}{size}")

    def sizes(self, bits: Bits) -> Reals:
        return numpy.abs(bits.view(self._own).astype(numpy.float64))

    def measured(self, before: Bits, after: Bits) -> tuple[Reals, Reals]:
        one, other = before.view(self._own), after.view(self._own)
        more, less = numpy.maximum(one, other), numpy.minimum(one, other)
        # Differences of signed integers fit the unsigned ones.
        apart = more.view(self.unit) - less.view(self.unit)
        return self.sizes(before), apart.astype(numpy.float64)

    def ulps(self, before: Bits, after: Bits) -> Bits:
        return before[:0]


class Floats(Numbers):
    """Numbers of a sign, an exponent and a fraction; ``decode`` gives their values."""

    def __init__(
        self, size: int, decode: Callable[[Bits], Reals], *, has_sign: bool = True
    ) -> None:
        super().__init__(f"<u{size}")
        self._decode = decode
        self._has_sign = has_sign
        self._sign = self.unit.type(1 << (8 * size - 1))

    def sizes(self, bits: Bits) -> Reals:
        values = self._decode(bits)
        return numpy.abs(values, out=values)

    def measured(self, before: Bits, after: Bits) -> tuple[Reals, Reals]:
        sizes, apart = self._decode(before), self._decode(after)
        apart -= sizes
        return numpy.abs(sizes, out=sizes), numpy.abs(apart, out=apart)

    def ulps(self, before: Bits, after: Bits) -> Bits:
        if not self._has_sign:
            return numpy.maximum(before, after) - numpy.minimum(before, after)
        one, other = before & ~self._sign, after & ~self._sign
        apart = numpy.maximum(one, other)
        apart -= numpy.minimum(one, other)
        crossing = ((before ^ after) & self._sign) != 0
        if crossing.any():
            # The sum of two finite numbers without their signs fits.
            numpy.add(one, other, out=apart, where=crossing)
        return apart


class Complexes(Numbers):
    """Pairs of floats. Steps are those of the part that is further apart."""

    parts = 2

    def __init__(self, part: Floats, decode: Callable[[Bits], Reals]) -> None:
        super().__init__(part.unit.str)
        self._part, self._decode = part, decode

    def sizes(self, bits: Bits) -> Reals:
        return _length(self._decode(bits))

    def measured(self, before: Bits, after: Bits) -> tuple[Reals, Reals]:
        one, other = self._decode(before), self._decode(after)
        return _length(one), _length(other - one)

    def ulps(self, before: Bits, after: Bits) -> Bits:
        found: Bits = self._part.ulps(before, after).max(axis=1)
        return found


def _length(pairs: Reals) -> Reals:
    """Return the length of each pair; NaN where one is, also beside infinity."""
    found: Reals = numpy.hypot(pairs[:, 0], pairs[:, 1])
    found[numpy.isnan(pairs).any(axis=1)] = numpy.nan
    return found


def _ieee(size: int) -> Callable[[Bits], Reals]:
    own = numpy.dtype(f"<f{size}")
    return lambda bits: bits.view(own).astype(numpy.float64)


def _bfloat16(bits: Bits) -> Reals:
    wide = bits.astype("<u4")
    wide <<= numpy.uint32(16)
    return wide.view("<f4").astype(numpy.float64)


class _Small(NamedTuple):
    """The layout of floats of one byte. ``finite`` are those without a sign, from 0 on, that are
    numbers, what stands behind them is ``rest``."""

    fraction: int
    bias: int
    finite: int
    rest: float
    has_negative_zero: bool = True

    def table(self) -> Reals:
        own = [self._value(code) for code in range(128)]
        negative = [-value for value in own]
        if not self.has_negative_zero:
            negative[0] = numpy.nan
        return numpy.array(own + negative)

    def _value(self, code: int) -> float:
        if code >= self.finite:
            return self.rest if code == self.finite else numpy.nan
        exponent, fraction = divmod(code, 1 << self.fraction)
        whole = fraction + ((1 << self.fraction) if exponent else 0)
        return float(whole * 2.0 ** (max(exponent, 1) - self.bias - self.fraction))


_SMALL: Final = {
    "float8_e5m2": _Small(2, 15, 0x7C, numpy.inf),
    "float8_e4m3fn": _Small(3, 7, 0x7F, numpy.nan),
    "float8_e5m2fnuz": _Small(2, 16, 0x80, numpy.nan, False),
    "float8_e4m3fnuz": _Small(3, 8, 0x80, numpy.nan, False),
}


def _looked_up(table: Reals) -> Callable[[Bits], Reals]:
    return lambda bits: table[bits]


def _powers() -> Reals:
    """Return the values of ``float8_e8m0fnu``, which are exponents alone."""
    return numpy.array([2.0 ** (code - 127) for code in range(255)] + [numpy.nan])


@cache
def numbers_of(dtype: str) -> Numbers | None:
    """Return how elements of a dtype are read, None for those that are no numbers.

    Several numbers that share a byte are none.
    """
    if dtype in _SMALL:
        return Floats(1, _looked_up(_SMALL[dtype].table()))
    if dtype == "float8_e8m0fnu":
        return Floats(1, _looked_up(_powers()), has_sign=False)
    return _wide().get(dtype)


@cache
def _wide() -> dict[str, Numbers]:
    """Return the dtypes whose names NumPy has, or nearly so."""
    floats = {size: Floats(size, _ieee(size)) for size in (2, 4, 8)}
    found: dict[str, Numbers] = {
        "bfloat16": Floats(2, _bfloat16),
        "bool": Integers(1, is_signed=False),
        "quint8": Integers(1, is_signed=False),
        "qint8": Integers(1, is_signed=True),
        "qint32": Integers(4, is_signed=True),
        "bits8": Integers(1, is_signed=False),
        "bits16": Integers(2, is_signed=False),
    }
    for bits in (*range(1, 9), 16, 32, 64):
        size = max(bits // 8, 1)
        found |= {
            f"int{bits}": Integers(size, is_signed=True),
            f"uint{bits}": Integers(size, is_signed=False),
        }
    for size, numbers in floats.items():
        found |= {
            f"float{8 * size}": numbers,
            f"complex{16 * size}": Complexes(numbers, _ieee(size)),
        }
    return found
