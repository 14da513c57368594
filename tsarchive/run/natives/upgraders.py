"""Operators as old archives mean them.

Code of an archive whose operator version lies below an operator's change was written for the old
schema. torch replaces such calls, in methods, by functions; these are they, under torch's names:
operator, overload (none for the default one), first and last version concerned. Their arguments
are those of the old schema, which are the parameters here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tsarchive.run.natives.table import native

_aten = torch.ops.aten
_DEFAULT_STEPS = 100


def _any_floating(*values: Tensor | complex) -> bool:
    return any(
        value.is_floating_point() if isinstance(value, Tensor) else isinstance(value, float)
        for value in values
    )


def div_tensor(self: Tensor, other: Tensor) -> Tensor:
    """True division when either is floating, else rounding towards zero."""
    result: Tensor = (
        _aten.true_divide.Tensor(self, other)
        if _any_floating(self, other)
        else _aten.divide.Tensor_mode(self, other, rounding_mode="trunc")
    )
    return result


def div_tensor_in_place(self: Tensor, other: Tensor) -> Tensor:
    result: Tensor = (
        _aten.true_divide_.Tensor(self, other)
        if _any_floating(self, other)
        else _aten.divide_.Tensor_mode(self, other, rounding_mode="trunc")
    )
    return result


def div_scalar(self: Tensor, other: complex) -> Tensor:
    """As with two tensors; the type of the number at run time decides."""
    result: Tensor = (
        _aten.true_divide.Scalar(self, other)
        if _any_floating(self, other)
        else _aten.divide.Scalar_mode(self, other, rounding_mode="trunc")
    )
    return result


def div_scalar_in_place(self: Tensor, other: complex) -> Tensor:
    result: Tensor = (
        _aten.true_divide_.Scalar(self, other)
        if _any_floating(self, other)
        else _aten.divide_.Scalar_mode(self, other, rounding_mode="trunc")
    )
    return result


def div_out(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
    """A floating ``out`` asks for true division too."""
    result: Tensor = (
        _aten.true_divide.out(self, other, out=out)
        if _any_floating(self, other, out)
        else _aten.divide.out_mode(self, other, rounding_mode="trunc", out=out)
    )
    return result


def full(size: list[int], fill_value: complex, *, dtype: int | None, **options: Any) -> Tensor:
    """Without a dtype the value fills as a float."""
    value = float(fill_value.real) if dtype is None else fill_value
    result: Tensor = _aten.full.default(size, value, dtype=dtype, **options)
    return result


def full_with_names(
    size: list[int], fill_value: complex, *, names: list[str] | None, **options: Any
) -> Tensor:
    """As ``full``; the names are dropped, as torch does."""
    del names
    return full(size, fill_value, **options)


def linspace(start: complex, end: complex, steps: int | None, **options: Any) -> Tensor:
    """One hundred steps where none are given."""
    count = _DEFAULT_STEPS if steps is None else steps
    result: Tensor = _overload_for_out("linspace", options)(start, end, count, **options)
    return result


def logspace(
    start: complex, end: complex, steps: int | None, base: float, **options: Any
) -> Tensor:
    """One hundred steps where none are given."""
    count = _DEFAULT_STEPS if steps is None else steps
    result: Tensor = _overload_for_out("logspace", options)(start, end, count, base, **options)
    return result


def gelu(self: Tensor, **options: Any) -> Tensor:
    """The exact function, not its tanh approximation."""
    result: Tensor = _overload_for_out("gelu", options)(self, approximate="none", **options)
    return result


def _overload_for_out(name: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    packet = getattr(_aten, name)
    overload: Callable[..., Any] = packet.out if "out" in options else packet.default
    return overload


_divide, _divide_in_place = _aten.divide, _aten.divide_

UPGRADERS: Mapping[str, Callable[..., Any]] = {
    "div_Tensor_0_3": div_tensor,
    "div_Scalar_0_3": div_scalar,
    "div_out_0_3": div_out,
    "div__Tensor_0_3": div_tensor_in_place,
    "div__Scalar_0_3": div_scalar_in_place,
    "div_Tensor_mode_0_3": _divide.Tensor_mode,
    "div_Scalar_mode_0_3": _divide.Scalar_mode,
    "div_out_mode_0_3": _divide.out_mode,
    "div__Tensor_mode_0_3": _divide_in_place.Tensor_mode,
    "div__Scalar_mode_0_3": _divide_in_place.Scalar_mode,
    "full_0_4": full,
    "full_names_0_4": full_with_names,
    "full_out_0_4": _aten.full.out,
    "linspace_0_7": linspace,
    "linspace_out_0_7": linspace,
    "logspace_0_8": logspace,
    "logspace_out_0_8": logspace,
    "gelu_0_9": gelu,
    "gelu_out_0_9": gelu,
}
"""The old operators by torch's name of the upgrader."""


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
