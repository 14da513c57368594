"""States of packed weights, looked at before the ``__setstate__`` of C++ is given them.

It packs what it finds: scales that are missing, lengths that do not fit and strides of zero would
read outside of tensors or end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from .checks import plain, require
from .packed_checks import check_convolution, check_embedding, check_linear, kept, with_own_scales

_NATIVE: Final = "__torch__.torch.classes."
_ROWS: Final = "quantized.EmbeddingPackedParamsBase"
_PARTS: Final = ("stride", "padding", "dilation", "output_padding")
_PAIR = 2
_OLD_PARTS = 6
# Kinds of recurrent cells: how many biases and flags they have; old states have no flags.
_CELLS: Final = {"quantized_dynamic": (2, 1), "quantized_fp16": (0, 0)}
_BITS: Final = {torch.quint8: 8, torch.quint4x2: 4}


@dataclass(frozen=True, slots=True)
class SubByteRows:
    """A stored tensor of several elements a byte, of which only packed weights are made."""

    rows: Tensor


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
    return plain(weight), _kept(bias)


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
        return "2", [config, plain(weight)], [_kept(bias)]

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


def _kept(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else kept(bias)


_STATES: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "quantized.Conv2dPackedParamsBase": _convolution(2),
        "quantized.Conv3dPackedParamsBase": _convolution(3),
        _ROWS: _embedding,
        "quantized.LinearPackedParamsBase": _linear,
        "rnn.CellParamsBase": _cell,
    }
)
