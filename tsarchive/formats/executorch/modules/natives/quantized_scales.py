"""Dynamic scales and zero points, computed at run time.

They are those of ExecuTorch's kernels, which differ from torch.ao where all values are close to 0.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tsarchive.run.checks import require
from tsarchive.run.guards import store
from tsarchive.run.natives.table import native

__all__: list[str] = []

_LEAST_SCALE: Final = 6.1e-5
_OF_NOTHING: Final = 0.1
_OF_BYTES: Final = (-128, 127)


@native("quantized_decomposed::choose_qparams.Tensor_out")
def choose(
    tensor: Tensor, low: int, high: int, _eps: float, _dtype: int, scale: Tensor, zero_point: Tensor
) -> tuple[Tensor, Tensor]:
    """Choose one scale for a whole tensor."""
    require(low < high, f"there is no range from {low} to {high}")
    require(bool(tensor.numel()), "a tensor without elements has no scale")
    least, greatest = tensor.aminmax()
    found = _chosen(least.reshape(1), greatest.reshape(1), low, high)
    return store(scale, found[0]), store(zero_point, found[1])


@native("quantized_decomposed::choose_qparams_per_token_asymmetric.out")
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
