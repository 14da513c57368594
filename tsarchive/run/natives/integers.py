"""Operators on ints: 64 bits, wrapping silently, C's shifts, Python's floor division."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from tsarchive.errors import ScriptError
from tsarchive.run.natives.bounds import check_items
from tsarchive.run.natives.faults import division_fault, value_fault
from tsarchive.run.natives.narrowing import INT64_MAX, INT64_MIN, wrap, wrap32
from tsarchive.run.natives.table import native

_HALF_RANGE = 1 << 62
_WRAPPING: dict[str, Callable[[int, int], int]] = {
    "aten::add.int": operator.add,
    "aten::sub.int": operator.sub,
    "aten::mul.int": operator.mul,
    "aten::gcd.int": math.gcd,
}
_BITWISE: dict[str, Callable[[int, int], int]] = {
    "aten::__and__.int": operator.and_,
    "aten::__or__.int": operator.or_,
    "aten::__xor__.int": operator.xor,
}


def wrapping(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """``operation`` on 64-bit ints."""

    def call(a: int, b: int) -> int:
        result = operation(a, b)
        return result if INT64_MIN <= result <= INT64_MAX else wrap(result)

    return call


for _key, _operation in _WRAPPING.items():
    native(_key)(wrapping(_operation))
for _key, _operation in _BITWISE.items():
    native(_key)(_operation)


@native("aten::neg.int")
def negate(a: int) -> int:
    return -a if a != INT64_MIN else a


@native("prim::abs.int")
def absolute(a: int) -> int:
    return abs(a) if a != INT64_MIN else a


@native("aten::__lshift__.int")
def shift_left(a: int, b: int) -> int:
    """Shift as x86-64 does: the count counts modulo 64."""
    return wrap(a << (b & 63))


@native("aten::__rshift__.int")
def shift_right(a: int, b: int) -> int:
    """Arithmetic shift as x86-64 does: the count counts modulo 64."""
    return a >> (b & 63)


def _check_divisible(a: int, b: int, zero: str) -> None:
    """Raise for the divisions without a result; the last one ends torch's process."""
    if b == 0:
        raise division_fault(zero)
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
    return shift_left(_odd_part_of_factorial(n), n - n.bit_count())


def _odd_part_of_factorial(n: int) -> int:
    """The product of the odd parts of 1..n modulo 2**64: every odd k counts once per k·2**i."""
    product = total = 1
    for shift in reversed(range(n.bit_length())):
        limit = n >> shift
        for factor in range(((limit >> 1) + 1) | 1, limit + 1, 2):
            product = wrap(product * factor)
        total = wrap(total * product)
    return total


@native("aten::hex")
def hexadecimal(i: int) -> str:
    return hex(i)


@native("aten::oct")
def octal(i: int) -> str:
    return oct(i)


@native("aten::bin")
def binary(i: int) -> str:
    return bin(i)


@native("aten::__range_length")
def range_length(low: int, high: int, step: int) -> int:
    """The number of elements of ``range(low, high, step)``, in 64 bits."""
    if step == 0:
        raise ScriptError("range() arg 3 must not be zero")
    distance = high - low if step > 0 else low - high
    if distance <= 0:
        return 0
    return wrap(1 + truncating_divide(wrap(distance - 1), wrap(abs(step))))


@native("aten::__derive_index")
def derive_index(index: int, start: int, step: int) -> int:
    return wrap(start + index * step)


@native("prim::rangelist")
def range_list(n: int) -> list[int]:
    if n < 0:
        raise value_fault("vector::reserve")
    check_items(n)
    return list(range(n))
