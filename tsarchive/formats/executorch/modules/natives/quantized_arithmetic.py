"""Sums and products with a quantized operand, computed as by ExecuTorch's kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from tsarchive.run.checks import require
from tsarchive.run.guards import store
from tsarchive.run.natives.table import native

__all__: list[str] = []


@native("quantized_decomposed::add.out")
def add(
    a: Tensor, a_scale: float, a_zero: int, _a_low: int, _a_high: int,
    b: Tensor, b_scale: float, b_zero: int, _b_low: int, _b_high: int,
    scale: float, zero: int, low: int, high: int, out: Tensor,
) -> Tensor:  # fmt: skip
    one, other = ((v.float() - z) * s for v, z, s in ((a, a_zero, a_scale), (b, b_zero, b_scale)))
    inverse = torch.tensor(scale, dtype=torch.float32).reciprocal()
    return store(out, torch.clamp(torch.round((one + other) * inverse) + zero, low, high))


@native("quantized_decomposed::mixed_mm.out")
def multiply(
    tensor: Tensor, weight: Tensor, scales: Tensor, zeros: Tensor | None, out: Tensor
) -> Tensor:
    """Multiply by an integer matrix, each row of which has a scale."""
    return store(out, tensor @ _scaled(weight, scales, zeros).to(tensor.dtype))


@native("quantized_decomposed::mixed_linear.out")
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
