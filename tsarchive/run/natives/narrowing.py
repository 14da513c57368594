"""Conversions between the number types of the archive: int64, int32, float64, float32."""

from __future__ import annotations

import ctypes

INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)

_FLOAT32_DIGITS = 24


def wrap(value: int) -> int:
    """``value`` modulo 2**64, as a signed 64-bit number."""
    rest = value & 0xFFFFFFFFFFFFFFFF
    return rest - 0x10000000000000000 if rest > 0x7FFFFFFFFFFFFFFF else rest


def wrap32(value: int) -> int:
    """``value`` modulo 2**32, as a signed 32-bit number."""
    return ctypes.c_int32(value & 0xFFFFFFFF).value


def int64_of_float(value: float) -> int:
    """C's cast: towards zero; nan and what does not fit give the smallest int (x86-64)."""
    return int(value) if -(2.0**63) <= value < 2.0**63 else INT64_MIN


def float32(value: float) -> float:
    """``value`` rounded to single precision; too large becomes infinite."""
    return ctypes.c_float(value).value


def float32_of_int(value: int) -> float:
    """The single-precision number nearest to ``value``, ties to even.

    Not ``float32(float(value))``, which would round twice.
    """
    excess = value.bit_length() - _FLOAT32_DIGITS
    if excess <= 0:
        return float(value)
    kept, half = value >> excess, 1 << (excess - 1)
    rest = value - (kept << excess)
    if rest > half or (rest == half and kept & 1):
        kept += 1
    return float(kept << excess)
