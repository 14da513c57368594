"""Quantization and dequantization into given tensors, as by ExecuTorch's kernels.

The element type is that of the result; the arguments that repeat it are ignored.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError
from tsarchive.run.guards import store
from tsarchive.run.natives.table import native

__all__: list[str] = []

_PREFIX: Final = "quantized_decomposed::"


def _quantized(
    tensor: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, out: Tensor
) -> Tensor:
    found = torch.round(tensor * scale.reciprocal()) + zero
    return store(out, torch.clamp(found, low, high))


def _dequantized(tensor: Tensor, scale: Tensor, zero: Tensor, out: Tensor) -> Tensor:
    return store(out, (tensor.to(torch.float32) - zero) * scale)


def _float(value: float | Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float32)


@native(
    f"{_PREFIX}quantize_per_tensor.out",
    f"{_PREFIX}quantize_per_tensor.Tensor_out",
    f"{_PREFIX}quantize_per_token.out",
)
def quantize(
    tensor: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor,
    low: int,
    high: int,
    _dtype: int,
    out: Tensor,
) -> Tensor:
    return _quantized(tensor, _float(scale), _float(zero_point), low, high, out)


@native(f"{_PREFIX}dequantize_per_tensor.out", f"{_PREFIX}dequantize_per_tensor.Tensor_out",
        f"{_PREFIX}dequantize_per_token.out")  # fmt: skip
def dequantize(
    tensor: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor,
    _low: int,
    _high: int,
    _dtype: int,
    _out_dtype: int | None,
    out: Tensor,
) -> Tensor:
    return _dequantized(tensor, _float(scale), _float(zero_point), out)


@native(f"{_PREFIX}quantize_per_channel.out")
def quantize_per_channel(
    tensor: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    low: int,
    high: int,
    _dtype: int,
    out: Tensor,
) -> Tensor:
    shape = _along(tensor, axis)
    scale, zero = (_float(given).reshape(shape) for given in (scales, zero_points))
    return _quantized(tensor, scale, zero, low, high, out)


@native(f"{_PREFIX}dequantize_per_channel.out")
def dequantize_per_channel(
    tensor: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    _low: int,
    _high: int,
    _dtype: int,
    _out_dtype: int | None,
    out: Tensor,
) -> Tensor:
    shape = _along(tensor, axis)
    zero = torch.zeros(()) if zero_points is None else _float(zero_points).reshape(shape)
    return _dequantized(tensor, _float(scales).reshape(shape), zero, out)


def _along(tensor: Tensor, axis: int) -> list[int]:
    """Return a shape that broadcasts one element per index along a dimension."""
    if not -tensor.dim() <= axis < tensor.dim():
        raise ScriptError(f"there is no dimension {axis} of {tensor.dim()}")
    shape = [1] * tensor.dim()
    shape[axis] = -1
    return shape
