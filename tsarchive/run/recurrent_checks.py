"""Checks before recurrent networks, whose kernels count on weights and states for each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from .checks import Check, Given, require, room_of

_MATRIX = 2
_SEQUENCE = 3
_PAIR = 2


def _layers(given: Given, hx: Sequence[Tensor], per_layer: int) -> None:
    """``hx`` and ``params`` have what each layer and direction of the network takes."""
    num_layers: int = given["num_layers"]
    params: Sequence[Any] = given["params"]
    count = num_layers * (2 if given["bidirectional"] else 1)
    require(num_layers > 0, f"a recurrent network has {num_layers} layers")
    require(len(params) == count * per_layer, f"{len(params)} weights for {count} layers")
    for state in hx:
        fits = state.dim() == _SEQUENCE and state.size(0) == count
        require(fits, f"a state of sizes {list(state.size())} for {count} layers")


def _input(given: Given, state: Tensor) -> None:
    """A sequence, which may come without batches, or the rows of all its steps."""
    if "batch_sizes" in given:
        _packed(given["data"], given["batch_sizes"], state)
        return
    data: Tensor = given["input"]
    require(data.dim() in (_MATRIX, _SEQUENCE), f"a sequence of {data.dim()} dimensions")


def _packed(data: Tensor, batch_sizes: Tensor, state: Tensor) -> None:
    sizes = _steps(data, batch_sizes)
    fits = data.dim() == _MATRIX and sizes[0] == state.size(1)
    require(fits, f"batch_sizes do not fit a state of sizes {list(state.size())}")


def _steps(data: Tensor, batch_sizes: Tensor) -> list[int]:
    """``batch_sizes``: how many rows of ``data`` each step takes, never more than before."""
    is_list = batch_sizes.dim() == 1 and batch_sizes.dtype == torch.int64
    require(is_list and batch_sizes.device.type == "cpu", "batch_sizes is no list of sizes")
    sizes: list[int] = batch_sizes.tolist()
    falls = all(first >= second for first, second in pairwise(sizes))
    fits = bool(sizes) and falls and sizes[-1] > 0 and data.dim() > 0
    require(fits and sum(sizes) == data.size(0), f"batch_sizes do not fit {list(data.size())}")
    return sizes


def _padded(given: Given) -> None:
    _steps(given["data"], given["batch_sizes"])


def _two_states(hx: Sequence[Tensor]) -> None:
    require(len(hx) == _PAIR, f"an LSTM has 2 states, not {len(hx)}")
    require(all(state.dim() > 0 for state in hx), "a state of an LSTM has no dimensions")


def _lstm(given: Given) -> None:
    hx = given["hx"]
    _two_states(hx)
    is_projected = hx[0].size(-1) != hx[1].size(-1)
    per_layer = (4 if given["has_biases"] else 2) + is_projected
    _layers(given, hx, per_layer)
    _input(given, hx[0])
    _gates(given["params"], per_layer, 4 * hx[1].size(-1), skips_last=is_projected)
    _batches(given, hx)
    _widths(given, hx, per_layer)


def _batches(given: Given, hx: Sequence[Tensor]) -> None:
    """Kernels of oneDNN write to states as many rows as the input has batches."""
    batches: int = hx[0].size(1)
    if "batch_sizes" not in given and given["input"].dim() == _SEQUENCE:
        batches = given["input"].size(0 if given["batch_first"] else 1)
    for state in hx:
        fits = state.size(1) == batches
        require(fits, f"a state of sizes {list(state.size())} for {batches} batches")


def _widths(given: Given, hx: Sequence[Tensor], per_layer: int) -> None:
    """Kernels of oneDNN read weights as wide as what they multiply."""
    directions = 2 if given["bidirectional"] else 1
    data: Tensor = given["data"] if "batch_sizes" in given else given["input"]
    params: Sequence[Tensor] = given["params"]
    hidden: int = hx[0].size(-1)
    for first in range(0, len(params), per_layer):
        is_lowest = first < directions * per_layer
        _width(params[first], data.size(-1) if is_lowest else directions * hidden)
        _width(params[first + 1], hidden)
        for bias in params[first + 2 : first + 4] if given["has_biases"] else ():
            require(bias.dim() == 1, f"a bias of sizes {list(bias.size())}")


def _width(weight: Tensor, columns: int) -> None:
    fits = weight.dim() == _MATRIX and weight.size(1) == columns
    require(fits, f"a weight of sizes {list(weight.size())} for {columns} columns")


def _rnn(gates: int) -> Check:
    def check(given: Given) -> None:
        hx: Tensor = given["hx"]
        per_layer = 4 if given["has_biases"] else 2
        _layers(given, [hx], per_layer)
        _input(given, hx)
        _gates(given["params"], per_layer, gates * hx.size(-1))

    return check


def _gates(
    params: Sequence[Tensor], per_layer: int, rows: int, *, skips_last: bool = False
) -> None:
    """Results are cut into gates, which are as many as the rows of a weight tell."""
    for i, weight in enumerate(params):
        if not (skips_last and i % per_layer == per_layer - 1):
            _rows(weight, rows)


def _rows(weight: Tensor, rows: int) -> None:
    fits = weight.dim() > 0 and weight.size(0) == rows
    require(fits, f"a weight of sizes {list(weight.size())} for {rows} rows of gates")


def _quantized_lstm(given: Given) -> None:
    hx = given["hx"]
    _two_states(hx)
    _quantized(given, hx, 4)


def _quantized_gru(given: Given) -> None:
    _quantized(given, [given["hx"]], 3)


def _quantized(given: Given, hx: Sequence[Tensor], gates: int) -> None:
    """Old archives give two packed weights for each layer where a cell holds both today."""
    pairs = [_pair(param) for param in given["params"]]
    _layers(given, hx, _PAIR if None in pairs else 1)
    _input(given, hx[0])
    for param, pair in zip(given["params"], pairs, strict=True):
        for packed in pair or [param]:
            _packed_rows(packed, gates * hx[-1].size(-1))


def _pair(param: Any) -> Sequence[Any] | None:
    """The packed weights of input and state that a cell holds."""
    if _is(param, "rnn.CellParamsBase"):
        found: Sequence[Any] = param._get_method("__getstate__")()[-1]
        return found
    return None


def _is(value: Any, name: str) -> bool:
    is_native = isinstance(value, torch.ScriptObject)
    return is_native and value._type().annotation_str == f"__torch__.torch.classes.{name}"


def _packed_rows(packed: Any, rows: int) -> None:
    """A tensor in the place of packed weights is refused by torch."""
    if not _is(packed, "quantized.LinearPackedParamsBase"):
        return
    bias = packed._get_method("bias")()
    found = packed._get_method("unpack")()[0].size(0) if bias is None else room_of(bias)
    require(found == rows, f"packed weights of {found} rows for {rows} rows of gates")


def _state_fits(data: Tensor, hx: Tensor) -> None:
    fits = data.dim() == _MATRIX and hx.dim() == _MATRIX and data.size(0) == hx.size(0)
    require(fits, f"a state of sizes {list(hx.size())} for {list(data.size())}")


def _cell(gates: int) -> Check:
    def check(given: Given) -> None:
        hx = given["hx"]
        states = [hx] if isinstance(hx, Tensor) else hx
        if not isinstance(hx, Tensor):
            _two_states(hx)
        for state in states:
            _state_fits(given["input"], state)
        for name in ("w_ih", "w_hh"):
            check_rows = _rows if isinstance(given[name], Tensor) else _packed_rows
            check_rows(given[name], gates * states[-1].size(-1))

    return check


_CELL_GATES: Final = {"gru": 3, "lstm": 4, "rnn_relu": 1, "rnn_tanh": 1}
RECURRENT_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "aten::_pad_packed_sequence": _padded,
        "aten::gru": _rnn(3),
        "aten::lstm": _lstm,
        "aten::quantized_gru": _quantized_gru,
        "aten::quantized_lstm": _quantized_lstm,
        "aten::rnn_relu": _rnn(1),
        "aten::rnn_tanh": _rnn(1),
        **{f"aten::{kind}_cell": _cell(gates) for kind, gates in _CELL_GATES.items()},
        **{
            f"quantized::quantized_{kind}_cell_dynamic": _cell(gates)
            for kind, gates in _CELL_GATES.items()
        },
    }
)
