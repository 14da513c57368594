"""Packed weights: checks before quantized operators, and before states are set.

torch packs weights for libraries that read the memory of a tensor from its address on. Whether
scales, biases and statistics are as long as the weight is wide is asked here, once for operators
that pack and once for the states that ``__setstate__`` of C++ is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ArchiveError

from .checks import CHECKS, check_before, plain, require, room_of
from .layer_checks import convolved_sizes
from .tensor_checks import check_bags

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


def refuse_packed(name: str, value: Any, error: type[ArchiveError], to_do: str) -> None:
    """Raise ``error`` for a tensor that oneDNN packed, whose order is that of one processor.

    ``to_do`` is what the caller does, for a hint: to ``"Convert"`` a module, say.
    """
    if isinstance(value, Tensor) and value.is_mkldnn:
        raise error(
            f"oneDNN packed the tensor {name!r} for this processor: it cannot be written",
            hint=f"{to_do} the module that it was packed from, before it is optimized",
        )


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


def _conv_prepack(rank: int, weight: Tensor, bias: Tensor | None, **given: Any) -> None:
    shape: Shape = {part: given[part] for part in _PARTS if part in given}
    transposed = "output_padding" in given
    check_convolution(weight, bias, shape, given["groups"], rank, transposed=transposed)


_PARTS: Final = ("stride", "padding", "dilation", "output_padding")
_CONVOLUTIONS: Final = {
    "quantized::conv_prepack": 2,
    **{
        f"quantized::{kind}{rank}d_prepack": rank
        for kind in ("conv", "conv_transpose")
        for rank in (1, 2, 3)
    },
}
for _name, _rank in _CONVOLUTIONS.items():
    check_before(_name)(partial(_conv_prepack, _rank))
_LINEAR: Final = ("quantized::linear_prepack", "quantized::linear_prepack_fp16")
check_before(*_LINEAR)(lambda W, B, **_: check_linear(W, B))
check_before("quantized::embedding_bag_prepack")(lambda weight, **_: check_embedding(weight))


@check_before("quantized::embedding_bag_4bit", "quantized::embedding_bag_byte")
def _packed_bags(pruned_weights: bool, compressed_indices_mapping: Any, **given: Any) -> None:
    """Rows that were left out are found through a mapping that nobody checks."""
    is_whole = not pruned_weights and compressed_indices_mapping is None
    require(is_whole, "quantized embeddings with pruned rows are not run")
    check_bags(**given)


@check_before("quantized::embedding_4bit", "quantized::embedding_byte")
def _packed_rows(pruned_weights: bool, **_: Any) -> None:
    require(not pruned_weights, "quantized embeddings with pruned rows are not run")


@check_before(
    *(f"quantized::batch_norm{kind}" for kind in ("", "_relu", "2d", "2d_relu", "3d", "3d_relu"))
)
def _statistics(qx: Tensor, **given: Any) -> None:
    """Numbers of each channel are as many as there are channels."""
    channels = qx.size(1) if qx.dim() > 1 else 0
    for name in ("weight", "bias", "mean", "var"):
        _check_vector(name, given[name], channels)


@check_before("quantized::layer_norm")
def _affine(weight: Tensor | None, bias: Tensor | None, num_groups: int = 1, **_: Any) -> None:
    for name, value in (("weight", weight), ("bias", bias)):
        require(value is None or _is_plain_float(value), f"{name} is not of float32")
    require(num_groups > 0, f"a norm of {num_groups} groups")


@check_before("quantized::group_norm", "quantized::instance_norm")
def _affine_elements(input: Tensor, **given: Any) -> None:
    """The kernel divides by the channels, and by the elements where channels are the last."""
    _affine(**given)
    is_last = input.dim() > _SEQUENCE and input.stride(1) == 1
    fits = input.numel() > 0 or (input.dim() > 1 and input.size(1) > 0 and not is_last)
    require(fits, "a norm of no elements")


@check_before("quantized::conv_transpose2d", "quantized::conv_transpose2d_dynamic")
def _has_elements(qx: Tensor, packed_weight: Any, **_: Any) -> None:
    """FBGEMM has a kernel of its own for weights whose channels come in eights."""
    if qx.numel() == 0:
        weight, _bias = packed_weight._get_method("unpack")()
        is_in_eights = weight.size(0) % 8 == 0 and weight.size(1) % 8 == 0
        require(not is_in_eights, "a transposed convolution of no elements")


@check_before("quantized::conv2d_add", "quantized::conv2d_add_relu")
def _added(qx: Tensor, qaccum: Tensor, packed_weight: Any, **_: Any) -> None:
    """oneDNN adds to ``qaccum`` what the convolution gives, wherever that ends."""
    parts = ("stride", "padding", "dilation")
    numbers = {name: packed_weight._get_method(name)() for name in parts}
    weight, _bias = packed_weight._get_method("unpack")()
    fits = qx.dim() == weight.dim()
    sizes = convolved_sizes({"input": qx, "weight": weight, **numbers}) if fits else []
    wanted = [qx.size(0), weight.size(0), *sizes]
    found = list(qaccum.size())
    require(found == wanted, f"sums of sizes {found} for a convolution that gives {wanted}")


@check_before("quantized::make_quantized_cell_params_dynamic")
def _cell_params(bias_ih: Tensor, bias_hh: Tensor, **_: Any) -> None:
    for name, bias in (("bias_ih", bias_ih), ("bias_hh", bias_hh)):
        fits = _is_plain_float(bias) and bias.dim() == 1
        require(fits, f"{name} of sizes {list(bias.size())} is no bias")


BIASES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_CONVOLUTIONS, frozenset({"bias"})),
    **dict.fromkeys(_LINEAR, frozenset({"B"})),
    "quantized::make_quantized_cell_params_dynamic": frozenset({"bias_ih", "bias_hh"}),
}
"""Arguments that packed weights keep, by operator: they are given ``kept`` ones."""

READS_MEMORY: Final = frozenset(
    {
        *(name for name in CHECKS if name.startswith("quantized::")),
        *(
            f"quantized::{name}"
            for name in (
                "cat", "conv1d", "conv1d_dynamic", "conv1d_relu", "conv2d", "conv2d_add",
                "conv2d_add_relu", "conv2d_dynamic", "conv2d_relu", "conv3d", "conv3d_dynamic",
                "conv3d_relu", "conv_transpose1d", "conv_transpose1d_dynamic",
                "conv_transpose2d", "conv_transpose2d_dynamic", "conv_transpose3d",
                "conv_transpose3d_dynamic", "linear", "linear_dynamic", "linear_dynamic_fp16",
                "linear_leaky_relu", "linear_relu", "linear_relu_dynamic",
                "linear_relu_dynamic_fp16", "linear_tanh", "matmul", "prelu", "softmax",
            )
        ),
        "aten::choose_qparams_optimized",
        "aten::quantized_gru",
        "aten::quantized_lstm",
    }
)  # fmt: skip


_NATIVE: Final = "__torch__.torch.classes."
_ROWS: Final = "quantized.EmbeddingPackedParamsBase"
_PAIR = 2
_OLD_PARTS = 6
# Kinds of recurrent cells: how many biases and flags they have; old states have no flags.
_CELLS: Final = {"quantized_dynamic": (2, 1), "quantized_fp16": (0, 0)}
_BITS: Final = {torch.quint8: 8, torch.quint4x2: 4}


class SubByteRows:
    """A stored tensor of several elements a byte, of which only packed weights are made."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows


