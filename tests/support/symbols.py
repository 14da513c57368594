"""The values of symbolic expressions, in unbounded integers under caps: what their text means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from tsarchive.errors import FormatError, LimitError
from tsarchive.formats.pt2.symbols import FLOAT_FUNCTIONS, Expression, Number, Symbol

Scalar = bool | int | float | Fraction

# Maximum bits of an intermediate integer: sizes have 63, products of a few sizes some hundred.
MAX_BITS = 1 << 14


def evaluate(expression: Expression, symbols: Mapping[str, int]) -> Scalar:
    """Return the value of an expression for these values of its symbols.

    Raises FormatError where there is none (a symbol without value, a division by zero), LimitError
    where numbers grow beyond any size.
    """
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Symbol):
        if expression.name not in symbols:
            raise FormatError(f"the symbol {expression.name!r} has no value")
        return symbols[expression.name]
    arguments = [evaluate(argument, symbols) for argument in expression.arguments]
    try:
        return _normalize(_FUNCTIONS[expression.function](*arguments))
    except ZeroDivisionError:
        message = f"{expression} divides by zero"
    except (ValueError, TypeError, ArithmeticError) as error:
        message = f"{expression} has no value: {error}"
    raise FormatError(message)


def _normalize(value: Any) -> Scalar:
    """Normalize to an integer where the value is one.

    Raises LimitError for one that is too large.
    """
    if isinstance(value, complex):
        raise ValueError("it is complex")
    parts = (value.numerator, value.denominator) if isinstance(value, int | Fraction) else ()
    if any(part.bit_length() > MAX_BITS for part in parts):
        raise LimitError("an expression has a value that is too large", limit=MAX_BITS)
    if isinstance(value, Fraction) and value.denominator == 1:
        return int(value)
    return value  # type: ignore[no-any-return]


def _as_fraction(value: Any) -> Any:
    """Make division exact by turning an integer into a fraction."""
    return Fraction(value) if isinstance(value, int) else value


def _multiply(*factors: Any) -> Any:
    made: Any = 1
    for factor in factors:
        made = _normalize(made * factor)
    return made


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, int) and isinstance(base, int | Fraction):
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits > 1 and bits * abs(exponent) > MAX_BITS:
            raise LimitError("an expression has a power that is too large", limit=MAX_BITS)
        return _as_fraction(base) ** exponent
    return float(base) ** float(exponent)


def _shift_left(value: int, by: int) -> int:
    if by > MAX_BITS:
        raise LimitError("an expression shifts too far", limit=MAX_BITS)
    return value << by


def _floor_quotient(value: Any, divisor: Any) -> int:
    found: int = math.floor(_as_fraction(value) / divisor)
    return found


def _modular_index(base: int, divisor: int, modulus: int) -> int:
    return base // divisor % modulus


def _round_decimal(value: Any, digits: int) -> float:
    if abs(digits) > MAX_BITS:
        raise LimitError("an expression rounds to too many digits", limit=MAX_BITS)
    return round(float(value), digits)


def _is_dense(*sizes_and_strides: Any) -> int:
    """Return 1 for sizes and strides of a non-overlapping and dense tensor, else 0."""
    half, odd = divmod(len(sizes_and_strides), 2)
    if odd:
        raise ValueError("sizes and strides are not of one number")
    sizes, strides = sizes_and_strides[:half], sizes_and_strides[half:]
    expected = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return 0
        expected *= size
    return 1


def _round_to_int(value: Any) -> int:
    found: int = round(value)
    return found


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: sum(terms),
    "Mul": _multiply,
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": lambda base, exponent: float(base) ** float(exponent),
    "Mod": lambda value, divisor: value % divisor,
    "PythonMod": lambda value, divisor: value % divisor,
    "ModularIndexing": _modular_index,
    "FloorDiv": _floor_quotient,
    "CleanDiv": _floor_quotient,
    "CeilDiv": lambda value, divisor: -_floor_quotient(-value, divisor),
    "IntTrueDiv": lambda value, divisor: value / divisor,
    "FloatTrueDiv": lambda value, divisor: float(value) / float(divisor),
    "LShift": _shift_left,
    "RShift": lambda value, by: value >> by,
    "Max": max,
    "Min": min,
    "Abs": abs,
    "floor": math.floor,
    "ceiling": math.ceil,
    "CeilToInt": math.ceil,
    "FloorToInt": math.floor,
    "TruncToInt": math.trunc,
    "TruncToFloat": lambda value: float(math.trunc(value)),
    "RoundToInt": _round_to_int,
    "RoundDecimal": _round_decimal,
    "ToFloat": float,
    "Identity": lambda value: value,
    "Eq": lambda one, other: one == other,
    "Ne": lambda one, other: one != other,
    "Lt": lambda one, other: one < other,
    "Le": lambda one, other: one <= other,
    "Gt": lambda one, other: one > other,
    "Ge": lambda one, other: one >= other,
    "And": lambda *values: all(values),
    "Or": lambda *values: any(values),
    "Not": lambda value: not value,
    "Where": lambda condition, one, other: one if condition else other,
    "IsNonOverlappingAndDenseIndicator": _is_dense,
    "BitwiseAnd": lambda one, other: one & other,
    "BitwiseOr": lambda one, other: one | other,
    "BitwiseXor": lambda one, other: one ^ other,
    **{name: getattr(math, name) for name in FLOAT_FUNCTIONS},
}
