"""The math module of TorchScript: C's functions, without Python's exceptions.

gamma and lgamma are not here: Python has its own, torch takes C's. Neither are the complex and
the Scalar overloads of the functions of one argument (the latter compute in single precision).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

from tsarchive.errors import ScriptError
from tsarchive.run.natives.delegation import guarded
from tsarchive.run.natives.narrowing import int64_of_float, wrap32
from tsarchive.run.natives.number_format import with_nan_sign
from tsarchive.run.natives.scalars import MIXED, Number
from tsarchive.run.natives.table import native

__all__: list[str] = []

_UNARY: tuple[Callable[[float], float], ...] = (
    math.acos,
    math.acosh,
    math.asin,
    math.asinh,
    math.atan,
    math.atanh,
    math.cos,
    math.cosh,
    math.degrees,
    math.erf,
    math.erfc,
    math.exp,
    math.expm1,
    math.fabs,
    math.log,
    math.log10,
    math.log1p,
    math.radians,
    math.sin,
    math.sinh,
    math.sqrt,
    math.tan,
    math.tanh,
)
_TESTS: dict[str, tuple[Callable[[float], bool], Callable[[complex], bool]]] = {
    "aten::isnan": (math.isnan, cmath.isnan),
    "aten::isinf": (math.isinf, cmath.isinf),
    "aten::isfinite": (math.isfinite, cmath.isfinite),
}


def _log_to_base(a: Number, b: Number) -> float:
    return math.log(a) / math.log(b)


def _power(a: Number, b: Number) -> float:
    if a == 0 and b < 0:
        raise ScriptError("0.0 cannot be raised to a negative power")
    return math.pow(a, b)


def _arctangent(a: Number, b: Number) -> float:
    """Python gives a nan of its own where an operand is one, C that operand."""
    return float(b + a) if math.isnan(a) or math.isnan(b) else math.atan2(a, b)


_BINARY: dict[str, Callable[[Number, Number], float]] = {
    "aten::atan2": _arctangent,
    "aten::copysign": math.copysign,
    "aten::fmod": math.fmod,
    "aten::mathremainder": math.remainder,
    "aten::pow": _power,
}

for _function in _UNARY:
    for _type in ("int", "float"):
        _key = f"aten::{_function.__name__}.{_type}"
        native(_key)(guarded(_function, _key))

for _name, (_of_float, _of_complex) in _TESTS.items():
    native(f"{_name}.float")(_of_float)
    native(f"{_name}.complex")(_of_complex)

for _name, _binary in _BINARY.items():
    for _type in ("int", "float", *MIXED):
        _key = f"{_name}.{_type}"
        native(_key)(guarded(_binary, _key))

for _type in ("int_int", "float_float", *MIXED):
    _key = f"aten::log.{_type}"
    native(_key)(guarded(_log_to_base, _key))

for _key, _binary in {
    "aten::atan2.Scalar_Scalar": _arctangent,
    "aten::copysign": math.copysign,
    "aten::fmod": math.fmod,
    "aten::log.Scalar_Scalar": _log_to_base,
    "aten::mathremainder": math.remainder,
    "aten::pow.Scalar_Scalar": math.pow,
}.items():
    native(_key)(guarded(_binary, _key))

native("aten::pow.int_to_int")(guarded(_power, "aten::pow.int_to_int"))


@native("aten::round.int", "aten::round.float")
def round_half_even(a: Number) -> float:
    """The nearest whole number as a float, ties to even."""
    value = float(a)
    return math.copysign(float(round(value)), value) if math.isfinite(value) else value


@native("aten::floor.int", "aten::ceil.int")
def through_float(a: int) -> int:
    """An int is whole, but torch takes it through a float, which may round."""
    return int64_of_float(float(a))


@native("aten::floor.float")
def floor(a: float) -> int:
    truncated = _truncated(a)
    return truncated - (truncated > a)


@native("aten::ceil.float")
def ceil(a: float) -> int:
    truncated = _truncated(a)
    return truncated + (truncated < a)


def _truncated(value: float) -> int:
    """The bounds are those of int64 as floats, so 2**63 passes (and becomes -2**63)."""
    if not -(2.0**63) <= value <= 2.0**63:
        text = with_nan_sign(value, f"{value:f}")
        raise ScriptError(f"Cannot convert float {text} to integer")
    return int64_of_float(value)


@native("aten::angle.int", "aten::angle.float")
def angle(a: Number) -> float:
    return math.pi if math.copysign(1.0, a) < 0 else 0.0


@native("aten::modf")
def modf(a: float) -> tuple[float, float]:
    """The fractional and the whole part, both with the sign of ``a``."""
    return math.modf(a)


@native("aten::frexp")
def frexp(a: float) -> tuple[float, int]:
    """The mantissa in [0.5, 1) and the exponent of two."""
    return math.frexp(a)


@native("aten::ldexp")
def ldexp(x: float, i: int) -> float:
    """x * 2**i, where i passes through C's 32-bit int."""
    try:
        return math.ldexp(x, wrap32(i))
    except OverflowError:
        return math.copysign(math.inf, x)
