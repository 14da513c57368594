"""Operators of ExecuTorch programs implemented in Python; importing this registers them.

Scalar operators compute sizes and count loops. ``executorch::*`` are glue between instructions and
kernels. Quantized operators are computed as by ExecuTorch's kernels: the element type is that of
the result; the arguments that repeat it are ignored. Scales and zero points that are chosen at run
time differ from those of torch.ao where all values are close to 0.
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
from tsarchive.run.checks import require
from tsarchive.run.guards import adopt, bounded_out, fixed_out, resize, store, strides_of
from tsarchive.run.natives.conversions import wrap
from tsarchive.run.natives.table import fault

_MOST: Final = float(1 << 63)
_CASTS: Final[Mapping[str, Callable[[Any], Any]]] = {"int": int, "float": float, "bool": bool}


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
    tensor: Tensor, _non_blocking: bool, order: Sequence[int] | None, out: Tensor
) -> Tensor:
    """Copy into the element type and dimension order of ``out``; CPU copies never wait."""
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


@own(
    "quantized_decomposed::add.out(Tensor a, float a_scale, int a_zero_point, int a_quant_min, "
    "int a_quant_max, Tensor b, float b_scale, int b_zero_point, int b_quant_min, "
    "int b_quant_max, float out_scale, int out_zero_point, int out_quant_min, int out_quant_max, "
    "Tensor(a!) out) -> Tensor(a!)",
)
def add(
    a: Tensor, a_scale: float, a_zero: int, _a_low: int, _a_high: int,
    b: Tensor, b_scale: float, b_zero: int, _b_low: int, _b_high: int,
    scale: float, zero: int, low: int, high: int, out: Tensor,
) -> Tensor:  # fmt: skip
    one, other = ((v.float() - z) * s for v, z, s in ((a, a_zero, a_scale), (b, b_zero, b_scale)))
    inverse = torch.tensor(scale, dtype=torch.float32).reciprocal()
    return store(out, torch.clamp(torch.round((one + other) * inverse) + zero, low, high))


@own(
    "quantized_decomposed::mixed_mm.out(Tensor input, Tensor weight, Tensor weight_scales, "
    "Tensor? weight_zero_points, Tensor(a!) out) -> Tensor(a!)",
)
def multiply(
    tensor: Tensor, weight: Tensor, scales: Tensor, zeros: Tensor | None, out: Tensor
) -> Tensor:
    """Multiply by an integer matrix, each row of which has a scale."""
    return store(out, tensor @ _scaled(weight, scales, zeros).to(tensor.dtype))


@own(
    "quantized_decomposed::mixed_linear.out(Tensor input, Tensor weight, Tensor weight_scales, "
    "Tensor? weight_zero_points, int? dtype, Tensor(a!) out) -> Tensor(a!)",
)
def linear(
    tensor: Tensor, weight: Tensor, scales: Tensor, zeros: Tensor | None, _dtype: int | None,
    out: Tensor,
) -> Tensor:  # fmt: skip
    """Multiply by an integer weight, each row of which has a scale."""
    return store(out, tensor @ _scaled(weight, scales, zeros).to(tensor.dtype).mT)


def _scaled(weight: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
    require(zeros is None, "zero points of a weight, which the kernels of ExecuTorch do not take")
    fits = weight.dim() > 0 and list(scales.size()) == [weight.size(0)]
    require(fits, f"{list(scales.size())} scales for a weight of {list(weight.size())}")
    return weight.float() * scales.float().unsqueeze(1)


def _float(value: float | Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float32)


def quantize(
    tensor: Tensor, scale: float | Tensor, zero_point: int | Tensor, low: int, high: int,
    _dtype: int, out: Tensor,
) -> Tensor:  # fmt: skip
    found = torch.round(tensor * _float(scale).reciprocal()) + _float(zero_point)
    return store(out, torch.clamp(found, low, high))


def dequantize(
    tensor: Tensor, scale: float | Tensor, zero_point: int | Tensor, *ignored_and_out: Any
) -> Tensor:
    found = (tensor.to(torch.float32) - _float(zero_point)) * _float(scale)
    return store(ignored_and_out[-1], found)


def quantize_per_channel(
    tensor: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int,
    dtype: int, out: Tensor,
) -> Tensor:  # fmt: skip
    shape = _along(tensor, axis)
    scale, zero = (given.reshape(shape) for given in (scales, zero_points))
    return quantize(tensor, scale, zero, low, high, dtype, out)


def dequantize_per_channel(
    tensor: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, *ignored_and_out: Any
) -> Tensor:
    shape = _along(tensor, axis)
    zero = 0 if zero_points is None else zero_points.reshape(shape)
    return dequantize(tensor, scales.reshape(shape), zero, *ignored_and_out)


# Operator -> its function, and its arguments between the tensor and the bounds.
_QUANTIZERS: Final[Mapping[str, tuple[Callable[..., Tensor], str]]] = {
    "quantize_per_tensor.out": (quantize, "float scale, int zero_point"),
    "quantize_per_tensor.Tensor_out": (quantize, "Tensor scale, Tensor zero_point"),
    "quantize_per_token.out": (quantize, "Tensor scales, Tensor zero_points"),
    "quantize_per_channel.out": (
        quantize_per_channel, "Tensor scales, Tensor zero_points, int axis"
    ),
    "dequantize_per_tensor.out": (dequantize, "float scale, int zero_point"),
    "dequantize_per_tensor.Tensor_out": (dequantize, "Tensor scale, Tensor zero_point"),
    "dequantize_per_token.out": (dequantize, "Tensor scales, Tensor zero_points"),
    "dequantize_per_channel.out": (
        dequantize_per_channel, "Tensor scales, Tensor? zero_points, int axis"
    ),
}  # fmt: skip

for _name, (_run, _scales) in _QUANTIZERS.items():
    _type = "int dtype, int? out_dtype" if _name.startswith("de") else "int dtype"
    own(
        f"quantized_decomposed::{_name}(Tensor input, {_scales}, int quant_min, int quant_max, "
        f"{_type}, Tensor(a!) out) -> Tensor(a!)"
    )(_run)


def _along(tensor: Tensor, axis: int) -> list[int]:
    """Return a shape that broadcasts one element per index along a dimension."""
    if not -tensor.dim() <= axis < tensor.dim():
        raise ScriptError(f"there is no dimension {axis} of {tensor.dim()}")
    shape = [1] * tensor.dim()
    shape[axis] = -1
    return shape


_ROWS: Final = 2  # rank of a weight
_BYTE: Final = 0xFF


def _unpacker(bits: int, shifts: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """Return a function that unpacks elements of ``bits`` each from bytes, made non-negative."""

    def unpack(rows: Tensor) -> Tensor:
        held = rows.to(torch.int32) & _BYTE
        parts = [(held >> shift) & ((1 << bits) - 1) for shift in shifts]
        return torch.stack(parts, -1).flatten(1) - (1 << (bits - 1))

    return unpack


_UNPACKED: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "embedding_byte": lambda rows: rows,
    "embedding_4bit": _unpacker(4, (4, 0)),
    "embedding_2bit": _unpacker(2, (0, 2, 4, 6)),
}


def _embedding(unpack: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def run(
        weight: Tensor, scales: Tensor, zeros: Tensor | None, _low: int, _high: int,
        indices: Tensor, *more: Any,
    ) -> Tensor:  # fmt: skip
        require(weight.dim() == _ROWS, "the weight of an embedding has no rows")
        which = indices.flatten()
        rows = unpack(weight.index_select(0, which)).to(torch.float32)
        scale = _of_groups(scales, which, rows)
        count, width = scale.size(1), rows.size(1)
        groups = rows.reshape(len(which), count, width // count)
        if zeros is not None:
            groups = groups - _of_groups(zeros, which, rows)
        found = (groups * scale).reshape(*indices.size(), width)
        return store(more[-1], found)

    return run


def _of_groups(numbers: Tensor, which: Tensor, rows: Tensor) -> Tensor:
    """Gather the per-group numbers of each row; a single group serves all elements."""
    found = numbers.unsqueeze(-1) if numbers.dim() == 1 else numbers
    groups = found.size(1) if found.dim() == _ROWS else 0
    fits = groups > 0 and rows.size(1) % groups == 0
    require(fits, f"{list(numbers.size())} scales for rows of {rows.size(1)} elements")
    return found.index_select(0, which).to(torch.float32).unsqueeze(-1)


for _name, _unpack in _UNPACKED.items():
    for _overload, _more in (("out", ""), ("dtype_out", "int? dtype, ")):
        own(
            f"quantized_decomposed::{_name}.{_overload}(Tensor weight, Tensor weight_scales, "
            "Tensor? weight_zero_points, int weight_quant_min, int weight_quant_max, "
            f"Tensor indices, {_more}Tensor(a!) out) -> Tensor(a!)"
        )(_embedding(_unpack))


_LEAST_SCALE: Final = 6.1e-5
_OF_NOTHING: Final = 0.1
_OF_BYTES: Final = (-128, 127)


@own(
    "quantized_decomposed::choose_qparams.Tensor_out(Tensor input, int quant_min, int quant_max, "
    "float eps, int dtype, Tensor(a!) scale_out, Tensor(b!) zero_point_out) "
    "-> (Tensor(a!), Tensor(b!))",
)
def choose(
    tensor: Tensor, low: int, high: int, _eps: float, _dtype: int, scale: Tensor, zero_point: Tensor
) -> tuple[Tensor, Tensor]:
    """Choose one scale for a whole tensor."""
    require(low < high, f"there is no range from {low} to {high}")
    require(bool(tensor.numel()), "a tensor without elements has no scale")
    least, greatest = tensor.aminmax()
    found = _chosen(least.reshape(1), greatest.reshape(1), low, high)
    return store(scale, found[0]), store(zero_point, found[1])


@own(
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out(Tensor input, int dtype, "
    "Tensor(a!) scale_out, Tensor(b!) zero_point_out) -> (Tensor(a!), Tensor(b!))",
)
def choose_for_tokens(
    tensor: Tensor, _dtype: int, scale: Tensor, zero_point: Tensor
) -> tuple[Tensor, Tensor]:
    """Choose a scale for each row of the last dimension."""
    require(bool(tensor.dim() and tensor.size(-1)), "a row without elements has no scale")
    least, greatest = tensor.aminmax(dim=-1, keepdim=True)
    found = _chosen(least, greatest, *_OF_BYTES)
    return store(scale, found[0]), store(zero_point, found[1])


def _chosen(least: Tensor, greatest: Tensor, low: int, high: int) -> tuple[Tensor, Tensor]:
    least, greatest = least.double().clamp(max=0), greatest.double().clamp(min=0)
    scale = (greatest - least) / (high - low)
    is_nothing = scale.float().reciprocal().isinf()
    scale = torch.where(is_nothing, _OF_NOTHING, scale)
    widened = (_LEAST_SCALE / scale).clamp(min=1)
    scale, least, greatest = scale * widened, least * widened, greatest * widened
    below, above = least / scale, greatest / scale
    # Use the end of the range with the smaller rounding error.
    is_lower = abs(low) + below.abs() < abs(high) + above.abs()
    zero_point = torch.where(is_lower, low - below, high - above)
    return scale, zero_point.clamp(low, high).round()
