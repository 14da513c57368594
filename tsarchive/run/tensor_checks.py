"""Checks before single operators on tensors: sizes, offsets, divisions, matrices, sparse layouts.

Kernels of sparse tensors read and write wherever the indices point, and torch checks these only
when asked (``torch.sparse.check_sparse_tensor_invariants``). Here they are checked whenever code
makes a sparse tensor of parts. Nothing that code can write to shares their memory afterwards:
constructors are given copies, accessors give copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from .checks import Check, Given, is_within, require
from .natives.conversions import INT64_MAX, INT64_MIN, wrap

_MATRIX = 2
_SEQUENCE = 3
_BAG_MODES = 3
_GRID_MODES = 3
_LONG = 4
_QINT32 = 14
_HIGHEST = 1 << 16
_MOST_DIMENSIONS = 64  # of TensorIterator
_PAIRS = 2
_QUANTIZED = range(12, 18)
_MOST_BINS = 1 << 16
_MOST_BITS = 17
_LEAST_SCALE = 2**-30
_SLACK = 0.01  # a scale was rounded when it was stored


def check_bags(given: Given) -> None:
    """Offsets rise from 0, and all indices lie in bags; each has one weight, or none has."""
    indices: Tensor = given["indices"]
    offsets: Tensor | None = given["offsets"]
    weights: Tensor | None = given["per_sample_weights"]
    if offsets is not None:
        fits = offsets.dim() == 1 and bool((offsets[1:] >= offsets[:-1]).all())
        fits = fits and _covers(offsets, indices.numel(), has_last=given["include_last_offset"])
        require(fits, f"offsets of bags that do not divide {indices.numel()} indices")
    fits = weights is None or weights.size() == indices.size()
    require(fits, "indices and their weights are not of one size")
    mode: int = given["mode"]
    require(0 <= mode < _BAG_MODES, f"{mode} is no mode of embedding_bag")


def _covers(offsets: Tensor, count: int, *, has_last: bool) -> bool:
    """Whether bags begin with the first of ``count`` indices and end with the last one."""
    if offsets.numel() <= has_last:
        return count == 0 and is_within(offsets, 0, 1)
    ends_well = int(offsets[-1]) == count if has_last else int(offsets[-1]) <= count
    return int(offsets[0]) == 0 and ends_well


def _embedding_bag(given: Given) -> None:
    check_bags(given)
    require(given["indices"].dim() == 1, "the indices of bags are not a list")


def _weight_norm(given: Given) -> None:
    """``g`` has one number for each slice of ``v`` along ``dim``; -1 means the whole of it."""
    v: Tensor = given["v"]
    g: Tensor = given["g"]
    dim: int = given["dim"]
    require(v.numel() > 0, "the weight has no elements")
    require(-1 <= dim < v.dim(), f"dimension {dim} of a weight that has {v.dim()}")
    wanted = [v.size(i) if i == dim else 1 for i in range(v.dim())]
    fits = g.numel() == 1 if dim == -1 else list(g.size()) == wanted
    require(fits, f"norms of sizes {list(g.size())} for a weight of {list(v.size())}")


def _ctc(given: Given) -> None:
    """Targets are labels as far as their lengths tell, and lengths are not negative."""
    log_probs, targets = given["log_probs"], given["targets"]
    labels = log_probs.size(-1) if log_probs.dim() else 0
    counts = torch.as_tensor(given["target_lengths"])
    for lengths in (torch.as_tensor(given["input_lengths"]), counts):
        require(is_within(lengths, 0, None), "a length is negative")
    if targets.dim() == _MATRIX and list(counts.size()) == [targets.size(0)]:
        targets = targets[torch.arange(targets.size(1)) < counts.unsqueeze(1)]  # less the padding
    require(is_within(targets, 0, labels), f"targets that are no labels from 0 to {labels - 1}")


def _range(given: Given) -> None:
    """torch divides by the step as an integer when the result has integers.

    The distance wraps around in 64 bits before it is divided.
    """
    step = given.get("step", 1)
    if isinstance(step, complex) or not -2 < step < 1:
        return
    out, dtype = given.get("out"), given.get("dtype")
    is_whole = dtype is not None and dtype <= _LONG
    if isinstance(out, Tensor):
        is_whole = not out.is_floating_point()
    require(not (is_whole and int(step) == 0), "step must be nonzero")
    ends = given.get("start", 0), given["end"]
    if int(step) == -1 and all(math.isfinite(number.real) for number in ends):
        start, end = (int(number.real) for number in ends)
        require(wrap(end - start) != INT64_MIN, "the least integer cannot be divided by -1")


def _attention(given: Given) -> None:
    heads = given["num_head"] if "num_head" in given else given["num_heads"]
    require(heads > 0, f"attention with {heads} heads")


def _grouped_mm(given: Given) -> None:
    """Offsets rise within the dimension that they divide."""
    one: Tensor = given["self"]
    two: Tensor = given["mat2"]
    offs: Tensor | None = given["offs"]
    if offs is None or not (one.dim() and two.dim()):
        return
    divided = two.size(-1) if one.dim() == _SEQUENCE else one.size(two.dim() - _SEQUENCE)
    fits = is_within(offs, 0, divided + 1) and bool((offs[1:] >= offs[:-1]).all())
    require(fits, f"offsets of groups that are not within {divided}")


def _histogram(given: Given) -> None:
    """The kernel computes the bin of an element in the dtype of the input, which rounds."""
    data, bins = given["self"], given["bins"]
    if isinstance(bins, Tensor) or not data.is_floating_point():
        return
    numbers = [bins] if isinstance(bins, int) else bins
    is_exact = all(isinstance(n, Tensor) or n * torch.finfo(data.dtype).eps <= 1 for n in numbers)
    require(is_exact, f"{bins} bins, which {data.dtype} does not tell apart")


def _layer_norm(given: Given) -> None:
    """torch divides by the sizes that are normalized where the input is nested."""
    is_sound = not given["input"].is_nested or all(given["normalized_shape"])
    require(is_sound, "the elements that a nested tensor is normalized over are none")


def _combinations(given: Given) -> None:
    require(given["r"] <= _MOST_DIMENSIONS, f"combinations of {given['r']} elements")


def _batch_norm(given: Given) -> None:
    """Numbers of each channel are as many as there are channels."""
    has_both = given["running_mean"] is not None and given["running_var"] is not None
    is_fine = given["training"] or has_both
    require(is_fine, "running statistics are needed where there is no training")
    data: Tensor = given["input"]
    channels = data.size(1) if data.dim() > 1 else 0
    for name in ("weight", "bias", "running_mean", "running_var"):
        value = given[name]
        fits = value is None or list(value.size()) == [channels]
        require(fits, f"{name} is not of {channels} channels")


def _dot_product(given: Given) -> None:
    """Queries and keys are of one width, keys and values of one number."""
    query, key, value = (given[name] for name in ("query", "key", "value"))
    if any(tensor.is_nested for tensor in (query, key, value)):
        return
    fits = all(tensor.dim() >= _MATRIX for tensor in (query, key, value))
    fits = fits and query.size(-1) == key.size(-1) and key.size(-2) == value.size(-2)
    sizes = ", ".join(str(list(tensor.size())) for tensor in (query, key, value))
    require(fits, f"attention to sizes {sizes}")


def _moving_average(given: Given) -> None:
    """Observers hold one element, or one for each row; torch makes missing ones."""
    data: Tensor = given["self"]
    axis: int = given["ch_axis"]
    is_per_row = given["per_row_fake_quant"]
    require(not is_per_row or -data.dim() <= axis < data.dim(), f"{axis} is no axis of rows")
    rows = data.size(axis) if is_per_row else 1
    observed = [given[name] for name in ("running_min", "running_max", "scale", "zero_point")]
    is_new = is_per_row and not observed[0].numel() and not observed[1].numel()
    if is_new:
        can_grow = all(tensor.untyped_storage().resizable() for tensor in observed)
        require(can_grow, "the memory of what is observed cannot grow")
    else:
        counts = [tensor.numel() for tensor in observed]
        require(counts == [rows] * 4, f"{counts} observed numbers for {rows} rows")
    require(all(tensor.is_contiguous() for tensor in observed), "observed numbers share memory")
    fits = all(given[name].numel() == 1 for name in ("observer_on", "fake_quant_on"))
    require(fits, "observer_on and fake_quant_on are one number each")


def _copy(given: Given) -> None:
    target = given["self"]
    if isinstance(target, Tensor):
        is_plain = target.layout in (torch.strided, torch.sparse_coo)
        require(is_plain, f"a tensor of layout {target.layout} cannot be copied to")


def _rrelu(given: Given) -> None:
    """The kernel writes to ``noise`` as if it were contiguous, and of the size of ``self``."""
    data: Tensor = given["self"]
    noise: Tensor = given["noise"]
    fits = noise.is_contiguous() and noise.size() == data.size() and noise.dtype == data.dtype
    require(fits, f"noise of sizes {list(noise.size())} for {list(data.size())}")


def _repeats(given: Given) -> None:
    """The kernel adds up the repeats in 64 bits, and writes as many elements as they tell."""
    repeats = given.get("repeats")
    if isinstance(repeats, Tensor) and not repeats.is_floating_point() and repeats.numel():
        require(is_within(repeats, 0, None), "repeats can not be negative")
        total = int(repeats.max()) * repeats.numel()
        require(total < 2**63 or sum(repeats.flatten().tolist()) < 2**63, "too many repeats")


def _resized(given: Given) -> None:
    """torch reads a size and a scale for each dimension of space, as many as the input has."""
    data: Tensor = given["input"]
    for name in ("size", "scale_factor"):
        numbers = given.get(name)
        if isinstance(numbers, (list, tuple)):
            fits = len(numbers) >= max(data.dim() - 2, 1)
            require(fits, f"{name} {list(numbers)} for an input of {data.dim()} dimensions")


def _per_channel(given: Given) -> None:
    """torch has no kernel for 32 bits and zero points of floats, and runs into a trap."""
    has_kernel = given["dtype"] != _QINT32 or not given["zero_points"].is_floating_point()
    require(has_kernel, "qint32 with zero points that are no integers")


def _sizes(given: Given) -> None:
    """torch takes negative sizes where the product of all is zero."""
    require(all(size >= 0 for size in given["size"]), f"a negative size in {given['size']}")


def _expanded(given: Given) -> None:
    """-1 stands for the size that is there; torch takes less beside a dimension of size 0."""
    require(all(size >= -1 for size in given["size"]), f"a negative size in {given['size']}")


def _bytes_view(given: Given) -> None:
    """torch takes the result for a quantized tensor where one of the two is."""
    dtype = given.get("dtype")
    is_plain = dtype is None or not (given["self"].is_quantized or dtype in _QUANTIZED)
    require(is_plain, "the bytes of a quantized tensor are not viewed in another dtype")


def _copied(given: Given) -> None:
    """torch converts to the dtype that lies on its stack where it is given none."""
    has_target = given.get("dtype") is not None or given.get("device") is not None
    require(has_target or not given["copy"], "a copy by to() needs a dtype or a device")


def _sum_to_size(given: Given) -> None:
    """Sizes that the tensor can have been expanded from."""
    wanted, found = given["size"], list(given["self"].size())
    if wanted is not None:
        behind = found[len(found) - len(wanted) :]
        fits = len(wanted) <= len(found)
        fits = fits and all(a in (1, b) for a, b in zip(wanted, behind, strict=True))
        require(fits, f"a tensor of sizes {found} is not summed to {wanted}")


def _best_scale(given: Given) -> None:
    """The search goes in steps of ratio times range, and reads ``numel`` elements."""
    data: Tensor = given["input"]
    fits = data.dtype == torch.float32 and data.layout is torch.strided
    fits = fits and 0 < given["numel"] <= data.numel() and 0 < given["n_bins"] <= _MOST_BINS
    fits = fits and 0 <= given["ratio"] <= 1 and 0 < given["bit_width"] < _MOST_BITS
    require(fits, "arguments of choose_qparams_optimized that do not fit its input")


def _group_norm(given: Given) -> None:
    """The kernel divides by the given sizes and groups, and reads as far as they reach."""
    data: Tensor = given["input"]
    batches, channels, space, groups = (given[name] for name in ("N", "C", "HxW", "group"))
    fits = groups > 0 and min(batches, channels, space) >= 0 and channels % groups == 0
    fits = fits and data.numel() == batches * channels * space
    require(fits, f"{groups} groups of {channels} channels for sizes {list(data.size())}")
    for name in ("weight", "bias"):
        value: Tensor | None = given[name]
        require(value is None or value.numel() == channels, f"{name} is not of {channels} channels")


def _order(given: Given) -> None:
    """Kernels of polynomials take as many steps as the order tells, for each element."""
    orders = torch.as_tensor(given["n"])
    if not (orders.is_complex() or orders.is_meta):
        is_high = bool((orders.to(torch.int64) > _HIGHEST).any())  # converted as the kernel does
        require(not is_high, f"a polynomial of an order above {_HIGHEST}")


def _zeta(given: Given) -> None:
    """The kernel goes in steps of one from a negative number up to zero."""
    start = torch.as_tensor(given["other"] if "other" in given else given["self"])
    is_direct = given.get("n", _PAIRS) < _PAIRS  # digamma and trigamma take no steps
    if not (is_direct or start.is_complex() or start.is_meta):
        is_far = bool((start.to(torch.float64) < -_HIGHEST).any())
        require(not is_far, f"a sum from below {-_HIGHEST}")


def _random_from(given: Given) -> None:
    """torch looks for a whole number above the first one that a float can tell from it."""
    is_whole = not given["self"].is_floating_point()
    require(is_whole or given["from"] != INT64_MAX, "there are no floats to draw from there")


def _not_nested(given: Given) -> None:
    """torch selects from nested tensors by a dimension counted from the end without counting."""
    require(not given.get("y", given.get("self")).is_nested, "a nested tensor has no integral")


def _select(given: Given) -> None:
    is_counted = given["dim"] >= 0 or not given["self"].is_nested
    require(is_counted, "the dimensions of a nested tensor are counted from the front")


def _nested_dtype(given: Given) -> None:
    """torch makes a quantized tensor of parts that do not fit together."""
    other = given.get("other")
    wanted = given.get("dtype") in _QUANTIZED or (other is not None and other.is_quantized)
    require(not (wanted and given["self"].is_nested), "a nested tensor is not quantized")


def _binomial(given: Given) -> None:
    """The kernel draws until a number is below the count, which nan never is."""
    counts: Tensor = given["count"]
    require(counts.is_meta or not bool(counts.isnan().any()), "a count of nan")


def check_lists(given: Given) -> None:
    """Formulas of operators on lists read as many items of each as the first list has."""
    lengths = {len(value) for value in given.values() if isinstance(value, (list, tuple))}
    require(len(lengths) <= 1, f"lists of {' and '.join(map(str, sorted(lengths)))} items")


def _grid(given: Given) -> None:
    for name in ("interpolation_mode", "padding_mode"):
        require(0 <= given[name] < _GRID_MODES, f"{given[name]} is no {name} of grid_sampler")


def _scaled(given: Given) -> None:
    """Kernels compute positions from the inverse of a scale, and convert them to integers."""
    data: Tensor = given["self"] if "self" in given else given["input"]
    for scale in _scales(given):
        require(not 0 < (scale or 0) < _LEAST_SCALE, f"a scale of {scale}")
    if data.is_quantized:
        _check_scales(given, data)


def _filtered(given: Given) -> None:
    """Kernels that filter look as far as the scales tell, and count on them to fit the sizes."""
    _check_scales(given, given["self"] if "self" in given else given["input"])


def _scales(given: Given) -> Sequence[float | None]:
    names = ("scales", "scales_d", "scales_h", "scales_w")
    return given.get("scale_factors") or [given[n] for n in names if n in given]


def _check_scales(given: Given, data: Tensor) -> None:
    sizes: Sequence[int] | None = given["output_size"]
    inputs = list(data.size())[2:]
    for i, (scale, before) in enumerate(zip(_scales(given), inputs, strict=False)):
        after = math.nan if sizes is None or i >= len(sizes) else sizes[i]
        require(scale is None or _is_scale(scale, before, after), f"a scale of {scale}")


def _is_scale(scale: float, before: int, after: float) -> bool:
    """``after`` is the whole part of ``before`` times ``scale``, or nan: the scale alone tells."""
    exact = before * scale
    if not math.isfinite(exact) or exact < 1 - _SLACK:
        return False
    return math.isnan(after) or after - _SLACK <= exact < after + 1 + _SLACK


_SCALED: Final = (
    *(f"upsample_nearest{n}d" for n in (1, 2, 3)),
    *(f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)),
    "upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d", "upsample_trilinear3d",
)  # fmt: skip
_FILTERED: Final = tuple(f"_upsample_{kind}2d_aa" for kind in ("bicubic", "bilinear", "lanczos"))
_POLYNOMIALS: Final = (
    *(f"{kind}chebyshev_polynomial_{n}" for kind in ("", "shifted_") for n in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p",
)  # fmt: skip
_RETYPING: Final = (
    "_to_copy",
    *(f"{kind}_like" for kind in ("empty", "full", "ones", "rand", "randint", "randn", "zeros")),
)
_RESIZING: Final = ("interpolate", "upsample", "upsample_bilinear", "upsample_nearest")


_DIVIDED: Final = (torch.int32, torch.int64)  # as such; smaller integers are divided as int
# An operation that ends the process cannot be tried, so the version decides.
_FLOORING_TRAPS: Final[bool] = torch.__version__ < "2.10"


def check_rounding(given: Given) -> None:
    _whole_quotient(given)
    if given["rounding_mode"] == "trunc" or (_FLOORING_TRAPS and given["rounding_mode"] == "floor"):
        _no_overflow(given)


def _no_overflow(given: Given) -> None:
    """The least integer divided by -1 ends the process, in the dtype that both are converted to.

    Overloads for numbers call theirs otherwise, and are Python's.
    """
    if "self" not in given:
        return
    dtype = torch.result_type(given["self"], given["other"])
    if dtype not in _DIVIDED:
        return
    one, two = _as_kernels_get(given["self"], dtype), _as_kernels_get(given["other"], dtype)
    if _has_least(one):
        is_fault = (_elements(one) == torch.iinfo(dtype).min) & (two == -1)
        require(not bool(is_fault.any()), "the least integer cannot be divided by -1")


def _floor_divide_in_place(given: Given) -> None:
    _whole_quotient(given)
    if _FLOORING_TRAPS:
        _no_overflow(given)


def _whole_quotient(given: Given) -> None:
    """torch adds up equal indices of a sparse tensor in place, beneath others that share them."""
    one: Tensor = given["self"]
    is_sound = one.layout is not torch.sparse_coo or one.is_coalesced()
    if given.get("rounding_mode", "floor") is not None:
        require(is_sound, "a sparse tensor is coalesced before it is divided with rounding")


def _as_kernels_get(value: Any, dtype: torch.dtype) -> Tensor:
    """A tensor or a number as kernels get it: in the bits of ``dtype``, however many it had."""
    return (value if isinstance(value, Tensor) else torch.tensor(int(value))).to(dtype)


def _multiples(given: Given) -> None:
    """Kernels divide by what they take for the greatest common divisor, which may be -1."""
    dtype = torch.result_type(given["self"], given["other"])
    one, two = given["self"].to(dtype), given["other"].to(dtype)
    if _has_least(one):
        is_fault = (one == torch.iinfo(dtype).min) & (torch.gcd(one, two) == -1)
        require(not bool(is_fault.any()), "the least integer has no least common multiple here")


def _has_least(tensor: Tensor) -> bool:
    if tensor.dtype not in _DIVIDED or tensor.is_meta:
        return False
    return bool((_elements(tensor) == torch.iinfo(tensor.dtype).min).any())


def _elements(tensor: Tensor) -> Tensor:
    """The elements that a tensor has in memory."""
    if tensor.layout is torch.strided:
        return tensor
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


_FLOORING: Final = ("floor_divide", "fmod", "fmod_", "remainder", "remainder_")


_MOST_FACTORS = 1 << 10

WITH_SPARE: Final = frozenset({"aten::linalg_eig", "aten::linalg_eigvals"})
"""Operators that may write eigenvectors beyond those of the last matrix."""


def with_spare(run: Callable[..., Any]) -> Callable[..., Any]:
    """``run`` with one more matrix, behind those that are given.

    Where LAPACK does not converge for a real matrix, the last eigenvalue that it leaves may be
    complex, and torch writes a pair of eigenvectors, one of them for the next matrix, before it
    looks for errors. The one behind the others converges, and each is computed on its own.
    """

    def run_with_spare(data: Tensor, **outs: Tensor) -> Any:
        require(data.is_complex() or not outs, "eigenvalues of a real matrix into an out")
        is_square = data.dim() >= _MATRIX and data.size(-1) == data.size(-2)
        if data.is_complex() or data.is_meta or not (is_square and data.numel()):
            return run(data, **outs)
        n = data.size(-1)
        spare = torch.arange(1, n + 1, dtype=data.dtype, device=data.device).diag()
        made = run(torch.cat([data.reshape(-1, n, n), spare[None]]))
        if isinstance(made, Tensor):
            return made[:-1].reshape(data.shape[:-1])
        values, vectors = made
        return values[:-1].reshape(data.shape[:-1]), vectors[:-1].reshape(data.shape)

    return run_with_spare


def _eigenvalues(given: Given) -> None:
    """LAPACK reads beyond its memory when it meets numbers that are not finite."""
    data: Tensor = given["self"] if "self" in given else given["A"]
    is_fine = data.layout is not torch.strided or bool(torch.isfinite(data).all())
    require(is_fine, "the matrix whose eigenvalues are wanted holds infs or NaNs")


def _pivots(given: Given) -> None:
    data: Tensor = given["LU_data"]
    pivots: Tensor = given["LU_pivots"]
    fits = data.dim() >= _MATRIX
    fits = fits and list(pivots.size()) == [*data.size()[:-2], min(data.size()[-2:])]
    require(fits, f"pivots of sizes {list(pivots.size())} for {list(data.size())}")


def _pivot_pairs(given: Given) -> None:
    """LAPACK takes a negative pivot and the one behind it for a block of two rows."""
    pivots: Tensor = given["pivots"]
    data: Tensor = given["LD"]
    fits = data.dim() >= _MATRIX and pivots.size() == data.size()[:-1]
    require(fits, f"pivots of sizes {list(pivots.size())} for {list(data.size())}")
    if not pivots.is_meta:
        rows = list(pivots.reshape(-1, pivots.size(-1))) if pivots.numel() else []
        require(all(_is_paired(row.tolist()) for row in rows), "pivots that ldl_factor cannot give")


def _is_paired(pivots: Sequence[int]) -> bool:
    """Whether all name rows, and negative ones stand in pairs."""
    places = iter(pivots)
    is_paired = all(place > 0 or next(places, 0) == place for place in places)
    return is_paired and all(0 < abs(place) <= len(pivots) for place in pivots)


def _least_squares(given: Given) -> None:
    is_sound = given["driver"] != "gelss" or given["b"].numel() > 0
    require(is_sound, "the driver gelss needs a right side")


def _chain(given: Given) -> None:
    """torch looks for the best order in a table of all pairs."""
    factors = given["tensors"] if "tensors" in given else given["matrices"]
    require(len(factors) <= _MOST_FACTORS, f"a product of {len(factors)} matrices")


def _power(given: Given) -> None:
    """torch takes the power to ``-n`` of the inverse."""
    require(given["n"] != INT64_MIN, "the least integer has no opposite")


SPARSE_MAKERS: Final = frozenset(
    f"aten::sparse_{kind}_tensor" for kind in ("coo", "compressed", "csr", "csc", "bsr", "bsc")
)
"""Operators that take indices and values, by their names."""

INDICES: Final = frozenset(
    {
        "indices", "compressed_indices", "plain_indices", "crow_indices", "col_indices",
        "ccol_indices", "row_indices",
    }
)  # fmt: skip
"""Arguments of constructors that hold indices."""

INDICES_OF: Final = frozenset(
    f"aten::{kind}indices" for kind in ("", "crow_", "col_", "ccol_", "row_")
)
"""Operators that give the very indices of a sparse tensor."""

_FAR: Final = 1 << 31
_WITHOUT_BLOCKS: Final = (torch.sparse_csr, torch.sparse_csc)
_Parts = tuple[Tensor, Tensor]
_BY_ROW: Final = (Tensor.crow_indices, Tensor.col_indices)
_BY_COLUMN: Final = (Tensor.ccol_indices, Tensor.row_indices)
_ACCESSORS: Final[Mapping[torch.layout, tuple[Callable[[Tensor], Tensor], ...]]] = {
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}


def validated(made: Tensor) -> Tensor:
    """``made``, whose indices are those of its size; raises RuntimeError as torch's checks do.

    A sparse tensor of the meta device has no indices to look at.
    """
    if made.is_meta:
        return made
    if made.layout is torch.sparse_coo:
        torch._validate_sparse_coo_tensor_args(
            made._indices(), made._values(), made.size(), made.is_coalesced()
        )
    elif made.layout in _ACCESSORS:
        compressed, plain = _compressed_parts(made)
        torch._validate_sparse_compressed_tensor_args(
            compressed, plain, made.values(), made.size(), made.layout
        )
    return made


def with_indices(made: Any) -> Any:
    """``made``, with its indices written: ``empty`` gives compressed layouts whatever was there."""
    if isinstance(made, Tensor) and made.layout in _ACCESSORS and not made.is_meta:
        if made._nnz() == 0:
            _compressed_parts(made)[0].zero_()
        validated(made)
    return made


def _compressed_parts(tensor: Tensor) -> _Parts:
    compressed, plain = _ACCESSORS[tensor.layout]
    return compressed(tensor), plain(tensor)


def _in_place(given: Given) -> None:
    """torch exchanges rows of the indices in place, beneath other tensors that share them."""
    require(given["self"].layout is torch.strided, "a sparse tensor is not transposed in place")


def _blocks(given: Given) -> None:
    """torch counts the elements of blocks and of batches in the dtype of the indices."""
    data: Tensor = given["self"]
    if data.layout in _ACCESSORS and not data.is_meta:
        is_flat = data.layout in _WITHOUT_BLOCKS and not given.get("blocksize") and data.dim() <= 2
        is_counted = _compressed_parts(data)[0].dtype is torch.int64 or data.numel() < _FAR
        require(is_flat or is_counted, f"indices of 32 bits over sizes {list(data.size())}")


def _product(sparse: str, dense: str) -> Check:
    """torch multiplies how many elements there are by the columns in 64 bits."""

    def check(given: Given) -> None:
        one, two = given[sparse], given[dense]
        is_product = one.layout is torch.sparse_coo and one.dim() == two.dim() == 2
        count = max(one._nnz(), one.size(0)) * two.size(1) if is_product else 0
        require(count < _FAR**2, f"a product of sizes {list(two.size())}")

    return check


TENSOR_CHECKS: Final[Mapping[str, Check]] = {
    **{f"aten::__{name}": _resized for name in _RESIZING},
    "aten::_grouped_mm": _grouped_mm,
    "aten::_grad_sum_to_size": _sum_to_size,
    "aten::_native_multi_head_attention": _attention,
    "aten::_transformer_encoder_layer_fwd": _attention,
    "aten::_weight_norm": _weight_norm,
    "aten::arange": _range,
    "aten::as_strided": _sizes,
    "aten::as_strided_copy": _sizes,
    "aten::as_strided_scatter": _sizes,
    "aten::binomial": _binomial,
    **{f"aten::{name}": _expanded for name in ("broadcast_to", "expand", "expand_copy")},
    "aten::choose_qparams_optimized": _best_scale,
    "aten::combinations": _combinations,
    "aten::copy": _copy,
    "aten::ctc_loss": _ctc,
    "aten::embedding_bag": _embedding_bag,
    "aten::fused_moving_avg_obs_fake_quant": _moving_average,
    "aten::grid_sampler": _grid,
    "aten::grid_sampler_2d": _grid,
    "aten::grid_sampler_3d": _grid,
    **{f"aten::{name}": _histogram for name in ("histc", "histogram", "histogramdd")},
    **{f"aten::{name}": _layer_norm for name in ("layer_norm", "native_layer_norm")},
    "aten::native_batch_norm": _batch_norm,
    "aten::native_group_norm": _group_norm,
    "aten::polygamma": _zeta,
    "aten::polygamma_": _zeta,
    "aten::quantize_per_channel": _per_channel,
    **{f"aten::random{end}": _random_from for end in ("_.from", ".from", ".from_out")},
    "aten::range": _range,
    "aten::repeat_interleave": _repeats,
    "aten::rrelu_with_noise": _rrelu,
    "aten::rrelu_with_noise_": _rrelu,
    "aten::scaled_dot_product_attention": _dot_product,
    "aten::select.int": _select,
    **{f"aten::to.{kind}": _nested_dtype for kind in ("device", "dtype", "dtype_layout", "other")},
    **{f"aten::{name}": _nested_dtype for name in _RETYPING},
    "aten::trapezoid": _not_nested,
    "aten::trapz": _not_nested,
    **{f"aten::to.prim_{kind}": _copied for kind in ("Device", "dtype", "other")},
    "aten::view.dtype": _bytes_view,
    "aten::view_copy": _bytes_view,
    **{f"aten::{name}": _scaled for name in _SCALED},
    **{f"aten::{name}": _filtered for name in _FILTERED},
    **{f"aten::special_{name}": _order for name in _POLYNOMIALS},
    "aten::special_polygamma": _zeta,
    "aten::special_zeta": _zeta,
    "aten::floor_divide_": _floor_divide_in_place,
    "aten::lcm": _multiples,
    "aten::lcm_": _multiples,
    **{f"aten::{name}": _no_overflow for name in _FLOORING if _FLOORING_TRAPS},
    "aten::chain_matmul": _chain,
    "aten::linalg_eigvals": _eigenvalues,
    "aten::linalg_ldl_solve": _pivot_pairs,
    "aten::linalg_lstsq": _least_squares,
    "aten::linalg_matrix_power": _power,
    "aten::linalg_multi_dot": _chain,
    "aten::lu_unpack": _pivots,
    "aten::matrix_power": _power,
    **{f"aten::{name}_": _in_place for name in ("t", "transpose", "swapaxes", "swapdims")},
    **{f"aten::to_sparse{kind}": _blocks for kind in ("", "_bsc", "_bsr", "_csc", "_csr")},
    "aten::smm": _product("self", "mat2"),
    "aten::sspaddmm": _product("mat1", "mat2"),
}
