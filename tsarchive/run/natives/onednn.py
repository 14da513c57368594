"""Layers whose weights oneDNN packed: convolutions and linear layers with an activation behind.

oneDNN trusts packed weights: it reads them in the order that they were packed in. So weights are
those that were packed here, and a layer has the numbers that its weight was packed for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError

from .table import Native, native

ACTIVATIONS: Final[Mapping[str, int]] = {
    "none": 0, "relu": 0, "sigmoid": 0, "tanh": 0, "hardswish": 0, "hardsigmoid": 0, "swish": 0,
    "leaky_relu": 1, "hardtanh": 2, "gelu": 0,
}  # fmt: skip
"""How many numbers each activation takes."""

_ALGORITHMS: Final = ("", "none", "tanh")
_MARK: Final = "tsarchive_packed"
_FAR: Final = 1 << 24
CONVOLUTION: Final = "mkldnn::_convolution_pointwise"
CONVOLUTION_INTO: Final = "mkldnn::_convolution_pointwise_.binary"
LINEAR: Final = "mkldnn::_linear_pointwise"
PACK_CONVOLUTION: Final = "mkldnn::_reorder_convolution_weight"
PACK_LINEAR: Final = "mkldnn::_reorder_linear_weight"
_SPACE: Final = 2
_KIND_HINT: Final = (
    "Convert the input, and leave autocast, or call the module that was optimized instead"
)
_BATCH_HINT: Final = (
    "Give the input a batch dimension, or call the module that was optimized instead"
)


@cache
def _operator(key: str) -> Native:
    """The function of C++ that runs an operator, which not every torch has."""
    namespace, _, full_name = key.partition("::")
    name, _, overload = full_name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    run: Native = getattr(packet, overload or "default").op
    return run


@dataclass(slots=True)
class _Packed:
    """What a weight was packed for, and the last call of it, which was found to fit.

    Of a call, the types and shapes, and what it has in lists.
    """

    sizes: tuple[int, ...]
    numbers: tuple[Any, ...] = ()
    call: tuple[Any, ...] = ()
    numbers_of_call: list[Any] | None = None

    def __deepcopy__(self, memo: object) -> _Packed:
        return _Packed(self.sizes, self.numbers)


@native(PACK_CONVOLUTION)
def pack_convolution(
    weight: Tensor,
    padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    input_size: list[int] | None,
) -> Tensor:
    """The weight of a convolution over two dimensions in the order that oneDNN reads it in."""
    _require_plain(weight, "the weight of a convolution", _SPACE + 2)
    numbers = padding, stride, dilation = [_spread(each) for each in (padding, stride, dilation)]
    is_near = all(0 <= number < _FAR for each in numbers for number in each)
    _require(is_near and min(stride + dilation) > 0, f"padding, stride or dilation in {numbers}")
    is_divided = 0 < groups <= weight.size(0) and weight.size(0) % groups == 0
    _require(is_divided, f"{groups} groups of {weight.size(0)} channels")
    if input_size is not None:
        channels = weight.size(1) * groups
        is_of_rank = len(input_size) == _SPACE + 2 and min(input_size) > 0
        _require(is_of_rank and input_size[1] == channels, f"input of sizes {input_size}")
        _require_room(input_size, weight.size(), numbers)
    packed: Tensor = _operator(PACK_CONVOLUTION)(weight.contiguous(), *numbers, groups, input_size)
    return _marked(packed, _Packed(tuple(weight.shape), (*map(tuple, numbers), groups)))


@native(PACK_LINEAR)
def pack_linear(weight: Tensor, batch_size: int | None) -> Tensor:
    """The weight of a linear layer in the order that oneDNN reads it in."""
    _require_plain(weight, "the weight of a linear layer", 2)
    _require(batch_size is None or 0 < batch_size < _FAR, f"a batch of {batch_size}")
    packed: Tensor = _operator(PACK_LINEAR)(weight.contiguous(), batch_size)
    return _marked(packed, _Packed(tuple(weight.shape)))


@native(CONVOLUTION)
def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    attr: str,
    scalars: list[float | None],
    algorithm: str | None,
) -> Tensor:
    """A convolution with a packed weight, and an activation of its result."""
    packed = _packed(weight)
    call = x.shape, x.dtype, x.layout, attr, algorithm, *_kind(bias)
    if (
        call != packed.call
        or [padding, stride, dilation, groups, scalars] != packed.numbers_of_call
    ):
        numbers = [padding, stride, dilation]
        _require_fit(x, packed, bias, numbers, groups)
        _require_activation(attr, scalars, algorithm)
        packed.call = call
        packed.numbers_of_call = [*map(list, numbers), groups, scalars[:]]
    made: Tensor = _operator(CONVOLUTION)(
        x, weight, bias, padding, stride, dilation, groups, attr, scalars, algorithm
    )
    return made


@native(CONVOLUTION_INTO)
def convolve_into(
    other: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    binary_attr: str,
    alpha: float | None,
    unary_attr: str | None,
    unary_scalars: list[float | None],
    unary_algorithm: str | None,
) -> Tensor:
    """A convolution with a packed weight that is added to a tensor, and perhaps rectified."""
    packed = _packed(weight)
    call = (
        x.shape, x.dtype, x.layout, other.shape, other.stride(), other.dtype, other.layout,
        binary_attr, alpha, unary_attr, unary_algorithm, *_kind(bias),
    )  # fmt: skip
    if call != packed.call or [padding, stride, dilation, groups, unary_scalars] != (
        packed.numbers_of_call
    ):
        numbers = [padding, stride, dilation]
        _require_fit(x, packed, bias, numbers, groups)
        windows = _windows(x.shape, packed.sizes, numbers)
        sizes = [(room - span) // step + 1 for room, span, step in windows]
        _require_sum(other, [x.size(0), packed.sizes[0], *sizes])
        is_known = binary_attr == "add" and alpha in (None, 1) and unary_attr in (None, "relu")
        _require(is_known and not unary_scalars and not unary_algorithm, f"{binary_attr!r}")
        packed.call = call
        packed.numbers_of_call = [*map(list, numbers), groups, unary_scalars[:]]
    is_apart = x.untyped_storage().data_ptr() != other.untyped_storage().data_ptr()
    _require(is_apart or not other.numel(), "a sum in the memory of its input")
    made: Tensor = _operator(CONVOLUTION_INTO)(
        other, x, weight, bias, padding, stride, dilation, groups, binary_attr, alpha, unary_attr,
        unary_scalars, unary_algorithm,
    )  # fmt: skip
    return made


@native(LINEAR)
def apply_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    attr: str,
    scalars: list[float | None],
    algorithm: str | None,
) -> Tensor:
    """A linear layer with a packed weight, and an activation of its result."""
    packed = _packed(weight)
    call = x.shape, x.dtype, x.layout, attr, algorithm, *_kind(bias)
    if call != packed.call or scalars != packed.numbers_of_call:
        _require(len(packed.sizes) == 2, "the weight of a convolution in a linear layer")
        _require_plain(x, "the input of a linear layer", None, may_be_empty=True)
        _require(x.dim() > 0 and x.size(-1) == packed.sizes[1], f"input of sizes {list(x.shape)}")
        _require_activation(attr, scalars, algorithm)
        _require_bias(bias, packed)
        packed.call = call
        packed.numbers_of_call = scalars[:]
    made: Tensor = _operator(LINEAR)(x, weight, bias, attr, scalars, algorithm)
    return made


def _kind(bias: Tensor | None) -> tuple[Any, ...]:
    return () if bias is None else (bias.shape, bias.dtype, bias.layout, bias.stride())


def _marked(packed: Tensor, what: _Packed) -> Tensor:
    setattr(packed, _MARK, what)
    return packed


def _packed(weight: Tensor) -> _Packed:
    found = getattr(weight, _MARK, None)
    if not isinstance(found, _Packed):
        raise ScriptError("a layer of oneDNN has a weight that was not packed for it")
    return found


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise _refusal(f"does not take {what}")


def _refusal(what: str, hint: str | None = None) -> ScriptError:
    error = ScriptError(f"a layer of oneDNN {what}")
    error.hint = hint
    return error


def _require_plain(
    tensor: Tensor, what: str, dimensions: int | None, *, may_be_empty: bool = False
) -> None:
    shown = f"{what} is {tensor.dtype}{list(tensor.shape)} on {tensor.device}"
    is_plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if not (is_plain and tensor.dtype is torch.float32):
        raise _refusal(f"takes plain tensors of torch.float32 on the CPU, but {shown}", _KIND_HINT)
    if dimensions is not None and tensor.dim() != dimensions:
        hint = _BATCH_HINT if tensor.dim() == dimensions - 1 else None
        raise _refusal(f"takes tensors of {dimensions} dimensions, but {shown}", hint)
    _require(may_be_empty or tensor.numel() > 0, f"an empty tensor, but {shown}")


def _require_fit(
    x: Tensor, packed: _Packed, bias: Tensor | None, numbers: list[list[int]], groups: int
) -> None:
    """Require that a convolution is the one that its weight was packed for."""
    is_same = (*map(tuple, numbers), groups) == packed.numbers
    _require(is_same, "a convolution with other numbers than its weight was packed for")
    _require_plain(x, "the input of a convolution", _SPACE + 2, may_be_empty=True)
    is_filled = min(x.shape[1:]) > 0 and x.size(1) == packed.sizes[1] * groups
    _require(is_filled, f"input of sizes {list(x.shape)}")
    _require_room(x.shape, packed.sizes, numbers)
    _require_bias(bias, packed)


def _require_sum(other: Tensor, sizes: list[int]) -> None:
    """Require a tensor that the result of a convolution can be added to, number by number."""
    _require_plain(other, "the sum of a convolution", _SPACE + 2, may_be_empty=True)
    _require(list(other.shape) == sizes, f"a sum of sizes {list(other.shape)}")


def _require_bias(bias: Tensor | None, packed: _Packed) -> None:
    if bias is not None:
        _require_plain(bias, "a bias", 1)
        _require(bias.is_contiguous(), "a bias with gaps")
        _require(bias.size(0) == packed.sizes[0], f"a bias of {bias.size(0)} channels")


def _require_activation(attr: str, scalars: Sequence[object], algorithm: str | None) -> None:
    is_known = ACTIVATIONS.get(attr) == len(scalars) and None not in scalars
    _require(is_known and (algorithm or "") in _ALGORITHMS, f"the activation {attr!r}")


def _require_room(
    size: Sequence[int], weight: Sequence[int], numbers: Sequence[Sequence[int]]
) -> None:
    """Require that the window fits into the input."""
    for room, span, _ in _windows(size, weight, numbers):
        _require(span <= room < _FAR, f"input of sizes {list(size)}")


def _windows(
    size: Sequence[int], weight: Sequence[int], numbers: Sequence[Sequence[int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield of each dimension the padded input, what a window spans of it, and its step."""
    for place, (more, step, far) in enumerate(zip(*numbers, strict=True), _SPACE):
        yield size[place] + 2 * more, far * (weight[place] - 1) + 1, step


def _spread(numbers: list[int]) -> list[int]:
    found = numbers * _SPACE if len(numbers) == 1 else numbers
    _require(len(found) == _SPACE, f"{len(numbers)} numbers for two dimensions")
    return found
