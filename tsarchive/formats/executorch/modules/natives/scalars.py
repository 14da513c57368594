"""Scalar operators of ExecuTorch: computed sizes, loop counters."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import wrap
from tsarchive.run.natives.table import division_fault, native

__all__: list[str] = []

_MOST: Final = float(1 << 63)


def _wrap_int64(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap results around to 64 bit integers."""

    def run(*numbers: float) -> Any:
        found = compute(*numbers)
        return wrap(found) if isinstance(found, int) else found

    return run


def _floor_divide(a: float, b: float) -> float:
    """Divide as Python does; where the divisor is 0.0, as C does."""
    if isinstance(a, int) and isinstance(b, int):
        _check_divisor(b)
        return a // b
    found = _true_divide(a, b)
    return float(math.floor(found)) if math.isfinite(found) else found


def _true_divide(a: float, b: float) -> float:
    """Divide as C does, without an error for a zero divisor."""
    if b:
        return float(a) / float(b)
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _truncating_divide(a: int, b: int) -> int:
    _check_divisor(b)
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def _remainder(a: int, b: int) -> int:
    """Return the remainder with the sign of the dividend, as in C."""
    _check_divisor(b)
    found = abs(a) % abs(b)
    return -found if a < 0 else found


def _check_divisor(b: int) -> None:
    if not b:
        raise division_fault("integer division by zero")


def _whole(compute: Callable[[float], float]) -> Callable[[float], int]:
    def run(a: float) -> int:
        if not math.isfinite(a) or not -_MOST <= compute(a) < _MOST:
            raise ScriptError(f"{a} is no integer of 64 bits")
        return int(compute(a))

    return run


def _least(a: float, b: float) -> float:
    return b if b < a else a


def _greatest(a: float, b: float) -> float:
    return b if a < b else a


def _chosen(condition: bool, first: Any, second: Any) -> Any:
    return first if condition else second


_OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    "add.Scalar": _wrap_int64(operator.add),
    "sub.Scalar": _wrap_int64(operator.sub),
    "mul.Scalar": _wrap_int64(operator.mul),
    "neg.Scalar": _wrap_int64(operator.neg),
    "floordiv.Scalar": _wrap_int64(_floor_divide),
    "floordiv.int": _wrap_int64(_truncating_divide),
    "truediv.Scalar": _true_divide,
    "mod.Scalar": _remainder,
    "mod.int": _remainder,
    "eq.Scalar": operator.eq,
    "ne.Scalar": operator.ne,
    "gt.Scalar": operator.gt,
    "ge.Scalar": operator.ge,
    "lt.Scalar": operator.lt,
    "le.Scalar": operator.le,
    "ceil.Scalar": _whole(math.ceil),
    "trunc.Scalar": _whole(math.trunc),
    # Halves are rounded to even, as in Python.
    "round.Scalar": _whole(round),
    "sym_float.Scalar": float,
    "sym_int.Scalar": lambda a: _whole(math.trunc)(a) if isinstance(a, float) else a,
    "sym_max.Scalar": _greatest,
    "sym_min.Scalar": _least,
    "sym_not.Scalar": operator.not_,
    "sym_ite.Scalar": _chosen,
}

for _name, _run in _OPERATORS.items():
    native(f"executorch_prim::{_name}")(_run)
