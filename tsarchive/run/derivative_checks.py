"""Formulas of differentiation: what they trust, and what their operators save for them.

Programs that train hold such formulas: the size of a gradient is that of the operator's result.
Some write wherever the saved indices point, and torch notices a write to these only through the
tensor that was saved. So operators save tensors that nobody else holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor

from .checks import Check, Given, is_within, require
from .window_checks import check_steps, convolved_sizes

_SPATIAL: Final = 2  # dimensions of a convolution before the first of space
_PLANE: Final = 2


def _convolution(given: Given) -> None:
    """The gradient is of the sizes that the convolution gives, its bias of the channels.

    Kernels for transposed ones read outside of their tensors, whatever they are given.
    """
    require(not given["transposed"], "the gradient of a transposed convolution is not computed")
    data, weight = given["input"], given["weight"]
    tensors: list[Tensor] = [given["grad_output"], data, weight]
    dims = weight.dim()
    fits = dims > _SPATIAL and all(_is_like(tensor, weight, dims) for tensor in tensors)
    require(fits, "a gradient, an input and a weight of convolution do not belong together")
    check_steps(given)
    steps = [*given["stride"], *given["dilation"], given["groups"]]
    require(all(step > 0 for step in steps), "steps of convolution that are not positive")
    channels = weight.size(0)
    wanted = [data.size(0), channels, *convolved_sizes(given)]
    found = list(given["grad_output"].size())
    require(found == wanted, f"a gradient of sizes {found} for a convolution that gives {wanted}")
    bias, wants_bias = given["bias_sizes"], given["output_mask"][-1]
    fits = not wants_bias if bias is None else list(bias) == [channels]
    require(fits, f"a bias of sizes {bias} for {channels} channels")


def _is_like(tensor: Tensor, other: Tensor, dims: int) -> bool:
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized
    return is_dense and tensor.dim() == dims and tensor.dtype is other.dtype


def _max_pool(given: Given) -> None:
    """The kernel adds to the elements that ``indices`` name, wherever these are.

    It goes through the planes of the gradient, which must be as many as those of the data.
    """
    data: Tensor = given["self"]
    indices: Tensor = given["indices"]
    fits = data.dim() > _PLANE and indices.size() == given["grad_output"].size()
    fits = fits and indices.size()[:-_PLANE] == data.size()[:-_PLANE]
    require(fits, f"indices of sizes {list(indices.size())} for {list(data.size())}")
    count = data.size(-1) * data.size(-2)
    require(is_within(indices, 0, count), f"indices that are not within {count} elements")


def _distances(given: Given) -> None:
    """The formula divides by the number of rows."""
    data: Tensor = given["self"]
    has_formula = data.requires_grad and torch.is_grad_enabled()
    require(not has_formula or (data.dim() > 0 and data.size(0) > 0), "distances of no rows")


DERIVATIVE_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "aten::convolution_backward": _convolution,
        "aten::max_pool2d_with_indices_backward": _max_pool,
        "aten::pdist": _distances,
    }
)

_WITH_TARGETS: Final = (
    "aten::cross_entropy_loss", "aten::multi_margin_loss", "aten::multilabel_margin_loss",
    "aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss2d_forward", "aten::nll_loss_forward",
    "aten::nll_loss_nd",
)  # fmt: skip
SAVED_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "aten::ctc_loss": frozenset({"targets", "input_lengths", "target_lengths"}),
        "aten::embedding": frozenset({"indices"}),
        "aten::embedding_bag": frozenset({"indices", "offsets", "per_sample_weights"}),
        "aten::gather": frozenset({"index"}),
        **dict.fromkeys(_WITH_TARGETS, frozenset({"target"})),
    }
)
"""Arguments that formulas trust, by operator."""

SAVED_WHERE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"aten::embedding": ("scale_grad_by_freq", "sparse"), "aten::gather": ("sparse_grad",)}
)
"""Operators whose formulas trust them only where one of these flags is set."""

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
