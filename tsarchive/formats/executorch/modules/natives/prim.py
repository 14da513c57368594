"""Operators of the ExecuTorch runtime itself: scalars, views, copies, slots of a memory plan.

Scalar operators compute sizes and count loops. ``executorch::*`` are glue between instructions and
kernels.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import LimitError, ScriptError
from tsarchive.formats.executorch.modules.instructions import glue, own
from tsarchive.run.guards import adopt, bounded_out, fixed_out, resize, store, strides_of
from tsarchive.run.natives.conversions import wrap
from tsarchive.run.natives.table import fault

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
        raise fault(ZeroDivisionError, "integer division by zero")


def _whole(compute: Callable[[float], float]) -> Callable[[float], int]:
    def run(a: float) -> int:
        if not math.isfinite(a) or not -_MOST <= compute(a) < _MOST:
            raise ScriptError(f"{a} is no integer of 64 bits")
        return int(compute(a))

    return run


_SCALARS: Final[Mapping[str, Callable[..., Any]]] = {
    "add.Scalar(Scalar a, Scalar b) -> Scalar": _wrap_int64(operator.add),
    "sub.Scalar(Scalar a, Scalar b) -> Scalar": _wrap_int64(operator.sub),
    "mul.Scalar(Scalar a, Scalar b) -> Scalar": _wrap_int64(operator.mul),
    "neg.Scalar(Scalar a) -> Scalar": _wrap_int64(operator.neg),
    "floordiv.Scalar(Scalar a, Scalar b) -> Scalar": _wrap_int64(_floor_divide),
    "floordiv.int(int a, int b) -> int": _wrap_int64(_truncating_divide),
    "truediv.Scalar(Scalar a, Scalar b) -> float": _true_divide,
    "mod.Scalar(int a, int b) -> int": _remainder,
    "mod.int(int a, int b) -> int": _remainder,
    "eq.Scalar(Scalar a, Scalar b) -> bool": operator.eq,
    "ne.Scalar(Scalar a, Scalar b) -> bool": operator.ne,
    "gt.Scalar(Scalar a, Scalar b) -> bool": operator.gt,
    "ge.Scalar(Scalar a, Scalar b) -> bool": operator.ge,
    "lt.Scalar(Scalar a, Scalar b) -> bool": operator.lt,
    "le.Scalar(Scalar a, Scalar b) -> bool": operator.le,
    "ceil.Scalar(float a) -> int": _whole(math.ceil),
    "trunc.Scalar(float a) -> int": _whole(math.trunc),
    # Halves are rounded to even, as in Python.
    "round.Scalar(float a) -> int": _whole(round),
    "sym_float.Scalar(Scalar a) -> float": float,
    "sym_int.Scalar(Scalar a) -> int": (
        lambda a: _whole(math.trunc)(a) if isinstance(a, float) else a
    ),
    "sym_max.Scalar(Scalar a, Scalar b) -> Scalar": lambda a, b: b if a < b else a,
    "sym_min.Scalar(Scalar a, Scalar b) -> Scalar": lambda a, b: b if b < a else a,
    "sym_not.Scalar(bool a) -> bool": operator.not_,
    "sym_ite.Scalar(bool condition, Scalar a, Scalar b) -> Scalar": (
        lambda condition, a, b: a if condition else b
    ),
}

for _schema, _run in _SCALARS.items():
    own(f"executorch_prim::{_schema}")(_run)


MAX_INSTRUCTIONS: Final = 10_000_000
"""The maximum number of instructions of one call, as in the runtime."""

glue("executorch::fixed(Tensor(a) slot) -> Tensor(a)")(fixed_out)
glue("executorch::bounded(Tensor(a) slot) -> Tensor(a)")(bounded_out)
glue("executorch::adopt(Tensor(a!) slot, Tensor written, bool is_fixed) -> ()")(adopt)
glue("executorch::store(Tensor(a!) slot, Tensor value) -> ()")(store)


@glue("executorch::give(Tensor(a!) slot, Tensor value, int[] order) -> ()")
def give(slot: Tensor, value: Tensor, order: Sequence[int]) -> None:
    """Copy an argument of a call into its slot."""
    value = value.detach()
    if tuple(slot.size()) != tuple(value.size()):
        resize(slot, value.size(), strides_of(value.size(), order))
    slot.copy_(value)


@glue("executorch::take(Tensor slot) -> Tensor")
def take(slot: Tensor) -> Tensor:
    """Return a result of a call that later calls do not change."""
    return slot.detach().clone()


@glue("executorch::store_all(Tensor(a!)[] slots, Tensor[] values) -> ()")
def store_all(slots: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy several results into as many slots."""
    if len(slots) != len(values):
        raise ScriptError(f"{len(values)} results stand where {len(slots)} tensors are for them")
    for slot, value in zip(slots, values, strict=True):
        store(slot, value)


