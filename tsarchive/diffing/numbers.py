"""Elements of tensors as numbers: their sizes, and how far two of them are apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy
from numpy.typing import NDArray

Bits: TypeAlias = NDArray[Any]
"""Elements as unsigned integers, one for each of their parts."""
Reals: TypeAlias = NDArray[numpy.float64]


class Space:
    """Memory for results by name, used again and again: fresh pages cost more than arithmetic."""

    def __init__(self) -> None:
        self._held: dict[str, NDArray[numpy.uint8]] = {}

    def array(self, name: str, count: int, dtype: Any = numpy.float64) -> NDArray[Any]:
        """Return memory for so many results; those of the same name before are gone."""
        nbytes = count * numpy.dtype(dtype).itemsize
        held = self._held.get(name)
        if held is None or len(held) < nbytes:
            held = self._held[name] = numpy.empty(nbytes, numpy.uint8)
        return held[:nbytes].view(dtype)


class Numbers(ABC):
    """Elements of one dtype, each of ``parts`` that ``unit`` holds as unsigned integers."""

    parts = 1
    has_steps = True
    """True if there are more numbers in some ranges than in others of the same width."""

    def __init__(self, unit: str) -> None:
        self.unit = numpy.dtype(unit)

    def bits(self, piece: memoryview) -> Bits:
        """Return the elements in little-endian bytes, part after part."""
        return numpy.frombuffer(piece, self.unit)

    @abstractmethod
    def sizes(self, bits: Bits, space: Space) -> Reals:
        """Return the absolute value of each element; NaN and infinity as they are."""

    @abstractmethod
    def distances(self, before: Bits, after: Bits, space: Space) -> tuple[Reals, Reals]:
        """Return the sizes before, and the absolute difference of each pair.

        Where one of a pair is not finite, neither is the difference.
        """

    @abstractmethod
    def steps(self, before: Bits, after: Bits, space: Space) -> int:
        """Return the largest number of steps between the finite numbers of a pair."""


class Integers(Numbers):
    """Integers; those of quantized tensors, and truth values, are what is stored."""

    has_steps = False

    def __init__(self, size: int, *, is_signed: bool) -> None:
        super().__init__(f"<u{size}")
        self._own = numpy.dtype(f"<{'i' if is_signed else 'u'}{size}")

    def sizes(self, bits: Bits, space: Space) -> Reals:
        found = _as_reals(bits.view(self._own), space, "sizes")
        return numpy.abs(found, out=found)

    def distances(self, before: Bits, after: Bits, space: Space) -> tuple[Reals, Reals]:
        one, other = before.view(self._own), after.view(self._own)
        more, less = (space.array(name, len(one), self._own) for name in ("more", "less"))
        numpy.maximum(one, other, out=more)
        numpy.minimum(one, other, out=less)
        apart = more.view(self.unit)  # in which differences of signed integers fit
        apart -= less.view(self.unit)
        return self.sizes(before, space), _as_reals(apart, space, "apart")

    def steps(self, before: Bits, after: Bits, space: Space) -> int:
        return 0


def _as_reals(numbers: NDArray[Any], space: Space, name: str) -> Reals:
    found = space.array(name, len(numbers))
    numpy.copyto(found, numbers)
    return found


Decode: TypeAlias = Callable[[Bits, Space, str], Reals]
"""Gives the values of floats, in memory of a name."""


class Floats(Numbers):
    """Numbers of a sign, an exponent and a fraction; ``decode`` gives their values."""

    def __init__(self, size: int, decode: Decode, *, has_sign: bool = True) -> None:
        super().__init__(f"<u{size}")
        self._decode = decode
        self._signed = numpy.dtype(f"<i{size}")
        self._positive = self.unit.type((1 << (8 * size - int(has_sign))) - 1)

    def sizes(self, bits: Bits, space: Space) -> Reals:
        found = self._decode(bits, space, "sizes")
        return numpy.abs(found, out=found)

    def distances(self, before: Bits, after: Bits, space: Space) -> tuple[Reals, Reals]:
        sizes, apart = self._decode(before, space, "sizes"), self._decode(after, space, "apart")
        apart -= sizes
        return numpy.abs(sizes, out=sizes), numpy.abs(apart, out=apart)

    def steps(self, before: Bits, after: Bits, space: Space) -> int:
        one, other = (space.array(name, len(before), self.unit) for name in ("one", "other"))
        numpy.bitwise_and(before, self._positive, out=one)
        numpy.bitwise_and(after, self._positive, out=other)
        apart = space.array("steps", len(before), self.unit)
        numpy.bitwise_xor(before, after, out=apart)
        crossing = numpy.flatnonzero(apart > self._positive)
        # Of numbers on both sides of zero the sum is the larger one.
        across = int((one[crossing] + other[crossing]).max(initial=0))
        between = numpy.subtract(one, other, out=apart).view(self._signed)
        return max(across, int(between.max()), -int(between.min()))


class Complexes(Numbers):
    """Pairs of floats. Steps are those of the part that is further apart."""

    parts = 2

    def __init__(self, part: Floats, decode: Decode) -> None:
        super().__init__(part.unit.str)
        self._part, self._decode = part, decode

    def sizes(self, bits: Bits, space: Space) -> Reals:
        return _lengths(self._decode(bits, space, "pairs"))

    def distances(self, before: Bits, after: Bits, space: Space) -> tuple[Reals, Reals]:
        apart = self._decode(after, space, "apart")
        apart -= self._decode(before, space, "pairs")
        return self.sizes(before, space), _lengths(apart)

    def steps(self, before: Bits, after: Bits, space: Space) -> int:
        return self._part.steps(before, after, space)


def _lengths(parts: Reals) -> Reals:
    """Return the length of each pair; NaN where one is, also beside infinity."""
    real, imaginary = parts[::2], parts[1::2]
    found: Reals = numpy.hypot(real, imaginary)
    found[numpy.isnan(real) | numpy.isnan(imaginary)] = numpy.nan
    return found


def _ieee(size: int) -> Decode:
    own = numpy.dtype(f"<f{size}")
    return lambda bits, space, name: _as_reals(bits.view(own), space, name)


def _bfloat16(bits: Bits, space: Space, name: str) -> Reals:
    wide = space.array("wide", len(bits), "<u4")
    numpy.left_shift(bits, numpy.uint32(16), out=wide)
    return _as_reals(wide.view("<f4"), space, name)


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


def _looked_up(table: Reals) -> Decode:
    return lambda bits, space, name: numpy.take(
        table, bits, out=space.array(name, len(bits)), mode="clip"
    )


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