def checked_state(qualified_name: str, state: Any) -> Any:
    """The state, in the form that ``__setstate__`` is to be given.

    Raises ScriptError for a state that the class cannot take.
    """
    check = _STATES.get(qualified_name.removeprefix(_NATIVE))
    return state if check is None else check(state)


def call_method(qualified_name: str, name: str, receiver: Any, arguments: Sequence[Any]) -> Any:
    """A method of an object of a class bound from C++, as code of an archive may call it."""
    if name == "__setstate__":
        arguments = [checked_state(qualified_name, state) for state in arguments]
    result = receiver._get_method(name)(*arguments)
    return with_own_scales(result) if qualified_name == _NATIVE + _ROWS else result


def _linear(state: Any) -> Any:
    weight, bias = _tuple(state, _PAIR)
    _require_tensors([weight], [bias])
    check_linear(weight, bias)
    return plain(weight), None if bias is None else kept(bias)


def _convolution(rank: int) -> Callable[[Any], Any]:
    def check(state: Any) -> Any:
        require(isinstance(state, tuple) and bool(state), "the state is no tuple")
        read = _old_convolution if isinstance(state[0], Tensor) else _new_convolution
        weight, bias, numbers = read(state, rank)
        _require_tensors([weight], [bias])
        length = rank * len(_PARTS)
        fits = len(numbers) == length + 3 and numbers[0] == rank and numbers[-1] in (0, 1)
        require(fits, f"{numbers} are no numbers of a convolution")
        parts = [numbers[1 + i : 1 + i + rank] for i in range(0, length, rank)]
        shape = dict(zip(_PARTS, parts, strict=True))
        transposed = numbers[-1] == 1
        check_convolution(weight, bias, shape, numbers[-2], rank, transposed=transposed)
        config = torch.tensor(numbers, dtype=torch.int16)
        return "2", [config, plain(weight)], [None if bias is None else kept(bias)]

    return check


