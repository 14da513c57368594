"""Numbers as C++ streams print them."""

from __future__ import annotations

import math


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
