"""Operators on numbers: arithmetic, comparisons, and the math module of TorchScript.

Ints have 64 bits and wrap silently, with C's shifts and Python's floor division. A static type
"Scalar" leaves the choice of int or float to the run time. Functions of math are C's, without
Python's exceptions.

Not here, because torch's own operators run them: complex overloads, gamma and lgamma (Python has
its own), and the Scalar overloads of functions of one argument (which compute in single precision).
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import (
    INT64_MAX,
    INT64_MIN,
    int64_of_float,
    with_nan_sign,
    wrap,
    wrap32,
)
from tsarchive.run.natives.table import Native, check_items, fault, guarded, native, overload

_HALF_RANGE = 1 << 62


def wrapping(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """``operation`` on 64-bit ints."""

    def call(a: int, b: int) -> int:
        result = operation(a, b)
        return result if INT64_MIN <= result <= INT64_MAX else wrap(result)

    return call


native("aten::gcd.int")(wrapping(math.gcd))
native("aten::__and__.int")(operator.and_)
native("aten::__or__.int")(operator.or_)
native("aten::__xor__.int")(operator.xor)
native("aten::hex")(hex)
native("aten::oct")(oct)
native("aten::bin")(bin)


native("aten::neg.int")(lambda a: -a if a != INT64_MIN else a)
native("prim::abs.int")(lambda a: abs(a) if a != INT64_MIN else a)
# Shifts as those of x86-64: the count counts modulo 64.
native("aten::__lshift__.int")(lambda a, b: wrap(a << (b & 63)))
native("aten::__rshift__.int")(lambda a, b: a >> (b & 63))


def _check_divisible(a: int, b: int, zero: str) -> None:
    """Raise for the divisions without a result; the last one ends torch's process."""
    if b == 0:
        raise fault(ZeroDivisionError, zero)
    if b == -1 and a == INT64_MIN:
        raise ScriptError("the quotient of the smallest int and -1 does not fit in 64 bits")


@native("aten::floordiv.int")
def floor_divide(a: int, b: int) -> int:
    _check_divisible(a, b, "division by 0")
    return a // b


@native("aten::__round_to_zero_floordiv.int")
def truncating_divide(a: int, b: int) -> int:
    _check_divisible(a, b, "division by 0")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


@native("aten::divmod.int")
def divide_with_remainder(a: int, b: int) -> tuple[int, int]:
    _check_divisible(a, b, "ZeroDivisionError: integer division or modulo by zero")
    return divmod(a, b)


@native("aten::remainder.int")
def remainder(a: int, b: int) -> int:
    """Python's remainder, except that torch's sum of divisor and remainder can wrap."""
    _check_divisible(a, b, "integer modulo by zero")
    if -_HALF_RANGE < b < _HALF_RANGE:
        return a % b
    return _c_remainder(wrap(b + _c_remainder(a, b)), b)


def _c_remainder(a: int, b: int) -> int:
    magnitude = abs(a) % abs(b)
    return -magnitude if a < 0 else magnitude


@native("aten::factorial.int")
def factorial(n: int) -> int:
    """n! modulo 2**64, for the n of 32 bits that torch keeps.

    The odd part is multiplied up, then shifted by the number of factors two, the count modulo
    64: beyond 63 twos the product is not zero.
    """
    n = wrap32(n)
    if n < 0:
        raise ScriptError("factorial() not defined for negative values")
    return wrap(_odd_part_of_factorial(n) << ((n - n.bit_count()) & 63))


def _odd_part_of_factorial(n: int) -> int:
    """The product of the odd parts of 1..n modulo 2**64: every odd k counts once per k·2**i."""
    product = total = 1
    for shift in reversed(range(n.bit_length())):
        limit = n >> shift
        for factor in range(((limit >> 1) + 1) | 1, limit + 1, 2):
            product = wrap(product * factor)
        total = wrap(total * product)
    return total


