"""Checks before convolutions, pools and paddings: where their windows lie.

Kernels count in 32 or 64 bits without a look at what does not fit. So numbers are bounded here,
and positions of windows computed in integers of any width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.ir.schema import FunctionSchema

from .checks import Check, Given, require

IsHarmless = Callable[[Any], bool]
"""Whether a constant, or each item of a constant list, is harmless."""

Numbers = Sequence[int] | int

_FAR: Final = 1 << 31
_UNUSUAL: Final = 1 << 12
# So many elements, even padded up to so many steps, are no row that is too long: channels are
# at most as many as the elements of the weight.
_FEW_STEPS: Final = 8
_SMALL: Final = 1 << 23
_DIVISOR: Final = 6  # where it stands among the arguments of an average pool
_WINDOW: Final = ("kernel_size", "stride", "padding", "dilation")
_STEPS: Final = ("stride", "padding", "dilation", "output_padding")


def check_steps(given: Given) -> None:
    """Numbers of a convolution that its kernels, and those of its gradient, can count with."""
    for name in _STEPS:
        numbers = given.get(name, ())
        is_near = isinstance(numbers, str) or _most(numbers) < _FAR
        require(is_near, f"{name} {numbers} of a convolution")
    data, weight = given["input"], given["weight"]
    rank = weight.dim() - 2
    is_transposed = given.get("transposed", "output_padding" in given)
    if data.dim() > rank > 0 and (is_transposed or _may_differentiate(given)):
        channels = weight.size(1) * given["groups"] if is_transposed else data.size(-rank - 1)
        sizes = _transposed_sizes(given, rank) if is_transposed else list(data.size())[-rank:]
        _check_rows(channels, sizes, _spread(given["stride"], rank))


def _may_differentiate(given: Given) -> bool:
    wants = any(given[name].requires_grad for name in ("input", "weight"))
    return "grad_output" in given or (wants and torch.is_grad_enabled())


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


def _check_rows(channels: int, sizes: Iterable[int], strides: Sequence[int]) -> None:
    """oneDNN counts a row of the larger side times the stride in 32 bits, where there are gaps."""
    for size, stride in zip(sizes, strides, strict=True):
        columns = -(-size // stride) * stride if stride > 1 else 0
        is_near = channels * columns * stride < _FAR // 2
        require(is_near, f"stride {stride} of a convolution over {channels} rows of {size}")


def _max_pool(rank: int) -> Check:
    def check(given: Given) -> None:
        ceil_mode: bool = given["ceil_mode"]
        for size, *window in _windows(given, rank):
            _check_window(size, *window, ceil_mode=ceil_mode)

    return check


def _average_pool(rank: int) -> Check:
    def check(given: Given) -> None:
        for size, kernel, stride, padding, _ in _windows(given, rank):
            _check_window(size, kernel, stride, padding, 1, ceil_mode=given["ceil_mode"])
        data: Tensor = given["self"]
        is_divided = data.is_floating_point() or given.get("divisor_override") != -1
        require(is_divided, "the least integer cannot be divided by -1")

    return check


def _windows(given: Given, rank: int) -> Iterator[tuple[int, ...]]:
    """Size, kernel, stride, padding and dilation, for each dimension of space."""
    data: Tensor = given["self"]
    require(data.dim() >= rank, f"a pool of {rank} dimensions over sizes {list(data.size())}")
    numbers: list[Numbers] = [given.get(name, 1) for name in _WINDOW]
    numbers[1] = numbers[1] or numbers[0]
    sizes = list(data.size())[-rank:]
    return zip(sizes, *(_spread(found, rank) for found in numbers), strict=True)


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


def _pad(given: Given) -> None:
    if given.get("mode") == "constant":
        return  # which narrows and fills, and checks both
    numbers = given["pad"] if "pad" in given else given["padding"]
    require(all(map(_is_near, numbers)), f"padding by {list(numbers)}")


def _is_near(number: int) -> bool:
    return -_FAR < number < _FAR


def _is_near_or_name(number: int | str) -> bool:
    return isinstance(number, str) or number < _FAR


def _is_small(number: int) -> bool:
    return number < _UNUSUAL


def _is_one(number: int) -> bool:
    return number == 1


def _is_none(number: int | None) -> bool:
    return number is None


def _columns(given: Given) -> None:
    """The kernel multiplies the numbers of windows of both dimensions."""
    for name in (*_WINDOW, "output_size"):
        numbers = given.get(name, ())
        require(all(map(_is_near_half, numbers)), f"{name} {list(numbers)} of columns")


def _is_near_half(number: int) -> bool:
    return -_FAR < 2 * number < _FAR


_PADS: Final = (
    "pad", *(f"{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)),
)  # fmt: skip
_CONVOLUTIONS: Final = (
    "_convolution", "_convolution_mode", "convolution",
    *(f"{name}{rank}d" for name in ("conv", "conv_transpose") for rank in (1, 2, 3)),
)  # fmt: skip
_MAX_POOLS: Final = {
    f"aten::max_pool{rank}d{kind}": rank for rank in (1, 2, 3) for kind in ("", "_with_indices")
}
_AVERAGE_POOLS: Final = {f"aten::avg_pool{rank}d": rank for rank in (1, 2, 3)}

WINDOW_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **{f"aten::{name}": _pad for name in _PADS},
        **{f"aten::{name}": _columns for name in ("col2im", "im2col")},
        **{f"aten::{name}": check_steps for name in _CONVOLUTIONS},
        **{name: _max_pool(rank) for name, rank in _MAX_POOLS.items()},
        **{name: _average_pool(rank) for name, rank in _AVERAGE_POOLS.items()},
    }
)

_NEAR: Final = {**dict.fromkeys(_STEPS, _is_near_or_name), "stride": _is_one}
_USUAL: Final = {"kernel_size": _is_small, "stride": _is_small, "padding": _is_small}
_HARMLESS: Final[Mapping[str, Mapping[str, IsHarmless]]] = {
    "aten::pad": {"pad": _is_near},
    **{f"aten::{name}": {"padding": _is_near} for name in _PADS if name != "pad"},
    **{f"aten::{name}": _NEAR for name in _CONVOLUTIONS},
    **{f"aten::max_pool{rank}d": {**_USUAL, "dilation": _is_one} for rank in (1, 2, 3)},
    **{name: {**_USUAL, "divisor_override": _is_none} for name in _AVERAGE_POOLS},
}


def harmless_windows(schema: FunctionSchema) -> Mapping[str, IsHarmless]:
    """Arguments that make a call harmless where they are constants that fulfil these."""
    if schema.name not in _HARMLESS:
        return {}
    names = {argument.name for argument in schema.arguments}
    return {name: found for name, found in _HARMLESS[schema.name].items() if name in names}


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


def _is_usual_pool(
    _data: Tensor, kernel: Numbers, stride: Numbers = (), padding: Numbers = 0, *_: Any
) -> bool:
    return max(_most(kernel), _most(stride), _most(padding)) < _UNUSUAL


def _is_usual_max_pool(
    data: Tensor, kernel: Numbers, stride: Numbers = (), padding: Numbers = 0,
    dilation: Numbers = 1, *_: Any,
) -> bool:  # fmt: skip
    return _is_usual_pool(data, kernel, stride, padding) and _most(dilation) == 1


def _is_usual_average_pool(*given: Any) -> bool:
    return _is_usual_pool(*given) and (len(given) <= _DIVISOR or given[_DIVISOR] is None)


def _most(numbers: Numbers) -> int:
    return numbers if isinstance(numbers, int) else max(numbers, default=0)


USUAL_WINDOWS: Final[Mapping[str, Callable[..., bool]]] = MappingProxyType(
    {
        **{f"aten::conv{rank}d": _is_small_convolution for rank in (1, 2, 3)},
        **{f"aten::conv_transpose{rank}d": _is_small_transposed for rank in (1, 2, 3)},
        **{f"aten::max_pool{rank}d": _is_usual_max_pool for rank in (1, 2, 3)},
        **dict.fromkeys(_AVERAGE_POOLS, _is_usual_average_pool),
    }
)
"""Whether a call is one of those that need no check, by what stands at each position."""
