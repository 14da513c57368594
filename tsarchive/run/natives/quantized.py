"""Quantized operators as archives of torch 1.4 and 1.5 call them.

Packed weights were tensors then, and are objects of a class written in C++ today. Slots and lists
of old code that are declared to hold tensors hold these objects; here stand the operators that
are given them. Convolutions had arguments that belong to the packed weights today.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tsarchive.run.natives.table import native

__all__: list[str] = []

_quantized = torch.ops.quantized
_lstm = torch.ops.aten.quantized_lstm
_HALF = 5  # the number of float16 in schemas


@native("quantized::linear_unpack.legacy")
def linear_unpack(packed: Any) -> Any:
    return _quantized.linear_unpack.default(packed)


@native("quantized::linear_unpack_fp16.legacy")
def linear_unpack_half(packed: Any) -> Any:
    return _quantized.linear_unpack_fp16.default(packed)


def _is_packed(params: list[Any]) -> bool:
    return all(isinstance(param, torch.ScriptObject) for param in params)


def _cells(params: list[Any], dtype: int | None) -> list[Any]:
    """The parameters of each layer and direction: packed weights of input and hidden state."""
    pairs = zip(params[::2], params[1::2], strict=True)
    if dtype == _HALF:
        return [_quantized.make_quantized_cell_params_fp16(*pair) for pair in pairs]
    return [
        _quantized.make_quantized_cell_params_dynamic(*pair, *map(_bias, pair), False)
        for pair in pairs
    ]


def _bias(packed: Any) -> Tensor:
    weight, bias = linear_unpack(packed)
    found: Tensor = torch.zeros(weight.size(0)) if bias is None else bias
    return found


@native("aten::quantized_lstm.input_legacy")
def lstm(
    data: Tensor, hx: list[Tensor], params: list[Any], *rest: Any, dtype: Any, use_dynamic: bool
) -> Any:
    options = {"dtype": dtype, "use_dynamic": use_dynamic}
    if not _is_packed(params):
        return _lstm.input_legacy(data, hx, params, *rest, **options)
    return _lstm.input(data, hx, _cells(params, dtype), *rest, **options)


@native("aten::quantized_lstm.data_legacy")
def lstm_of_packed_sequence(
    data: Tensor,
    batch_sizes: Tensor,
    hx: list[Tensor],
    params: list[Any],
    *rest: Any,
    dtype: Any,
    use_dynamic: bool,
) -> Any:
    options = {"dtype": dtype, "use_dynamic": use_dynamic}
    if not _is_packed(params):
        return _lstm.data_legacy(data, batch_sizes, hx, params, *rest, **options)
    return _lstm.data(data, batch_sizes, hx, _cells(params, dtype), *rest, **options)


# Stride, padding, dilation and groups stand in the packed weights.


@native("quantized::conv2d")
def conv2d(x: Tensor, packed: Any, *given: Any) -> Any:
    return _quantized.conv2d.new(x, packed, *given[-2:])


@native("quantized::conv2d_relu")
def conv2d_relu(x: Tensor, packed: Any, *given: Any) -> Any:
    return _quantized.conv2d_relu.new(x, packed, *given[-2:])


@native("quantized::conv3d")
def conv3d(x: Tensor, packed: Any, *given: Any) -> Any:
    return _quantized.conv3d.new(x, packed, *given[-2:])


@native("quantized::conv3d_relu")
def conv3d_relu(x: Tensor, packed: Any, *given: Any) -> Any:
    return _quantized.conv3d_relu.new(x, packed, *given[-2:])
