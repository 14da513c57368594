"""Arithmetic, comparison, minimum and maximum of bool, int and float operands.

A static type "Scalar" leaves the choice of int or float to the run time. Complex overloads are
not here: torch's own operators run them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tsarchive.run.natives.delegation import guarded, overload
from tsarchive.run.natives.faults import division_fault
from tsarchive.run.natives.integers import floor_divide, remainder, wrapping
from tsarchive.run.natives.table import Native, native

Number = int | float

MIXED = ("int_float", "float_int")
"""Overload names of the operators that take one int and one float."""

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
}
_EQUALITIES: dict[str, Callable[[Any, Any], bool]] = {
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
}
_BOOLEAN: dict[str, Callable[[bool, bool], bool]] = {
    "aten::__and__.bool": operator.and_,
    "aten::__or__.bool": operator.or_,
    "aten::__xor__.bool": operator.ne,
    "aten::eq.bool": operator.eq,
    "aten::ne.bool": operator.ne,
    "aten::eq.device": operator.eq,
    "aten::ne.device": operator.ne,
    "aten::eq.enum": operator.eq,
    "aten::ne.enum": operator.ne,
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


def _smaller(a: Number, b: Number) -> Number:
    return a if a < b else b


def _larger(a: Number, b: Number) -> Number:
    return a if a > b else b


def _floor(value: float) -> float:
    """C's floor: a float, which keeps infinities, nan and the sign of zero."""
    return math.copysign(float(math.floor(value)), value) if math.isfinite(value) else value


def _floor_divide_floats(a: Number, b: Number) -> float:
    """The floor of the rounded quotient, which differs from Python's // (-1.0 // inf is -0.0)."""
    return _floor(a / b)


def _remainder_of_floats(a: Number, b: Number) -> float:
    return math.fmod(b + math.fmod(a, b), b)


def _true_divide(a: Number, b: Number) -> float:
    """C's quotient of two floats; Python's int / int would round once instead of three times."""
    return float(a) / float(b)


def _enter_arithmetic(name: str, of_ints: Native, of_floats: Native) -> None:
    """Enter all overloads but the one of two ints."""
    for overload_name in ("float", *MIXED):
        native(f"{name}.{overload_name}")(of_floats)
    native(name)(by_type(of_ints, of_floats, overload(name)))


def _enter_choice(name: str, operation: Callable[[Any, Any], Any], of_complex: Native) -> None:
    """Enter all overloads of an operator that compares."""
    rounding = as_floats(operation)
    native(f"{name}.int", f"{name}.float")(operation)
    for overload_name in MIXED:
        native(f"{name}.{overload_name}")(rounding)
    native(name)(by_type(operation, rounding, of_complex))


for _name, _operation in _ARITHMETIC.items():
    _enter_arithmetic(_name, wrapping(_operation), _operation)
for _name, _whole, _fractional in (
    ("aten::floordiv", floor_divide, _floor_divide_floats),
    ("aten::remainder", remainder, _remainder_of_floats),
):
    _enter_arithmetic(_name, _whole, guarded(_fractional, f"{_name}.float"))

for _name, _operation in _EQUALITIES.items():
    _enter_choice(_name, _operation, _operation)
for _name, _operation in {**_ORDERS, "prim::min": _smaller, "prim::max": _larger}.items():
    _enter_choice(_name, _operation, overload(_name))

for _name, _operation in _BOOLEAN.items():
    native(_name)(_operation)

_true_division = guarded(_true_divide, "aten::div.float")
native("aten::div.int", "aten::div.float")(_true_division)
native("aten::div")(by_type(_true_division, _true_division, overload("aten::div")))
native("prim::abs.complex")(guarded(abs, "prim::abs.complex"))


@native("aten::__not__")
def logical_not(a: bool) -> bool:
    return not a


@native("aten::neg.float")
def negate(a: float) -> float:
    return -a


@native("prim::abs.float")
def absolute(a: float) -> float:
    return abs(a)


@native("aten::divmod.float")
def divide_with_remainder(x: float, y: float) -> tuple[float, float]:
    if y == 0:
        raise division_fault("ZeroDivisionError: float divmod()")
    result: tuple[float, float] = _divmod(x, y)
    return result


def _finite_divmod(x: float, y: float) -> tuple[float, float]:
    """Like Python's divmod, but the quotient is not rounded to a whole number."""
    rest = math.fmod(x, y)
    if rest and (x < 0) != (y < 0):
        rest += y
    return (x - rest) / y, rest


_divmod = guarded(_finite_divmod, "aten::divmod.float")