@glue("executorch::apart(Tensor slot) -> Tensor")
def apart(slot: Tensor) -> Tensor:
    """Return a resizable copy of a tensor in memory of its own."""
    return slot.new_empty(0)


@glue("executorch::holds(Tensor condition) -> bool")
def holds(condition: Tensor) -> bool:
    """Return whether all elements are true, so that a jump on a tensor is not taken."""
    if not isinstance(condition, Tensor) or condition.dtype is not torch.bool:
        raise ScriptError("a condition is no tensor of bools")
    return bool(condition.all())


@glue("executorch::count(int done, int more) -> int")
def count(done: int, more: int) -> int:
    """Add to the number of executed instructions.

    Raises LimitError beyond the runtime's maximum.
    """
    if done + more > MAX_INSTRUCTIONS:
        raise LimitError(
            "the method does not come to an end", limit=MAX_INSTRUCTIONS,
            hint="It would end after so many instructions in the runtime, too",
        )  # fmt: skip
    return done + more


def _kind_of(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "int"


_CASTS: Final[Mapping[str, Callable[[Any], Any]]] = {"int": int, "float": float, "bool": bool}


@glue("executorch::item(Tensor self, str kind) -> Scalar")
def item(tensor: Tensor, kind: str) -> Any:
    """Return the only element of a tensor of a ``kind`` of numbers."""
    if not isinstance(tensor, Tensor) or _kind_of(tensor.dtype) != kind:
        found = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ScriptError(f"the element of a tensor should be one {kind}, and it holds {found}")
    return _CASTS[kind](tensor.item())


@glue(
    "executorch_prim::et_view(Tensor(b) self, int[] size, bool is_fixed, Tensor(a!) out) "
    "-> Tensor(a!)"
)
def view(tensor: Tensor, size: Sequence[int], is_fixed: bool, out: Tensor) -> Tensor:
    """Make ``out`` a view of a tensor's memory with another size; -1 is inferred."""
    if not tensor.is_contiguous() or tensor.dtype is not out.dtype:
        raise ScriptError("a view is made of a tensor that is not contiguous, or of another type")
    made = tensor.view(tuple(size))
    if is_fixed and made.size() != out.size():
        raise ScriptError(f"a view has the size {list(made.size())}, not {list(out.size())}")
    if made.dim() != out.dim():
        raise ScriptError(f"a view has {made.dim()} dimensions, not {out.dim()}")
    out.set_(made)  # type: ignore[call-overload]  # the stub lacks it
    return out


@own("executorch_prim::et_copy_index.tensor(Tensor(a!) to, Tensor from, int index) -> Tensor(a!)")
def copy_index(to: Tensor, row: Tensor, index: int) -> Tensor:
    """Append a row to those that ``to`` has."""
    if index < 0:
        raise ScriptError(f"there is no row {index}")
    resize(to, (index + 1, *row.size()))
    to[index].copy_(row)
    return to


@own(
    "dim_order_ops::_to_dim_order_copy.out"
    "(Tensor self, bool non_blocking, int[]? dim_order, Tensor(a!) out) -> Tensor(a!)",
    "dim_order_ops::_clone_dim_order.out"
    "(Tensor self, bool non_blocking, int[]? dim_order, Tensor(a!) out) -> Tensor(a!)",
)
def to_dim_order_copy(
    tensor: Tensor, non_blocking: bool, order: Sequence[int] | None, out: Tensor
) -> Tensor:
    """Copy into the element type and dimension order of ``out``."""
    del non_blocking  # CPU copies never wait
    return store(out, tensor, _order(order, out))


@own(
    "dim_order_ops::_empty_dim_order.out"
    "(int[] size, int[]? dim_order, Tensor(a!) out) -> Tensor(a!)"
)
def empty_dim_order(size: Sequence[int], order: Sequence[int] | None, out: Tensor) -> Tensor:
    given = _order(order, out)
    resize(out, size, None if given is None else strides_of(size, given))
    return out


def _order(order: Sequence[int] | None, out: Tensor) -> Sequence[int] | None:
    return order if order or not out.dim() else None


@own(
    "et_copy::_h2d_copy.out(Tensor self, Tensor(a!) out) -> Tensor(a!)",
    "et_copy::_d2h_copy.out(Tensor self, Tensor(a!) out) -> Tensor(a!)",
)
def device_copy(tensor: Tensor, out: Tensor) -> Tensor:
    """Copy between devices, which are one here."""
    return store(out, tensor)
