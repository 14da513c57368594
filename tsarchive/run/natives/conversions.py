"""Conversions between numbers, and between numbers and strings: int(), float(), bool(), complex().

Number types are those of the archive: int64, int32, float64, float32. Texts are those of C++
streams. Archives hold numbers for dtypes and layouts; the tables of these are here as well.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Mapping
from functools import cache
from itertools import product

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.table import fault, native

# Number, name of the torch.dtype, name of the element type. The numbers never change; a torch
# that lacks a type lacks its row.
_SCALAR_TYPES: tuple[tuple[str, str], ...] = (
    ("uint8", "Byte"), ("int8", "Char"), ("int16", "Short"), ("int32", "Int"), ("int64", "Long"),
    ("float16", "Half"), ("float32", "Float"), ("float64", "Double"), ("complex32", "ComplexHalf"),
    ("complex64", "ComplexFloat"), ("complex128", "ComplexDouble"), ("bool", "Bool"),
    ("qint8", "QInt8"), ("quint8", "QUInt8"), ("qint32", "QInt32"), ("bfloat16", "BFloat16"),
    ("quint4x2", "QUInt4x2"), ("quint2x4", "QUInt2x4"), ("bits1x8", "Bits1x8"),
    ("bits2x4", "Bits2x4"), ("bits4x2", "Bits4x2"), ("bits8", "Bits8"), ("bits16", "Bits16"),
    ("float8_e5m2", "Float8_e5m2"), ("float8_e4m3fn", "Float8_e4m3fn"),
    ("float8_e5m2fnuz", "Float8_e5m2fnuz"), ("float8_e4m3fnuz", "Float8_e4m3fnuz"),
    ("uint16", "UInt16"), ("uint32", "UInt32"), ("uint64", "UInt64"), ("uint1", "UInt1"),
    ("uint2", "UInt2"), ("uint3", "UInt3"), ("uint4", "UInt4"), ("uint5", "UInt5"),
    ("uint6", "UInt6"), ("uint7", "UInt7"), ("int1", "Int1"), ("int2", "Int2"), ("int3", "Int3"),
    ("int4", "Int4"), ("int5", "Int5"), ("int6", "Int6"), ("int7", "Int7"),
    ("float8_e8m0fnu", "Float8_e8m0fnu"), ("float4_e2m1fn_x2", "Float4_e2m1fn_x2"),
)  # fmt: skip

DTYPES: Mapping[int, torch.dtype] = {
    number: getattr(torch, name)
    for number, (name, _) in enumerate(_SCALAR_TYPES)
    if hasattr(torch, name)
}
"""The torch.dtype of every element type number."""

NUMBERS: Mapping[torch.dtype, int] = {dtype: number for number, dtype in DTYPES.items()}
"""The inverse of ``DTYPES``."""

LAYOUTS: Mapping[torch.layout, int] = {
    torch.strided: 0,
    torch.sparse_coo: 1,
    torch.sparse_csr: 2,
    vars(torch)["_mkldnn"]: 3,
    torch.sparse_csc: 4,
    torch.sparse_bsr: 5,
    torch.sparse_bsc: 6,
    torch.jagged: 7,
}
"""The number of every layout."""


def to_dtype(number: int | None) -> torch.dtype | None:
    return None if number is None else dtype_of(number)


def dtype_of(number: int) -> torch.dtype:
    """The torch.dtype of an element type number. Raises ScriptError for unknown numbers."""
    dtype = DTYPES.get(number)
    if dtype is None:
        raise ScriptError(f"{number} is not the number of an element type")
    return dtype


def scalar_type_name(dtype: torch.dtype) -> str:
    """torch's C++ name of an element type: ``Float``, ``Long``, ``BFloat16``."""
    return _SCALAR_TYPES[NUMBERS[dtype]][1]


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


def python_slice(start: int | None, end: int | None, step: int) -> slice:
    """The Python slice with the meaning of TorchScript's bounds.

    The largest int stands for a bound left out.
    Raises ScriptError for a step of zero and for the smallest int.
    """
    if step == 0:
        raise ScriptError("List slice should have non-zero step")
    if step == INT64_MIN:
        raise ScriptError("List slice step is out of bounds")
    return slice(None if start == INT64_MAX else start, None if end == INT64_MAX else end, step)


def with_nan_sign(value: float, text: str) -> str:
    """``text`` of ``value``, with the sign that C prints and Python leaves out on a nan."""
    return f"-{text}" if math.isnan(value) and math.copysign(1.0, value) < 0 else text


def format_float(value: float) -> str:
    """17 significant digits, or the integer and a point where int64 holds the value.

    Zero loses its sign.
    """
    if -(2.0**63) <= value < 2.0**63 and value == math.floor(value):
        return f"{int(value)}."
    return with_nan_sign(value, f"{value:.17g}")