@native("aten::__range_length")
def range_length(low: int, high: int, step: int) -> int:
    """The number of elements of ``range(low, high, step)``, in 64 bits."""
    if step == 0:
        raise ScriptError("range() arg 3 must not be zero")
    distance = high - low if step > 0 else low - high
    if distance <= 0:
        return 0
    return wrap(1 + truncating_divide(wrap(distance - 1), wrap(abs(step))))


native("aten::__derive_index")(lambda index, start, step: wrap(start + index * step))


@native("prim::rangelist")
def range_list(n: int) -> list[int]:
    if n < 0:
        raise fault(ValueError, "vector::reserve")
    check_items(n)
    return list(range(n))


Number = int | float

MIXED = ("int_float", "float_int")
"""Overload names of the operators that take one int and one float."""

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
}
_CHOICES: dict[str, Callable[[Any, Any], Any]] = {
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "prim::min": lambda a, b: b if not a < b else a,  # the second one, where either is nan
    "prim::max": lambda a, b: b if not a > b else a,
}


def by_type(of_ints: Native, of_floats: Native, of_complex: Native) -> Native:
    """An operator on two Scalars: ints stay ints, else both become floats, or complex."""

    def call(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return of_ints(a, b)
        if isinstance(a, complex) or isinstance(b, complex):
            return of_complex(a, b)
        return of_floats(a, b)

    return call


def as_floats(operation: Callable[[float, float], Any]) -> Native:
    """``operation`` after C's conversion of an int to a float, which may round."""

    def call(a: Number, b: Number) -> Any:
        return operation(float(a), float(b))

    return call


def _floor_divide_floats(a: Number, b: Number) -> float:
    """The floor of the rounded quotient, which differs from Python's // (-1.0 // inf is -0.0).

    C's floor is a float, which keeps infinities, nan and the sign of zero.
    """
    value = a / b
    return math.copysign(float(math.floor(value)), value) if math.isfinite(value) else value


def _true_divide(a: Number, b: Number) -> float:
    """C's quotient of two floats; Python's int / int would round once instead of three times."""
    return float(a) / float(b)


def _enter_arithmetic(name: str, of_ints: Native, of_floats: Native) -> None:
    """Enter all overloads but the one of two ints."""
    native(*(f"{name}.{kinds}" for kinds in ("float", *MIXED)))(of_floats)
    native(name)(by_type(of_ints, of_floats, overload(name)))


def _enter_choice(name: str, operation: Callable[[Any, Any], Any], of_complex: Native) -> None:
    """Enter all overloads of an operator that compares."""
    rounding = as_floats(operation)
    native(f"{name}.int", f"{name}.float")(operation)
    native(*(f"{name}.{kinds}" for kinds in MIXED))(rounding)
    native(name)(by_type(operation, rounding, of_complex))


native("aten::add.int")(wrapping(operator.add))
native("aten::sub.int")(wrapping(operator.sub))
native("aten::mul.int")(wrapping(operator.mul))
for _name, _operation in _ARITHMETIC.items():
    _enter_arithmetic(_name, wrapping(_operation), _operation)
for _name, _whole, _fractional in (
    ("aten::floordiv", floor_divide, _floor_divide_floats),
    ("aten::remainder", remainder, lambda a, b: math.fmod(b + math.fmod(a, b), b)),
):
    _enter_arithmetic(_name, _whole, guarded(_fractional, f"{_name}.float"))

for _name, _operation in (("aten::eq", operator.eq), ("aten::ne", operator.ne)):
    _enter_choice(_name, _operation, _operation)
    native(*(f"{_name}.{_type}" for _type in ("bool", "device", "enum")))(_operation)
for _name, _operation in _CHOICES.items():
    _enter_choice(_name, _operation, overload(_name))
native("aten::__and__.bool")(operator.and_)
native("aten::__or__.bool")(operator.or_)
native("aten::__xor__.bool")(operator.ne)
native("aten::__not__")(operator.not_)
native("aten::neg.float")(operator.neg)
native("prim::abs.float")(abs)

_true_division = guarded(_true_divide, "aten::div.float")
native("aten::div.int", "aten::div.float")(_true_division)
native("aten::div")(by_type(_true_division, _true_division, overload("aten::div")))


@native("aten::divmod.float")
def divide_floats_with_remainder(x: float, y: float) -> tuple[float, float]:
    if y == 0:
        raise fault(ZeroDivisionError, "ZeroDivisionError: float divmod()")
    result: tuple[float, float] = _divmod(x, y)
    return result


def _finite_divmod(x: float, y: float) -> tuple[float, float]:
    """Like Python's divmod, but the quotient is not rounded to a whole number."""
    rest = math.fmod(x, y)
    if rest and (x < 0) != (y < 0):
        rest += y
    return (x - rest) / y, rest


_divmod = guarded(_finite_divmod, "aten::divmod.float")


_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "degrees", "erf", "erfc",
    "exp", "expm1", "fabs", "log", "log10", "log1p", "radians", "sin", "sinh", "sqrt", "tan",
    "tanh",
)  # fmt: skip