def _new_convolution(state: Any, rank: int) -> tuple[Any, Any, list[int]]:
    """Weight, bias and numbers of a state with a version: 2 or 3."""
    version, first, second = _tuple(state, 3)
    require(isinstance(first, list) and isinstance(second, list), "the state has no lists")
    if version == "2":
        require(len(first) == _PAIR and len(second) <= 1, "the state has not two tensors")
        config, weight = first
        _require_tensors([config, weight], [])
        fits = config.dim() == 1 and config.dtype == torch.int16
        require(fits, "the numbers of a convolution are not of 16 bits")
        return weight, second[0] if second else None, config.tolist()
    require(type(version) is int and version == 3, f"{version!r} is no version of the state")
    require(len(second) == _PAIR + 1, "the state has not a weight and a bias")
    require(all(type(number) is int for number in first), "the state has no numbers")
    return second[1], second[2], list(first)  # the first is never there


def _old_convolution(state: Any, rank: int) -> tuple[Any, Any, list[int]]:
    """The same of a state of version 1: each number is a tensor."""
    weight, bias, stride, padding, dilation, groups = _tuple(state, _OLD_PARTS)
    numbers = [rank]
    for part in (stride, padding, dilation):
        require(isinstance(part, list), "the state has no lists")
        numbers += [_number(item) for item in part]
    return weight, bias, [*numbers, *[0] * rank, _number(groups), 0]


def _number(item: Any) -> int:
    fits = isinstance(item, Tensor) and item.dim() == 1 and item.numel() == 1
    require(fits and not item.is_floating_point(), "the state has no numbers")
    return int(item.item())


def _embedding(state: Any) -> Any:
    version, tensors, floats, ints = _tuple(state, 4)
    require(version == 1 and floats == [], f"{version!r} is no version of the state")
    require(isinstance(tensors, list) and len(tensors) == 1, "the state has not one tensor")
    tensors = [item.rows if isinstance(item, SubByteRows) else item for item in tensors]
    _require_tensors(tensors, [])
    check_embedding(tensors[0])
    require(ints == [_BITS[tensors[0].dtype]], f"{ints} bits for rows of {tensors[0].dtype}")
    return version, [plain(tensors[0])], floats, ints


def _cell(state: Any) -> Any:
    kind, tensors, floats, ints, packed = _tuple(state, 5)
    is_known = isinstance(kind, str) and kind in _CELLS
    require(is_known, f"a recurrent cell of the kind {kind!r} is not made")
    biases, flags = _CELLS[kind]
    fits = all(isinstance(part, list) for part in (tensors, floats, ints, packed))
    fits = fits and len(tensors) == biases and len(ints) <= flags
    require(fits, "the state has other parts")
    require(len(packed) == _PAIR and not floats, "a recurrent cell has two packed weights")
    _require_tensors(tensors, [])
    fits = all(t.dim() == 1 and t.dtype == torch.float32 for t in tensors)
    require(fits and all(n in (0, 1) for n in ints), "the state has other parts")
    return kind, [kept(tensor) for tensor in tensors], floats, ints, packed


def _tuple(state: Any, length: int) -> Sequence[Any]:
    fits = isinstance(state, tuple) and len(state) == length
    require(fits, f"the state is no tuple of {length} values")
    found: Sequence[Any] = state
    return found


def _require_tensors(needed: Sequence[Any], optional: Sequence[Any]) -> None:
    fits = all(isinstance(item, Tensor) for item in needed)
    fits = fits and all(item is None or isinstance(item, Tensor) for item in optional)
    require(fits, "the state has values in the place of tensors")
    found = [item for item in (*needed, *optional) if item is not None]
    fits = all(t.layout is torch.strided and t.device.type == "cpu" for t in found)
    require(fits, "the state has tensors that are sparse or on another device")


_STATES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "quantized.Conv2dPackedParamsBase": _convolution(2),
    "quantized.Conv3dPackedParamsBase": _convolution(3),
    _ROWS: _embedding,
    "quantized.LinearPackedParamsBase": _linear,
    "rnn.CellParamsBase": _cell,
}
