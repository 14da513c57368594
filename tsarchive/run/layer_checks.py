"""Checks before operators of layers: windows, gradients, recurrent networks.

Kernels of convolutions and pools count in 32 or 64 bits and do not check for overflow, so
numbers are bounded here, and positions of windows computed in integers of any width.

Formulas of differentiation trust that the size of a gradient is that of the operator's result.
Some write wherever the saved indices point, and torch notices a write to these only through the
tensor that was saved. So operators save tensors that nobody else holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError

from .checks import Given, check_before, is_within, require, room_of

IsHarmless = Callable[[Any], bool]
"""Tells whether a constant, or each item of a constant list, is harmless."""

Numbers = Sequence[int] | int

_FAR: Final = 1 << 31
_UNUSUAL: Final = 1 << 12
# So many elements, even padded up to so many steps, are no row that is too long: channels are
# at most as many as the elements of the weight.
_FEW_STEPS: Final = 8
_SMALL: Final = 1 << 23
_CEIL_MODE, _DIVISOR = 4, 6  # where they stand among the arguments of an average pool
_WINDOW: Final = ("kernel_size", "stride", "padding", "dilation")
_STEPS: Final = ("stride", "padding", "dilation", "output_padding")
_PADS: Final = (
    "pad", *(f"{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)),
)  # fmt: skip
_CONVOLUTIONS: Final = (
    "_convolution", "_convolution_mode", "convolution",
    *(f"{name}{rank}d" for name in ("conv", "conv_transpose") for rank in (1, 2, 3)),
)  # fmt: skip


@check_before(*_CONVOLUTIONS)
def check_steps(**given: Any) -> None:
    """Numbers of a convolution that its kernels, and those of its gradient, can count with."""
    for name in _STEPS:
        numbers = given.get(name, ())
        if not isinstance(numbers, str) and _most(numbers) >= _FAR:
            raise ScriptError(f"{name} {numbers} of a convolution")
    data, weight = given["input"], given["weight"]
    rank = weight.dim() - 2
    is_transposed = given.get("transposed", "output_padding" in given)
    wants_gradient = torch.is_grad_enabled() and (data.requires_grad or weight.requires_grad)
    may_differentiate = is_transposed or wants_gradient or "grad_output" in given
    if data.dim() > rank > 0 and may_differentiate:
        channels = weight.size(1) * given["groups"] if is_transposed else data.size(-rank - 1)
        sizes = _transposed_sizes(given, rank) if is_transposed else list(data.size())[-rank:]
        # oneDNN counts a row of the larger side times the stride in 32 bits, where there are gaps.
        for size, stride in zip(sizes, _spread(given["stride"], rank), strict=True):
            columns = -(-size // stride) * stride if stride > 1 else 0
            is_near = channels * columns * stride < _FAR // 2
            require(is_near, f"stride {stride} of a convolution over {channels} rows of {size}")


def convolved_sizes(given: Given) -> list[int]:
    """Those that the convolution gives."""
    data, kernel = (list(given[name].shape)[2:] for name in ("input", "weight"))
    stride, padding, dilation = (
        _spread(given[name], len(kernel)) for name in ("stride", "padding", "dilation")
    )
    numbers = zip(data, kernel, stride, padding, dilation, strict=True)
    return [(n + 2 * more - far * (k - 1) - 1) // step + 1 for n, k, step, more, far in numbers]


def _transposed_sizes(given: Given, rank: int) -> Iterator[int]:
    """Those that a transposed convolution gives."""
    sizes, kernel = (list(given[name].size())[-rank:] for name in ("input", "weight"))
    steps = (_spread(given[name], rank) for name in _STEPS)
    for n, k, step, less, far, more in zip(sizes, kernel, *steps, strict=True):
        yield (n - 1) * step - 2 * less + far * (k - 1) + more + 1


def _max_pool(rank: int, self: Tensor, ceil_mode: bool, **given: Any) -> None:
    """Check each dimension of space."""
    require(self.dim() >= rank, f"a pool of {rank} dimensions over sizes {list(self.size())}")
    numbers: list[Numbers] = [given.get(name, 1) for name in _WINDOW]
    numbers[1] = numbers[1] or numbers[0]
    sizes = list(self.size())[-rank:]
    for window in zip(sizes, *(_spread(found, rank) for found in numbers), strict=True):
        _check_window(*window, ceil_mode=ceil_mode)


def _average_pool(rank: int, self: Tensor, **given: Any) -> None:
    _max_pool(rank, self, **given)
    is_divided = self.is_floating_point() or given.get("divisor_override") != -1
    require(is_divided, "the least integer cannot be divided by -1")


for _rank in (1, 2, 3):
    check_before(f"max_pool{_rank}d", f"max_pool{_rank}d_with_indices")(partial(_max_pool, _rank))
    check_before(f"avg_pool{_rank}d")(partial(_average_pool, _rank))


def _spread(numbers: Numbers, count: int) -> list[int]:
    """One number for each dimension of space; a single one is that of all."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    found = listed * count if len(listed) == 1 else listed
    require(len(found) == count, f"{len(found)} numbers for {count} dimensions of space")
    return found