def format_complex(value: complex) -> str:
    """Both parts as floats; a nan counts as negative in the imaginary part."""
    sign = "+" if value.imag >= 0 else "-"
    return f"{format_float(value.real)}{sign}{format_float(abs(value.imag))}j"


_SPACE = r"[ \t\n\v\f\r]*"
_INTEGER = _SPACE + r"([+-]?)(?=[0-9])0*([0-9]*)"
_FLOAT = (
    rf"(?ai){_SPACE}([+-]?)(?:"
    r"(?P<word>inf(?:inity)?|nan)(?:(?<=nan)\([A-Za-z0-9_]*\))?"
    r"|0x(?P<hex>(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?)"
    r"|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?))"
)
_TOO_MANY_DIGITS = 20
_SMALLEST_NORMAL = sys.float_info.min

native("aten::Int.bool")(int)
native("aten::Int.float")(int64_of_float)
native("aten::Float.bool")(float)
native("aten::Float.int")(float32_of_int)  # torch converts through C's float here, and only here
native("aten::Bool.int", "aten::Bool.float")(bool)


# Ints pass; floats and complex numbers must fit into C's 32-bit int.
native("aten::Int.Scalar")(lambda a: int(a) if isinstance(a, int) else checked_int(a, 32, "int"))


def checked_int(value: complex, bits: int, target: str) -> int:
    """``value`` towards zero, which must fit; ``target`` names the type in the message.

    The bounds are those of the type as floats. So 2**63 passed for 64 bits, and became -2**63,
    until torch 2.14. Raises ScriptError for nan, for infinities, for an imaginary part and for
    what is too large.
    """
    real, bound = value.real, 1 << (bits - 1)
    is_beyond = real == 2.0**63 and not _takes_its_bound()
    if value.imag != 0 or is_beyond or not float(-bound) <= real <= float(bound - 1):
        raise ScriptError(f"value cannot be converted to type {target} without overflow")
    return int64_of_float(real)


@cache
def _takes_its_bound() -> bool:
    """Return whether this torch takes 2**63 for an int of 64 bits."""
    try:
        torch.full((), 2.0**63, dtype=torch.int64)
    except RuntimeError:
        return False
    return True


@native("aten::Int.str")
def int_of_string(a: str) -> int:
    """C's decimal integer, white space before it allowed and nothing after it."""
    match = re.match(_INTEGER, a)
    if match is None:
        raise fault(ValueError, "stoll")
    sign, digits = match.groups()
    value = int(f"{sign}0{digits}") if len(digits) < _TOO_MANY_DIGITS else INT64_MAX + 1
    if not INT64_MIN <= value <= INT64_MAX:
        raise fault(IndexError, "stoll")
    if match.end() != len(a):
        raise fault(ValueError, f"invalid literal for int() with base 10: '{a}'")
    return value


def _not_bool(a: complex) -> complex:
    if isinstance(a, bool):
        raise ScriptError("a bool stands where a number is expected")
    return a


native("aten::Float.Scalar")(lambda a: float(_not_bool(a).real))
native("aten::Complex.Scalar")(lambda a: complex(_not_bool(a)))


@native("aten::Float.str")
def float_of_string(a: str) -> float:
    """C's strtod on the whole string: hexadecimal, inf and nan too, no underscores.

    Too large and below the normal range are errors, as in torch.
    """
    match = re.match(_FLOAT, a)
    if match is None:
        raise fault(ValueError, "stod")
    value = _parsed(match)
    if match.end() != len(a):
        raise fault(ValueError, f"could not convert string to float: '{a}'")
    return value


def _parsed(match: re.Match[str]) -> float:
    sign = -1.0 if match[1] == "-" else 1.0
    if match["word"]:
        return math.copysign(float(match["word"]), sign)
    digits = match["hex"] or match["decimal"]
    try:
        value = float.fromhex(digits) if match["hex"] else float(digits)
    except OverflowError:
        value = math.inf
    mantissa = re.split("p" if match["hex"] else "e", digits, flags=re.IGNORECASE)[0]
    if math.isinf(value) or (value < _SMALLEST_NORMAL and mantissa.strip("0.")):
        raise fault(IndexError, "stod")
    return math.copysign(value, sign)


@native(*(f"aten::Complex.{x}_{y}" for x, y in product(("int", "float", "bool"), repeat=2)))
def _complex(x: float, y: float) -> complex:
    """A complex number of its parts; ints among them pass through C's 32-bit int."""
    return complex(*(wrap32(part) if isinstance(part, int) else part for part in (x, y)))
