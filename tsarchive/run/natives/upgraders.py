"""Operators as old archives mean them.

Code of an archive whose operator version lies below an operator's change was written for the old
schema. torch replaces such calls, in methods, by functions; these are they, under torch's names:
operator, overload (none for the default one), first and last version concerned. Their arguments
are those of the old schema, which are the parameters here.

In archives of torch 1.4 and 1.5 packed weights were tensors, and are objects of a class written in
C++ today. Slots and lists of old code that are declared to hold tensors hold these objects; the
quantized operators here are given them. Convolutions had arguments that belong to the packed
weights today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tsarchive.run.natives import fbgemm
from tsarchive.run.natives.table import native

_aten = torch.ops.aten
_DEFAULT_STEPS = 100


def _division(true: Any, whole: Any) -> Callable[..., Any]:
    """True division when an operand or ``out`` is floating, else rounding towards zero."""

    def divide(self: Tensor, other: Tensor | complex, **out: Tensor) -> Any:
        if any(map(_is_floating, (self, other, *out.values()))):
            return true(self, other, **out)
        return whole(self, other, rounding_mode="trunc", **out)

    return divide


def _is_floating(value: Tensor | complex) -> bool:
    return value.is_floating_point() if isinstance(value, Tensor) else isinstance(value, float)


def full(size: list[int], fill_value: complex, *, dtype: int | None, **options: Any) -> Any:
    """Without a dtype the value fills as a float."""
    value = float(fill_value.real) if dtype is None else fill_value
    return _aten.full.default(size, value, dtype=dtype, **options)


def full_with_names(
    size: list[int], fill_value: complex, *, names: list[str] | None, **options: Any
) -> Any:
    """As ``full``; the names are dropped, as torch does."""
    del names
    return full(size, fill_value, **options)


def _spaced(packet: Any) -> Callable[..., Any]:
    """One hundred steps where none are given."""

    def spaced(
        start: complex, end: complex, steps: int | None, *base: float, **options: Any
    ) -> Any:
        count = _DEFAULT_STEPS if steps is None else steps
        return _overload(packet, options)(start, end, count, *base, **options)

    return spaced


def gelu(self: Tensor, **options: Any) -> Any:
    """The exact function, not its tanh approximation."""
    return _overload(_aten.gelu, options)(self, approximate="none", **options)


def _overload(packet: Any, options: Mapping[str, Any]) -> Any:
    return packet.out if "out" in options else packet.default


_divide, _divide_in_place = _aten.divide, _aten.divide_
_true, _true_in_place = _aten.true_divide, _aten.true_divide_

UPGRADERS: Mapping[str, Callable[..., Any]] = {
    "div_Tensor_0_3": _division(_true.Tensor, _divide.Tensor_mode),
    "div_Scalar_0_3": _division(_true.Scalar, _divide.Scalar_mode),
    "div_out_0_3": _division(_true.out, _divide.out_mode),
    "div__Tensor_0_3": _division(_true_in_place.Tensor, _divide_in_place.Tensor_mode),
    "div__Scalar_0_3": _division(_true_in_place.Scalar, _divide_in_place.Scalar_mode),
    "div_Tensor_mode_0_3": _divide.Tensor_mode,
    "div_Scalar_mode_0_3": _divide.Scalar_mode,
    "div_out_mode_0_3": _divide.out_mode,
    "div__Tensor_mode_0_3": _divide_in_place.Tensor_mode,
    "div__Scalar_mode_0_3": _divide_in_place.Scalar_mode,
    "full_0_4": full,
    "full_names_0_4": full_with_names,
    "full_out_0_4": _aten.full.out,
    "linspace_0_7": _spaced(_aten.linspace),
    "linspace_out_0_7": _spaced(_aten.linspace),
    "logspace_0_8": _spaced(_aten.logspace),
    "logspace_out_0_8": _spaced(_aten.logspace),
    "gelu_0_9": gelu,
    "gelu_out_0_9": gelu,
}
"""The old operators by torch's name of the upgrader."""


_quantized = torch.ops.quantized
_lstm = torch.ops.aten.quantized_lstm
_HALF = 5  # the number of float16 in schemas


linear_unpack = _quantized.linear_unpack.default
native("quantized::linear_unpack.legacy")(linear_unpack)
native("quantized::linear_unpack_fp16.legacy")(_quantized.linear_unpack_fp16.default)


def _cells(params: list[Any], dtype: int | None) -> list[Any]:
    """The parameters of each layer and direction: packed weights of input and hidden state."""
    pairs = zip(params[::2], params[1::2], strict=True)
    if dtype == _HALF:
        return [_quantized.make_quantized_cell_params_fp16(*pair) for pair in pairs]
    return [
        _quantized.make_quantized_cell_params_dynamic(*pair, *map(_bias, pair), False)
        for pair in pairs
    ]


def _bias(packed: Any) -> Any:
    weight, bias = linear_unpack(packed)
    return torch.zeros(weight.size(0)) if bias is None else bias


def _legacy_lstm(packed: Any, plain: Callable[..., Any], inputs: int) -> Callable[..., Any]:
    """The operator whose parameters, packed or plain, stand behind so many inputs."""

    def run(*given: Any, **options: Any) -> Any:
        params = given[inputs]
        if not all(isinstance(param, torch.ScriptObject) for param in params):
            return plain(*given, is_half=options["dtype"] == _HALF)
        cells = _cells(params, options["dtype"])
        return packed(*given[:inputs], cells, *given[inputs + 1 :], **options)

    return run


native("aten::quantized_lstm.input_legacy")(_legacy_lstm(_lstm.input, fbgemm.lstm, 2))
native("aten::quantized_lstm.data_legacy")(_legacy_lstm(_lstm.data, fbgemm.lstm_of_sequence, 3))


def _convolution(overload: Any) -> Callable[..., Any]:
    """Stride, padding, dilation and groups stand in the packed weights."""
    return lambda x, packed, *given: overload(x, packed, *given[-2:])


for _name in ("conv2d", "conv2d_relu", "conv3d", "conv3d_relu"):
    native(f"quantized::{_name}")(_convolution(getattr(_quantized, _name).new))