def _log_to_base(a: Number, b: Number) -> float:
    return math.log(a) / math.log(b)


def _power(a: Number, b: Number) -> float:
    if a == 0 and b < 0:
        raise ScriptError("0.0 cannot be raised to a negative power")
    return math.pow(a, b)


def _arctangent(a: Number, b: Number) -> float:
    """Python gives a nan of its own where an operand is one, C that operand."""
    return float(b + a) if math.isnan(a) or math.isnan(b) else math.atan2(a, b)


_NUMBERS = (".int", ".float", *(f".{kinds}" for kinds in MIXED))
# Functions of C, and the overloads that they run.
_OF_C: tuple[tuple[str, Callable[..., float], tuple[str, ...]], ...] = (
    *((f"aten::{name}", getattr(math, name), (".int", ".float")) for name in _UNARY),
    ("aten::atan2", _arctangent, (*_NUMBERS, ".Scalar_Scalar")),
    ("aten::copysign", math.copysign, (*_NUMBERS, "")),
    ("aten::fmod", math.fmod, (*_NUMBERS, "")),
    ("aten::log", _log_to_base, (".int_int", ".float_float", *_NUMBERS[2:], ".Scalar_Scalar")),
    ("aten::mathremainder", math.remainder, (*_NUMBERS, "")),
    ("aten::pow", _power, (*_NUMBERS, ".int_to_int")),
    ("aten::pow", math.pow, (".Scalar_Scalar",)),
    ("prim::abs", abs, (".complex",)),
)
for _name, _function, _kinds in _OF_C:
    for _kind in _kinds:
        native(_name + _kind)(guarded(_function, _name + _kind))
for _name in ("isnan", "isinf", "isfinite"):
    native(f"aten::{_name}.float")(getattr(math, _name))
    native(f"aten::{_name}.complex")(getattr(cmath, _name))


@native("aten::round.int", "aten::round.float")
def round_half_even(a: Number) -> float:
    """The nearest whole number as a float, ties to even."""
    value = float(a)
    return math.copysign(float(round(value)), value) if math.isfinite(value) else value


# An int is whole, but torch takes it through a float, which may round.
native("aten::floor.int", "aten::ceil.int")(lambda a: int64_of_float(float(a)))


native("aten::floor.float")(lambda a: (whole := _truncated(a)) - (whole > a))
native("aten::ceil.float")(lambda a: (whole := _truncated(a)) + (whole < a))


def _truncated(value: float) -> int:
    """The bounds are those of int64 as floats, so 2**63 passes (and becomes -2**63)."""
    if not -(2.0**63) <= value <= 2.0**63:
        text = with_nan_sign(value, f"{value:f}")
        raise ScriptError(f"Cannot convert float {text} to integer")
    return int64_of_float(value)


native("aten::angle.int", "aten::angle.float")(
    lambda a: math.pi if math.copysign(1.0, a) < 0 else 0.0
)
native("aten::modf")(math.modf)
native("aten::frexp")(math.frexp)


@native("aten::ldexp")
def ldexp(x: float, i: int) -> float:
    """x * 2**i, where i passes through C's 32-bit int."""
    try:
        return math.ldexp(x, wrap32(i))
    except OverflowError:
        return math.copysign(math.inf, x)
