"""Checks before operators of torch that models need and that trust their arguments.

Each was found by calling it with arguments of the right types and wrong sizes or values: without
the check it reads or writes outside of its tensors, or ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError

__all__ = ["guarded"]

Check = Callable[..., None]
_MATRIX = 2
_SEQUENCE = 3
_PAIR = 2
_BAG_MODES = 3
_LONG = 4


def guarded(full_name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """``run`` behind what has to hold before it; ``run`` itself where nothing has to."""
    check = _CHECKS.get(full_name)
    if check is not None:
        return _behind(check, run)
    copied = _COPIED_ARGUMENTS.get(full_name)
    if copied is not None:
        return _with_copies(copied, run)
    return _copying(run) if full_name in _COPIED_RESULTS else run


def _behind(check: Check, run: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        return run(*args, **kwargs)

    return checked


def _with_copies(count: int, run: Callable[..., Any]) -> Callable[..., Any]:
    def copied(*args: Any, **kwargs: Any) -> Any:
        return run(*(index.clone() for index in args[:count]), *args[count:], **kwargs)

    return copied


def _copying(run: Callable[..., Any]) -> Callable[..., Any]:
    def copied(*args: Any) -> Any:
        return run(*args).clone()

    return copied


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ScriptError(message)


def _layers(
    hx: Sequence[Tensor], params: Sequence[Any], per_layer: int, num_layers: int, both_ways: bool
) -> None:
    """``hx`` and ``params`` have what each layer and direction of a recurrent network takes."""
    count = num_layers * (2 if both_ways else 1)
    _require(num_layers > 0, f"a recurrent network has {num_layers} layers")
    _require(len(params) == count * per_layer, f"{len(params)} weights for {count} layers")
    for state in hx:
        fits = state.dim() == _SEQUENCE and state.size(0) == count
        _require(fits, f"a state of sizes {list(state.size())} for {count} layers")


def _per_layer(hx: Sequence[Tensor], has_biases: bool) -> int:
    is_projected = len(hx) == _PAIR and hx[0].size(-1) != hx[1].size(-1)
    return (4 if has_biases else 2) + is_projected


def _sequence(data: Tensor) -> None:
    """A sequence may come without batches."""
    fits = data.dim() in (_MATRIX, _SEQUENCE)
    _require(fits, f"a sequence of {data.dim()} dimensions")


def _steps(data: Tensor, batch_sizes: Tensor) -> list[int]:
    """``batch_sizes``: how many rows of ``data`` each step takes, never more than before."""
    is_list = batch_sizes.dim() == 1 and batch_sizes.dtype == torch.int64
    _require(is_list and batch_sizes.device.type == "cpu", "batch_sizes is no list of sizes")
    sizes: list[int] = batch_sizes.tolist()
    falls = all(first >= second for first, second in pairwise(sizes))
    fits = bool(sizes) and falls and sizes[-1] > 0 and data.dim() > 0
    _require(fits and sum(sizes) == data.size(0), f"batch_sizes do not fit {list(data.size())}")
    return sizes


def _packed(data: Tensor, batch_sizes: Tensor, state: Tensor) -> None:
    sizes = _steps(data, batch_sizes)
    fits = data.dim() == _MATRIX and sizes[0] == state.size(1)
    _require(fits, f"batch_sizes do not fit a state of sizes {list(state.size())}")


def _padded(data: Tensor, batch_sizes: Tensor, *_: Any) -> None:
    _steps(data, batch_sizes)


def _two_states(hx: Sequence[Tensor]) -> None:
    _require(len(hx) == _PAIR, f"an LSTM has 2 states, not {len(hx)}")
    _require(all(state.dim() > 0 for state in hx), "a state of an LSTM has no dimensions")


def _lstm(
    data: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool,
    num_layers: int, _dropout: float, _train: bool, bidirectional: bool, *_: Any,
) -> None:  # fmt: skip
    _two_states(hx)
    _layers(hx, params, _per_layer(hx, has_biases), num_layers, bidirectional)
    _sequence(data)


def _lstm_packed(
    data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor],
    has_biases: bool, num_layers: int, _dropout: float, _train: bool, bidirectional: bool,
) -> None:  # fmt: skip
    _two_states(hx)
    _layers(hx, params, _per_layer(hx, has_biases), num_layers, bidirectional)
    _packed(data, batch_sizes, hx[0])


def _rnn(
    data: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int,
    _dropout: float, _train: bool, bidirectional: bool, *_: Any,
) -> None:  # fmt: skip
    _layers([hx], params, 4 if has_biases else 2, num_layers, bidirectional)
    _sequence(data)


def _rnn_packed(
    data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, _dropout: float, _train: bool, bidirectional: bool,
) -> None:  # fmt: skip
    _layers([hx], params, 4 if has_biases else 2, num_layers, bidirectional)
    _packed(data, batch_sizes, hx)


def _quantized_lstm(
    data: Tensor, hx: Sequence[Tensor], params: Sequence[Any], _has_biases: bool,
    num_layers: int, _dropout: float, _train: bool, bidirectional: bool, *_: Any, **__: Any,
) -> None:  # fmt: skip
    _two_states(hx)
    _layers(hx, params, 1, num_layers, bidirectional)
    _sequence(data)


def _quantized_lstm_packed(
    data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Any],
    _has_biases: bool, num_layers: int, _dropout: float, _train: bool, bidirectional: bool,
    **_: Any,
) -> None:  # fmt: skip
    _two_states(hx)
    _layers(hx, params, 1, num_layers, bidirectional)
    _packed(data, batch_sizes, hx[0])


def _quantized_gru(
    data: Tensor, hx: Tensor, params: Sequence[Any], _has_biases: bool, num_layers: int,
    _dropout: float, _train: bool, bidirectional: bool, *_: Any,
) -> None:  # fmt: skip
    _layers([hx], params, 1, num_layers, bidirectional)
    _sequence(data)


def _quantized_gru_packed(
    data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Any], _has_biases: bool,
    num_layers: int, _dropout: float, _train: bool, bidirectional: bool,
) -> None:  # fmt: skip
    _layers([hx], params, 1, num_layers, bidirectional)
    _packed(data, batch_sizes, hx)


def _cell(data: Tensor, hx: Tensor, *_: Any) -> None:
    fits = data.dim() == _MATRIX and hx.dim() == _MATRIX and data.size(0) == hx.size(0)
    _require(fits, f"a state of sizes {list(hx.size())} for {list(data.size())}")


def _lstm_cell(data: Tensor, hx: Sequence[Tensor], *_: Any) -> None:
    _two_states(hx)
    for state in hx:
        _cell(data, state)


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> None:
    """``g`` has one number for each slice of ``v`` along ``dim``; -1 means the whole of it."""
    _require(v.numel() > 0, "the weight has no elements")
    _require(-1 <= dim < v.dim(), f"dimension {dim} of a weight that has {v.dim()}")
    wanted = [v.size(i) if i == dim else 1 for i in range(v.dim())]
    fits = g.numel() == 1 if dim == -1 else list(g.size()) == wanted
    _require(fits, f"norms of sizes {list(g.size())} for a weight of {list(v.size())}")


def _ctc(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any
) -> None:
    """Targets are labels, and lengths are not negative."""
    labels = log_probs.size(-1) if log_probs.dim() else 0
    _require(_within(targets, 0, labels), f"targets that are no labels from 0 to {labels - 1}")
    for lengths in (input_lengths, target_lengths):
        values = lengths if isinstance(lengths, Tensor) else torch.tensor(lengths)
        _require(_within(values, 0, None), "a length is negative")


def _within(values: Tensor, low: int, below: int | None) -> bool:
    if not values.numel():
        return True
    return int(values.min()) >= low and (below is None or int(values.max()) < below)


def _bags(_weight: Any, indices: Tensor, offsets: Tensor | None = None, *_: Any, **__: Any) -> None:
    """Offsets rise from 0, and stay within the indices."""
    if offsets is None:
        return
    fits = offsets.dim() == 1 and _within(offsets, 0, indices.numel() + 1)
    fits = fits and bool((offsets[1:] >= offsets[:-1]).all())
    _require(fits, f"offsets of bags that are not within {indices.numel()} indices")


def _embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, _scale: bool = False, mode: int = 0,
    _sparse: bool = False, per_sample_weights: Tensor | None = None, *_: Any,
) -> None:  # fmt: skip
    _bags(weight, indices, offsets)
    _require(0 <= mode < _BAG_MODES, f"{mode} is no mode of embedding_bag")
    fits = per_sample_weights is None or per_sample_weights.size() == indices.size()
    _require(fits and indices.dim() == 1, "indices and their weights are not lists of one length")


def _packable(weight: Tensor, *_: Any) -> None:
    fits = weight.dim() == _MATRIX and weight.numel() > 0
    _require(fits, f"a weight of sizes {list(weight.size())} cannot be packed")


def _range(_start: Any, _end: Any, step: Any = 1, *, dtype: int | None = None, **_: Any) -> None:
    """torch divides by the step as an integer when the result has integers."""
    is_whole = dtype is not None and dtype <= _LONG
    _require(not (is_whole and int(step.real) == 0), "step must be nonzero")


def _attention(_query: Any, _key: Any, _value: Any, _size: int, heads: int, *_: Any) -> None:
    _require(heads > 0, f"attention with {heads} heads")


def _grouped_mm(one: Tensor, two: Tensor, offs: Tensor | None = None, *_: Any, **__: Any) -> None:
    """Offsets rise within the dimension that they divide."""
    if offs is None or not (one.dim() and two.dim()):
        return
    divided = two.size(-1) if one.dim() == _SEQUENCE else one.size(two.dim() - _SEQUENCE)
    fits = _within(offs, 0, divided + 1) and bool((offs[1:] >= offs[:-1]).all())
    _require(fits, f"offsets of groups that are not within {divided}")


def _encoder_layer(_source: Any, _size: int, heads: int, *_: Any) -> None:
    _require(heads > 0, f"attention with {heads} heads")


def _batch_norm(
    _data: Any, _weight: Any, _bias: Any, mean: Any, variance: Any, training: bool, *_: Any
) -> None:
    has_both = mean is not None and variance is not None
    _require(training or has_both, "running statistics are needed where there is no training")


def _copy(target: Tensor, *_: Any, **__: Any) -> None:
    is_plain = target.layout in (torch.strided, torch.sparse_coo)
    _require(is_plain, f"a tensor of layout {target.layout} cannot be copied to")


_RECURRENT: Final[Mapping[str, tuple[Check, Check]]] = {
    "aten::lstm": (_lstm, _lstm_packed),
    "aten::gru": (_rnn, _rnn_packed),
    "aten::rnn_tanh": (_rnn, _rnn_packed),
    "aten::rnn_relu": (_rnn, _rnn_packed),
    "aten::quantized_lstm": (_quantized_lstm, _quantized_lstm_packed),
    "aten::quantized_gru": (_quantized_gru, _quantized_gru_packed),
}
_CELLS: Final = ("gru", "rnn_relu", "rnn_tanh")
_PREPACKED: Final = (
    "embedding_bag_2bit_prepack",
    "embedding_bag_2bit_prepack_with_rowwise_min_max",
    "embedding_bag_4bit_prepack",
    "embedding_bag_4bit_prepack_with_rowwise_min_max",
    "embedding_bag_byte_prepack",
    "embedding_bag_byte_prepack_with_rowwise_min_max",
    "linear_prepack_fp16",
)
_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **{f"{name}.input": checks[0] for name, checks in _RECURRENT.items()},
        **{f"{name}.data": checks[1] for name, checks in _RECURRENT.items()},
        "aten::_grouped_mm": _grouped_mm,
        "aten::_native_multi_head_attention": _attention,
        "aten::_pad_packed_sequence": _padded,
        "aten::_transformer_encoder_layer_fwd": _encoder_layer,
        "aten::_weight_norm": _weight_norm,
        "aten::ctc_loss.IntList": _ctc,
        "aten::ctc_loss.Tensor": _ctc,
        "aten::copy": _copy,
        "aten::embedding_bag": _embedding_bag,
        "aten::embedding_bag.padding_idx": _embedding_bag,
        "aten::native_batch_norm": _batch_norm,
        "aten::range.step": _range,
        "quantized::embedding_bag_4bit": _bags,
        "quantized::embedding_bag_byte": _bags,
        "quantized::embedding_bag_2bit_rowwise_offsets": _bags,
        "quantized::embedding_bag_4bit_rowwise_offsets": _bags,
        "quantized::embedding_bag_byte_rowwise_offsets": _bags,
        "_quantized::linear_prepack_fp16": _packable,
        **{f"quantized::{name}": _packable for name in _PREPACKED},
        **{f"quantized::quantized_{kind}_cell_dynamic": _cell for kind in _CELLS},
        "quantized::quantized_lstm_cell_dynamic": _lstm_cell,
    }
)
# The indices of a sparse tensor are checked when it is made: nothing may write to them after that.
_COPIED_ARGUMENTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "aten::sparse_coo_tensor.indices": 1,
        "aten::sparse_coo_tensor.indices_size": 1,
        **{
            f"aten::sparse_{kind}_tensor.{form}{size}": 2
            for kind, form in (
                ("compressed", "comp_plain_value"),
                ("csr", "crow_col_value"),
                ("csc", "ccol_row_value"),
                ("bsr", "crow_col_value"),
                ("bsc", "ccol_row_value"),
            )
            for size in ("", "_size")
        },
    }
)
_COPIED_RESULTS: Final = frozenset(
    f"aten::{name}"
    for name in ("indices", "ccol_indices", "col_indices", "crow_indices", "row_indices")
)