def _check_window(
    size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil_mode: bool
) -> None:
    """Each window has an element of the input: torch divides by how many there are.

    A window that begins in the padding goes in steps of ``dilation`` until it is within.
    """
    numbers = (kernel, stride, padding, dilation)
    told = f"kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation} of a pool"
    require(max(numbers) < _FAR and min(kernel, stride, dilation) > 0 <= padding, told)
    reach = dilation * (kernel - 1) + 1
    room = size + 2 * padding - reach + (stride - 1 if ceil_mode else 0)
    require(reach < _FAR and 2 * padding <= reach and room >= 0, f"{told} over {size} elements")
    if padding and dilation > 1:
        starts = range(-padding, min(0, room // stride * stride - padding + 1), stride)
        require(all(start % dilation < size for start in starts), f"{told} over {size} elements")


@check_before(*_PADS)
def _pad(mode: str = "", pad: Sequence[int] = (), padding: Sequence[int] = (), **_: Any) -> None:
    if mode == "constant":
        return  # which narrows and fills, and checks both
    numbers = list(pad or padding)
    require(all(map(_is_near, numbers)), f"padding by {numbers}")


def _is_near(number: int) -> bool:
    return -_FAR < number < _FAR


@check_before("col2im", "im2col")
def _columns(**given: Any) -> None:
    """The kernel multiplies the numbers of windows of both dimensions."""
    for name in (*_WINDOW, "output_size"):
        numbers = given.get(name, ())
        is_near = all(-_FAR < 2 * number < _FAR for number in numbers)
        require(is_near, f"{name} {list(numbers)} of columns")


_NEAR: Final[Mapping[str, IsHarmless]] = {
    **dict.fromkeys(_STEPS, lambda number: isinstance(number, str) or number < _FAR),
    "stride": lambda number: number == 1,
}
_USUAL: Final[Mapping[str, IsHarmless]] = {
    **dict.fromkeys(("kernel_size", "stride", "padding"), lambda number: number < _UNUSUAL),
    "dilation": lambda number: number == 1,
    "divisor_override": lambda number: number is None,
}
HARMLESS_WINDOWS: Final[Mapping[str, Mapping[str, IsHarmless]]] = {
    **{f"aten::{name}": {"pad": _is_near, "padding": _is_near} for name in _PADS},
    **{f"aten::{name}": _NEAR for name in _CONVOLUTIONS},
    **{f"aten::{kind}_pool{rank}d": _USUAL for kind in ("avg", "max") for rank in (1, 2, 3)},
}
"""Arguments, where an operator has them, that make a call harmless if constants fulfil these."""


def _is_small_convolution(
    data: Tensor, weight: Tensor, _bias: Tensor | None = None, stride: Numbers = 1,
    padding: Numbers | str = 0, dilation: Numbers = 1, *_: Any,
) -> bool:  # fmt: skip
    is_small = data.numel() < _SMALL and weight.numel() < _SMALL and _most(stride) <= _FEW_STEPS
    return is_small and (isinstance(padding, str) or _most(padding) < _FAR > _most(dilation))


def _is_small_transposed(
    data: Tensor, weight: Tensor, _bias: Tensor | None = None, stride: Numbers = 1,
    padding: Numbers = 0, _output_padding: Numbers = 0, _groups: int = 1, dilation: Numbers = 1,
) -> bool:  # fmt: skip
    is_small = data.numel() * weight.numel() < _SMALL
    return is_small and max(_most(stride), _most(dilation)) <= _FEW_STEPS and _most(padding) < _FAR


def _is_small_of_either(
    data: Tensor, weight: Tensor, bias: Tensor | None, stride: Numbers, padding: Numbers,
    dilation: Numbers, transposed: bool, *_: Any,
) -> bool:  # fmt: skip
    return not transposed and _is_small_convolution(data, weight, bias, stride, padding, dilation)


def _is_usual_max_pool(
    _data: Tensor, kernel: Numbers, stride: Numbers = (), padding: Numbers = 0,
    dilation: Numbers = 1, *_: Any,
) -> bool:  # fmt: skip
    return max(_most(kernel), _most(stride), _most(padding)) < _UNUSUAL and _most(dilation) == 1


def _is_usual_average_pool(*given: Any) -> bool:
    is_usual = _is_usual_max_pool(*given[:_CEIL_MODE])
    return is_usual and (len(given) <= _DIVISOR or given[_DIVISOR] is None)


def _most(numbers: Numbers) -> int:
    if isinstance(numbers, int):
        return numbers
    return max(numbers) if numbers else 0  # torch.compile knows no max with a default


def _is_usual_cell(gates: int, data: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, *_: Any) -> bool:
    states = (hx,) if isinstance(hx, Tensor) else hx
    if data.dim() != _MATRIX or len(states) != (_PAIR if gates == _LSTM_GATES else 1):
        return False
    for state in states:
        if state.dim() != _MATRIX or state.size(0) != data.size(0):
            return False
    if w_ih.dim() == 0 or w_hh.dim() == 0:
        return False
    return bool(w_ih.size(0) == gates * states[-1].size(1) == w_hh.size(0))


def _is_strided(data: Tensor, *_: Any) -> bool:
    """For operators that make a tensor like another, in the same dtype."""
    return data.layout is torch.strided


_MAKERS: Final = ("empty", "full", "ones", "zeros")
_LSTM_GATES: Final = 4
_GATES: Final = {"gru": 3, "lstm": _LSTM_GATES, "rnn_relu": 1, "rnn_tanh": 1}
USUAL: Final[Mapping[str, Callable[..., bool]]] = {
    **dict.fromkeys(("aten::_convolution", "aten::convolution"), _is_small_of_either),
    **{f"aten::conv{rank}d": _is_small_convolution for rank in (1, 2, 3)},
    **{f"aten::conv_transpose{rank}d": _is_small_transposed for rank in (1, 2, 3)},
    **{f"aten::max_pool{rank}d": _is_usual_max_pool for rank in (1, 2, 3)},
    **{f"aten::avg_pool{rank}d": _is_usual_average_pool for rank in (1, 2, 3)},
    **{f"aten::{kind}_cell": partial(_is_usual_cell, gates) for kind, gates in _GATES.items()},
    **dict.fromkeys(map("aten::{}_like".format, _MAKERS), _is_strided),
    "aten::layer_norm": lambda data, *_: not data.is_nested,
}
"""Functions that tell from the positional arguments whether a call needs no check."""


_SPATIAL: Final = 2  # dimensions of a convolution before the first of space
_PLANE: Final = 2


@check_before("convolution_backward")
def _convolution_gradient(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None,
    output_mask: Sequence[bool], **numbers: Any,
) -> None:  # fmt: skip
    """The gradient is of the sizes that the convolution gives, its bias of the channels.

    Kernels for transposed ones read outside of their tensors, whatever they are given.
    """
    is_transposed = numbers["transposed"]
    require(not is_transposed, "the gradient of a transposed convolution is not computed")
    tensors, dims = (grad_output, input, weight), weight.dim()
    fits = dims > _SPATIAL and all(_is_like(tensor, weight, dims) for tensor in tensors)
    require(fits, "a gradient, an input and a weight of convolution do not belong together")
    given = {**numbers, "input": input, "weight": weight}
    check_steps(grad_output=grad_output, **given)
    steps = [*numbers["stride"], *numbers["dilation"], numbers["groups"]]
    require(all(step > 0 for step in steps), "steps of convolution that are not positive")
    channels = weight.size(0)
    wanted = [input.size(0), channels, *convolved_sizes(given)]
    found = list(grad_output.size())
    require(found == wanted, f"a gradient of sizes {found} for a convolution that gives {wanted}")
    fits = not output_mask[-1] if bias_sizes is None else list(bias_sizes) == [channels]
    require(fits, f"a bias of sizes {bias_sizes} for {channels} channels")


def _is_like(tensor: Tensor, other: Tensor, dims: int) -> bool:
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized
    return is_dense and tensor.dim() == dims and tensor.dtype is other.dtype


@check_before("max_pool2d_with_indices_backward")
def _max_pool_gradient(grad_output: Tensor, self: Tensor, indices: Tensor, **_: Any) -> None:
    """The kernel adds to the elements that ``indices`` name, wherever these are.

    It goes through the planes of the gradient, which must be as many as those of the data.
    """
    fits = self.dim() > _PLANE and indices.size() == grad_output.size()
    fits = fits and indices.size()[:-_PLANE] == self.size()[:-_PLANE]
    require(fits, f"indices of sizes {list(indices.size())} for {list(self.size())}")
    count = self.size(-1) * self.size(-2)
    require(is_within(indices, count), f"indices that are not within {count} elements")


@check_before("pdist")
def _distances(self: Tensor, **_: Any) -> None:
    """The formula divides by the number of rows."""
    has_formula = self.requires_grad and torch.is_grad_enabled()
    require(not has_formula or (self.dim() > 0 and self.size(0) > 0), "distances of no rows")


_WITH_TARGETS: Final = (
    "aten::cross_entropy_loss", "aten::multi_margin_loss", "aten::multilabel_margin_loss",
    "aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss2d_forward", "aten::nll_loss_forward",
    "aten::nll_loss_nd",
)  # fmt: skip
SAVED_ARGUMENTS: Final[Mapping[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    "aten::ctc_loss": (frozenset({"targets", "input_lengths", "target_lengths"}), ()),
    "aten::embedding": (frozenset({"indices"}), ("scale_grad_by_freq", "sparse")),
    "aten::embedding_bag": (frozenset({"indices", "offsets", "per_sample_weights"}), ()),
    "aten::gather": (frozenset({"index"}), ("sparse_grad",)),
    **dict.fromkeys(_WITH_TARGETS, (frozenset({"target"}), ())),
}
"""Arguments that formulas trust, by operator, and flags: with any, only where one is set."""

SAVES_RESULTS: Final = frozenset(
    {
        "aten::embedding_bag",
        *(f"aten::max_pool{n}d_with_indices" for n in (1, 2, 3)),
        *(f"aten::adaptive_max_pool{n}d" for n in (1, 2, 3)),
    }
)
"""Operators whose formulas trust the indices that they give, behind their first result."""


def for_saving(tensor: Tensor) -> Tensor:
    """A copy of an argument for formulas, where any may follow."""
    return tensor.clone() if torch.is_grad_enabled() else tensor


def with_own_indices(results: Sequence[Tensor]) -> Sequence[Tensor]:
    """The results of an operator, without those that its formula holds."""
    first, *others = results
    return (first, *(other.clone() for other in others)) if first.requires_grad else results


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
        data, sizes = given["data"], _steps(given["data"], given["batch_sizes"])
        fits = data.dim() == _MATRIX and sizes[0] == state.size(1)
        require(fits, f"batch_sizes do not fit a state of sizes {list(state.size())}")
    else:
        dims = given["input"].dim()
        require(dims in (_MATRIX, _SEQUENCE), f"a sequence of {dims} dimensions")


@check_before("_pad_packed_sequence")
def _steps(data: Tensor, batch_sizes: Tensor, **_: Any) -> list[int]:
    """``batch_sizes``: how many rows of ``data`` each step takes, never more than before."""
    is_list = batch_sizes.dim() == 1 and batch_sizes.dtype == torch.int64
    require(is_list and batch_sizes.device.type == "cpu", "batch_sizes is no list of sizes")
    sizes: list[int] = batch_sizes.tolist()
    falls = all(first >= second for first, second in pairwise(sizes))
    fits = bool(sizes) and falls and sizes[-1] > 0 and data.dim() > 0
    require(fits and sum(sizes) == data.size(0), f"batch_sizes do not fit {list(data.size())}")
    return sizes


def _states(hx: Any) -> Sequence[Tensor]:
    """Return the state of a recurrent network, or both of an LSTM."""
    if isinstance(hx, Tensor):
        return [hx]
    require(len(hx) == _PAIR, f"an LSTM has 2 states, not {len(hx)}")
    require(all(state.dim() > 0 for state in hx), "a state of an LSTM has no dimensions")
    states: Sequence[Tensor] = hx
    return states


@check_before("lstm")
def _lstm(**given: Any) -> None:
    hx = _states(given["hx"])
    is_projected = hx[0].size(-1) != hx[1].size(-1)
    per_layer = (4 if given["has_biases"] else 2) + is_projected
    _layers(given, hx, per_layer)
    _input(given, hx[0])
    _gates(given["params"], per_layer, 4 * hx[1].size(-1), skips_last=is_projected)
    # Kernels of oneDNN write to states as many rows as the input has batches.
    batches: int = hx[0].size(1)
    if "batch_sizes" not in given and given["input"].dim() == _SEQUENCE:
        batches = given["input"].size(0 if given["batch_first"] else 1)
    for state in hx:
        fits = state.size(1) == batches
        require(fits, f"a state of sizes {list(state.size())} for {batches} batches")
    _widths(given, hx, per_layer)


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


def _rnn(gates: int, **given: Any) -> None:
    hx: Tensor = given["hx"]
    per_layer = 4 if given["has_biases"] else 2
    _layers(given, [hx], per_layer)
    _input(given, hx)
    _gates(given["params"], per_layer, gates * hx.size(-1))


check_before("gru")(partial(_rnn, 3))
check_before("rnn_relu", "rnn_tanh")(partial(_rnn, 1))


def _gates(
    params: Sequence[Tensor], per_layer: int, rows: int, *, skips_last: bool = False
) -> None:
    """Results are cut into gates, which are as many as the rows of a weight tell."""
    for i, weight in enumerate(params):
        if not (skips_last and i % per_layer == per_layer - 1):
            _rows(weight, rows)


def _rows(weight: Tensor, rows: int) -> None:
    if not (weight.dim() > 0 and weight.size(0) == rows):
        raise ScriptError(f"a weight of sizes {list(weight.size())} for {rows} rows of gates")


def _quantized(gates: int, **given: Any) -> None:
    """Old archives give two packed weights for each layer where a cell holds both today.

    Parameters that are plain tensors are those of ``natives/fbgemm.py``, which checks them.
    """
    if all(isinstance(param, Tensor) for param in given["params"]):
        return
    hx = _states(given["hx"])
    pairs = [_pair(param) for param in given["params"]]
    _layers(given, hx, _PAIR if None in pairs else 1)
    _input(given, hx[0])
    for param, pair in zip(given["params"], pairs, strict=True):
        for packed in pair or [param]:
            _packed_rows(packed, gates * hx[-1].size(-1))


check_before("quantized_gru")(partial(_quantized, 3))
check_before("quantized_lstm")(partial(_quantized, 4))


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
    """torch itself refuses a tensor where packed weights belong."""
    if not _is(packed, "quantized.LinearPackedParamsBase"):
        return
    bias = packed._get_method("bias")()
    found = packed._get_method("unpack")()[0].size(0) if bias is None else room_of(bias)
    require(found == rows, f"packed weights of {found} rows for {rows} rows of gates")


def _cell(gates: int, input: Tensor, hx: Any, **given: Any) -> None:
    states = _states(hx)
    for state in states:
        if not (input.dim() == state.dim() == _MATRIX and input.size(0) == state.size(0)):
            raise ScriptError(f"a state of sizes {list(state.size())} for {list(input.size())}")
    for name in ("w_ih", "w_hh"):
        check_rows = _rows if isinstance(given[name], Tensor) else _packed_rows
        check_rows(given[name], gates * states[-1].size(-1))


for _kind, _count in _GATES.items():
    _check = partial(_cell, _count)
    check_before(f"{_kind}_cell", f"quantized::quantized_{_kind}_cell_dynamic")(_check)
