"""Checks before quantized operators: what is packed, and what is read as if it were contiguous.

torch packs weights for libraries that read the memory of a tensor from its address on. Whether
scales, biases and statistics are as long as the weight is wide is asked here, once for operators
that pack and once for states of packed weights (``packed_states``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from .checks import Check, Given, require, room_of
from .tensor_checks import check_bags
from .window_checks import convolved_sizes

Shape = Mapping[str, Sequence[int]]
"""``stride``, ``padding``, ``dilation`` and ``output_padding`` of a convolution."""

_MATRIX = 2
_SEQUENCE = 3
_FAR = 1 << 15  # torch keeps these numbers in 16 bits
_EMBEDDING_DTYPES: Final = {torch.quint8: 1, torch.quint4x2: 2}
SUB_BYTE: Final = frozenset({torch.quint4x2, torch.quint2x4})
"""Element types of several elements a byte, which no code may hold: torch counts views of them
in whole bytes, and they begin beyond their memory."""

_SCHEMES: Final = (torch.per_tensor_affine, torch.per_channel_affine)


def check_linear(weight: Tensor, bias: Tensor | None) -> None:
    """A weight of 8 bits, or of float32, which is packed as float16."""
    fits = weight.dim() == _MATRIX and weight.numel() > 0
    require(fits, f"a weight of sizes {list(weight.size())} cannot be packed")
    if weight.is_quantized:
        _check_quantized(weight)
    else:
        require(_is_plain_float(weight), f"a weight of {weight.dtype} cannot be packed")
    _check_vector("bias", bias, weight.size(0))


def check_convolution(
    weight: Tensor, bias: Tensor | None, shape: Shape, groups: int, rank: int, *, transposed: bool
) -> None:
    """A weight of 8 bits for ``rank`` dimensions; numbers of its shape that can be divided by."""
    fits = weight.dim() == rank + 2 and weight.numel() > 0 and weight.is_quantized
    require(fits, f"a weight of sizes {list(weight.size())} cannot be packed")
    _check_quantized(weight)
    is_whole = weight.qscheme() == torch.per_tensor_affine
    require(is_whole or not transposed, "a transposed convolution has one scale")
    for name, values in shape.items():
        low = 0 if "padding" in name else 1
        fits = len(values) == rank and all(low <= value < _FAR for value in values)
        require(fits, f"{name} {list(values)} of a convolution of {rank} dimensions")
    rests = zip(shape.get("output_padding", ()), shape["stride"], shape["dilation"], strict=False)
    fits = all(rest < max(stride, dilation) for rest, stride, dilation in rests)
    require(fits, "output_padding is not smaller than stride or dilation")
    reaches = zip(weight.size()[2:], shape["padding"], shape["dilation"], strict=True)
    fits = transposed or all(more <= far * (k - 1) for k, more, far in reaches)
    require(fits, f"padding {list(shape['padding'])} that is wider than a window")
    fits = 0 < groups < _FAR and weight.size(0) % groups == 0
    require(fits, f"{groups} groups of {weight.size(0)} channels")
    _check_vector("bias", bias, weight.size(1) * groups if transposed else weight.size(0))


def check_embedding(weight: Tensor) -> None:
    """Rows of 8 or 4 bits, each with a scale of its own."""
    fits = weight.dim() == _MATRIX and weight.numel() > 0
    fits = fits and weight.is_quantized and weight.dtype in _EMBEDDING_DTYPES
    fits = fits and weight.qscheme() == torch.per_channel_affine_float_qparams
    require(fits, f"a weight of {weight.dtype} and sizes {list(weight.size())} cannot be packed")
    _check_scales(weight)
    parts = _EMBEDDING_DTYPES[weight.dtype]
    require(weight.size(1) % parts == 0, f"rows of {weight.size(1)} that fill no whole bytes")


def kept(bias: Tensor) -> Tensor:
    """``bias`` itself, in memory that is never exchanged for other memory.

    Packed weights keep the address of a bias, and give the bias to code that unpacks them: as the
    ``out`` of an operator it would move when it grows.
    """
    is_fixed = room_of(bias) == bias.numel() and not bias.untyped_storage().resizable()
    if not (is_fixed and bias.is_contiguous()):
        made = torch.frombuffer(bytearray(bias.numel() * bias.element_size()), dtype=bias.dtype)
        bias.data = made.copy_(bias.detach())
    return bias


def with_own_scales(value: Any) -> Any:
    """Unpacked rows, alone or in a state, with scales that do not lie in what they come from.

    torch gives rows whose scales stand in the packed weights, and are gone when these are.
    """
    if isinstance(value, (tuple, list)):
        return type(value)(map(with_own_scales, value))
    if not (isinstance(value, Tensor) and value.is_quantized):
        return value
    require(value.dtype not in SUB_BYTE, f"rows of {value.dtype} are not unpacked")
    made = torch._empty_per_channel_affine_quantized(
        value.size(),
        scales=value.q_per_channel_scales().clone(),
        zero_points=value.q_per_channel_zero_points().clone(),
        axis=value.q_per_channel_axis(),
        dtype=value.dtype,
    )
    made.untyped_storage().copy_(value.untyped_storage())
    return made


def _check_quantized(weight: Tensor) -> None:
    fits = weight.dtype == torch.qint8 and weight.qscheme() in _SCHEMES
    require(fits, f"a weight of {weight.dtype} cannot be packed")
    require(weight.device.type == "cpu", f"a weight on {weight.device} cannot be packed")
    if weight.qscheme() == torch.per_channel_affine:
        _check_scales(weight)


def _check_scales(weight: Tensor) -> None:
    """One scale and zero point for each row."""
    scales, zeros = weight.q_per_channel_scales(), weight.q_per_channel_zero_points()
    fits = weight.q_per_channel_axis() == 0 and weight.device.type == "cpu"
    fits = fits and list(scales.size()) == list(zeros.size()) == [weight.size(0)]
    require(fits, f"{scales.numel()} scales for {weight.size(0)} rows")


def _is_plain_float(tensor: Tensor) -> bool:
    is_cpu = tensor.layout is torch.strided and tensor.device.type == "cpu"
    return is_cpu and tensor.dtype == torch.float32


def _check_vector(name: str, vector: Tensor | None, length: int) -> None:
    if vector is not None:
        fits = _is_plain_float(vector) and list(vector.size()) == [length]
        require(fits, f"{name} of sizes {list(vector.size())} for {length} channels")


def _linear_prepack(given: Given) -> None:
    check_linear(given["W"], given["B"])


def _conv_prepack(name: str) -> Check:
    found = re.search(r"(\d)d", name)
    rank = int(found[1]) if found else 2

    def check(given: Given) -> None:
        parts = ("stride", "padding", "dilation", "output_padding")
        shape = {part: given[part] for part in parts if part in given}
        transposed = "output_padding" in given
        weight, bias = given["weight"], given["bias"]
        check_convolution(weight, bias, shape, given["groups"], rank, transposed=transposed)

    return check


def _embedding_prepack(given: Given) -> None:
    check_embedding(given["weight"])


def _packed_bags(given: Given) -> None:
    """Rows that were left out are found through a mapping that nobody checks."""
    is_whole = not given["pruned_weights"] and given["compressed_indices_mapping"] is None
    require(is_whole, "quantized embeddings with pruned rows are not run")
    check_bags(given)


def _packed_rows(given: Given) -> None:
    require(not given["pruned_weights"], "quantized embeddings with pruned rows are not run")


def _statistics(given: Given) -> None:
    """Numbers of each channel are as many as there are channels."""
    data: Tensor = given["qx"]
    channels = data.size(1) if data.dim() > 1 else 0
    for name in ("weight", "bias", "mean", "var"):
        _check_vector(name, given[name], channels)


def _affine(given: Given) -> None:
    for name in ("weight", "bias"):
        value = given[name]
        require(value is None or _is_plain_float(value), f"{name} is not of float32")
    groups = given.get("num_groups", 1)
    require(groups > 0, f"a norm of {groups} groups")


def _affine_elements(given: Given) -> None:
    """The kernel divides by the channels, and by the elements where channels are the last."""
    _affine(given)
    data: Tensor = given["input"]
    is_last = data.dim() > _SEQUENCE and data.stride(1) == 1
    fits = data.numel() > 0 or (data.dim() > 1 and data.size(1) > 0 and not is_last)
    require(fits, "a norm of no elements")


def _has_elements(given: Given) -> None:
    """FBGEMM has a kernel of its own for weights whose channels come in eights."""
    if given["qx"].numel() == 0:
        weight, _ = given["packed_weight"]._get_method("unpack")()
        is_in_eights = weight.size(0) % 8 == 0 and weight.size(1) % 8 == 0
        require(not is_in_eights, "a transposed convolution of no elements")


def _added(given: Given) -> None:
    """oneDNN adds to ``qaccum`` what the convolution gives, wherever that ends."""
    packed = given["packed_weight"]
    numbers = {name: packed._get_method(name)() for name in ("stride", "padding", "dilation")}
    weight, _ = packed._get_method("unpack")()
    data: Tensor = given["qx"]
    fits = data.dim() == weight.dim()
    sizes = convolved_sizes({"input": data, "weight": weight, **numbers}) if fits else []
    wanted = [data.size(0), weight.size(0), *sizes]
    found = list(given["qaccum"].size())
    require(found == wanted, f"sums of sizes {found} for a convolution that gives {wanted}")


def _cell_params(given: Given) -> None:
    for name in ("bias_ih", "bias_hh"):
        bias: Tensor = given[name]
        fits = _is_plain_float(bias) and bias.dim() == 1
        require(fits, f"{name} of sizes {list(bias.size())} is no bias")


_CONVOLUTIONS: Final = (
    "conv1d_prepack", "conv2d_prepack", "conv3d_prepack", "conv_prepack",
    "conv_transpose1d_prepack", "conv_transpose2d_prepack", "conv_transpose3d_prepack",
)  # fmt: skip
_LINEAR: Final = ("linear_prepack", "linear_prepack_fp16")
PACKED_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **{f"quantized::{name}": _conv_prepack(name) for name in _CONVOLUTIONS},
        **{f"quantized::{name}": _linear_prepack for name in _LINEAR},
        **{
            f"quantized::batch_norm{kind}": _statistics
            for kind in ("", "_relu", "2d", "2d_relu", "3d", "3d_relu")
        },
        "quantized::embedding_4bit": _packed_rows,
        "quantized::embedding_bag_4bit": _packed_bags,
        "quantized::embedding_bag_byte": _packed_bags,
        "quantized::embedding_bag_prepack": _embedding_prepack,
        "quantized::embedding_byte": _packed_rows,
        "quantized::conv2d_add": _added,
        "quantized::conv2d_add_relu": _added,
        "quantized::conv_transpose2d": _has_elements,
        "quantized::conv_transpose2d_dynamic": _has_elements,
        "quantized::group_norm": _affine_elements,
        "quantized::instance_norm": _affine_elements,
        "quantized::layer_norm": _affine,
        "quantized::make_quantized_cell_params_dynamic": _cell_params,
    }
)
BIASES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        **{f"quantized::{name}": frozenset({"bias"}) for name in _CONVOLUTIONS},
        **{f"quantized::{name}": frozenset({"B"}) for name in _LINEAR},
        "quantized::make_quantized_cell_params_dynamic": frozenset({"bias_ih", "bias_hh"}),
    }
)
"""Arguments that packed weights keep, by operator: they are given ``kept`` ones."""

READS_MEMORY: Final = frozenset(
    {
        *PACKED_CHECKS,
        *(
            f"quantized::{name}"
            for name in (
                "cat", "conv1d", "conv1d_dynamic", "conv1d_relu", "conv2d", "conv2d_add",
                "conv2d_add_relu", "conv2d_dynamic", "conv2d_relu", "conv3d", "conv3d_dynamic",
                "conv3d_relu", "conv_transpose1d", "conv_transpose1d_dynamic",
                "conv_transpose2d", "conv_transpose2d_dynamic", "conv_transpose3d",
                "conv_transpose3d_dynamic", "linear", "linear_dynamic", "linear_dynamic_fp16",
                "linear_leaky_relu", "linear_relu", "linear_relu_dynamic",
                "linear_relu_dynamic_fp16", "linear_tanh", "matmul", "prelu",
                "quantized_gru_cell_dynamic", "quantized_lstm_cell_dynamic",
                "quantized_rnn_relu_cell_dynamic", "quantized_rnn_tanh_cell_dynamic", "softmax",
            )
        ),
        "aten::choose_qparams_optimized",
        "aten::quantized_gru",
        "aten::quantized_lstm",
    }
)  # fmt: skip
