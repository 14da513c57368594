"""Quantized operators, computed as by ExecuTorch's kernels.

The element type is that of the result; the arguments that repeat it are ignored. Scales and zero
points that are chosen at run time differ from those of torch.ao where all values are close to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError
from tsarchive.formats.executorch.modules.instructions import own
from tsarchive.run.checks import require
from tsarchive.run.guards import store


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


def _quantized(
    tensor: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, out: Tensor
) -> Tensor:
    found = torch.round(tensor * scale.reciprocal()) + zero
    return store(out, torch.clamp(found, low, high))


def _dequantized(tensor: Tensor, scale: Tensor, zero: Tensor, out: Tensor) -> Tensor:
    return store(out, (tensor.to(torch.float32) - zero) * scale)


def _float(value: float | Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float32)


def quantize(
    tensor: Tensor, scale: float | Tensor, zero_point: int | Tensor, low: int, high: int,
    _dtype: int, out: Tensor,
) -> Tensor:  # fmt: skip
    return _quantized(tensor, _float(scale), _float(zero_point), low, high, out)


def dequantize(
    tensor: Tensor, scale: float | Tensor, zero_point: int | Tensor, *ignored_and_out: Any
) -> Tensor:
    return _dequantized(tensor, _float(scale), _float(zero_point), ignored_and_out[-1])


def quantize_per_channel(
    tensor: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int,
    _dtype: int, out: Tensor,
) -> Tensor:  # fmt: skip
    shape = _along(tensor, axis)
    scale, zero = (_float(given).reshape(shape) for given in (scales, zero_points))
    return _quantized(tensor, scale, zero, low, high, out)


def dequantize_per_channel(
    tensor: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, *ignored_and_out: Any
) -> Tensor:
    shape = _along(tensor, axis)
    zero = torch.zeros(()) if zero_points is None else _float(zero_points).reshape(shape)
    return _dequantized(tensor, _float(scales).reshape(shape), zero, ignored_and_out[-1])


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
