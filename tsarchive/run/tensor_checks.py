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

from tsarchive.errors import ScriptError

from .checks import Given, check_before, is_within, require
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


def check_bags(
    indices: Tensor, offsets: Tensor | None, per_sample_weights: Tensor | None, mode: int,
    include_last_offset: bool, **_: Any,
) -> None:  # fmt: skip
    """Offsets rise from 0, and all indices lie in bags; each has one weight, or none has."""
    if offsets is not None:
        fits = offsets.dim() == 1 and bool((offsets[1:] >= offsets[:-1]).all())
        fits = fits and _covers(offsets, indices.numel(), has_last=include_last_offset)
        require(fits, f"offsets of bags that do not divide {indices.numel()} indices")
    fits = per_sample_weights is None or per_sample_weights.size() == indices.size()
    require(fits, "indices and their weights are not of one size")
    require(0 <= mode < _BAG_MODES, f"{mode} is no mode of embedding_bag")


def _covers(offsets: Tensor, count: int, *, has_last: bool) -> bool:
    """Return whether bags begin with the first of ``count`` indices and end with the last one."""
    if offsets.numel() <= has_last:
        return count == 0 and is_within(offsets, 1)
    ends_well = int(offsets[-1]) == count if has_last else int(offsets[-1]) <= count
    return int(offsets[0]) == 0 and ends_well


@check_before("embedding_bag")
def _embedding_bag(indices: Tensor, **others: Any) -> None:
    check_bags(indices, **others)
    require(indices.dim() == 1, "the indices of bags are not a list")


@check_before("_weight_norm")
def _weight_norm(v: Tensor, g: Tensor, dim: int, **_: Any) -> None:
    """``g`` has one number for each slice of ``v`` along ``dim``; -1 means the whole of it."""
    require(v.numel() > 0, "the weight has no elements")
    require(-1 <= dim < v.dim(), f"dimension {dim} of a weight that has {v.dim()}")
    wanted = [v.size(i) if i == dim else 1 for i in range(v.dim())]
    fits = g.numel() == 1 if dim == -1 else list(g.size()) == wanted
    require(fits, f"norms of sizes {list(g.size())} for a weight of {list(v.size())}")


@check_before("ctc_loss")
def _ctc(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, **_: Any
) -> None:
    """Targets are labels as far as their lengths tell, and lengths are not negative."""
    labels = log_probs.size(-1) if log_probs.dim() else 0
    counts = torch.as_tensor(target_lengths)
    for lengths in (torch.as_tensor(input_lengths), counts):
        require(is_within(lengths), "a length is negative")
    if targets.dim() == _MATRIX and list(counts.size()) == [targets.size(0)]:
        targets = targets[torch.arange(targets.size(1)) < counts.unsqueeze(1)]  # less the padding
    require(is_within(targets, labels), f"targets that are no labels from 0 to {labels - 1}")


@check_before("arange", "range")
def _range(
    end: Any, start: Any = 0, step: Any = 1, dtype: int | None = None,
    out: Tensor | None = None, **_: Any,
) -> None:  # fmt: skip
    """torch divides by the step as an integer when the result has integers.

    The distance wraps around in 64 bits before it is divided.
    """
    if isinstance(step, complex) or not -2 < step < 1:
        return
    is_whole = dtype is not None and dtype <= _LONG
    if isinstance(out, Tensor):
        is_whole = not out.is_floating_point()
    require(not (is_whole and int(step) == 0), "step must be nonzero")
    first, last = start.real, end.real
    if int(step) == -1 and math.isfinite(first) and math.isfinite(last):
        distance = wrap(int(last) - int(first))
        require(distance != INT64_MIN, "the least integer cannot be divided by -1")


@check_before("_native_multi_head_attention", "_transformer_encoder_layer_fwd")
def _attention(num_head: int = 0, num_heads: int = 0, **_: Any) -> None:
    heads = num_head or num_heads
    require(heads > 0, f"attention with {heads} heads")


@check_before("_grouped_mm")
def _grouped_mm(self: Tensor, mat2: Tensor, offs: Tensor | None, **_: Any) -> None:
    """Offsets rise within the dimension that they divide."""
    if offs is None or not (self.dim() and mat2.dim()):
        return
    divided = mat2.size(-1) if self.dim() == _SEQUENCE else self.size(mat2.dim() - _SEQUENCE)
    fits = is_within(offs, divided + 1) and bool((offs[1:] >= offs[:-1]).all())
    require(fits, f"offsets of groups that are not within {divided}")


@check_before("histc", "histogram", "histogramdd")
def _histogram(self: Tensor, bins: Any, **_: Any) -> None:
    """The kernel computes the bin of an element in the dtype of the input, which rounds."""
    if isinstance(bins, Tensor) or not self.is_floating_point():
        return
    numbers = [bins] if isinstance(bins, int) else bins
    is_exact = all(isinstance(n, Tensor) or n * torch.finfo(self.dtype).eps <= 1 for n in numbers)
    require(is_exact, f"{bins} bins, which {self.dtype} does not tell apart")


@check_before("layer_norm", "native_layer_norm")
def _layer_norm(input: Tensor, normalized_shape: Sequence[int], **_: Any) -> None:
    """torch divides by the sizes that are normalized where the input is nested."""
    is_sound = not input.is_nested or all(normalized_shape)
    require(is_sound, "the elements that a nested tensor is normalized over are none")


@check_before("combinations")
def _combinations(r: int, **_: Any) -> None:
    require(r <= _MOST_DIMENSIONS, f"combinations of {r} elements")


@check_before("native_batch_norm")
def _batch_norm(input: Tensor, training: bool, **given: Any) -> None:
    """Numbers of each channel are as many as there are channels."""
    has_both = given["running_mean"] is not None and given["running_var"] is not None
    require(training or has_both, "running statistics are needed where there is no training")
    channels = input.size(1) if input.dim() > 1 else 0
    for name in ("weight", "bias", "running_mean", "running_var"):
        value = given[name]
        fits = value is None or list(value.size()) == [channels]
        require(fits, f"{name} is not of {channels} channels")


@check_before("scaled_dot_product_attention")
def _dot_product(query: Tensor, key: Tensor, value: Tensor, **_: Any) -> None:
    """Queries and keys are of one width, keys and values of one number."""
    if query.is_nested or key.is_nested or value.is_nested:
        return
    fits = min(query.dim(), key.dim(), value.dim()) >= _MATRIX
    if not (fits and query.size(-1) == key.size(-1) and key.size(-2) == value.size(-2)):
        sizes = ", ".join(str(list(tensor.size())) for tensor in (query, key, value))
        raise ScriptError(f"attention to sizes {sizes}")


@check_before("fused_moving_avg_obs_fake_quant")
def _moving_average(
    self: Tensor, ch_axis: int, per_row_fake_quant: bool, observer_on: Tensor,
    fake_quant_on: Tensor, running_min: Tensor, running_max: Tensor, scale: Tensor,
    zero_point: Tensor, **_: Any,
) -> None:  # fmt: skip
    """Observers hold one element, or one for each row; torch makes missing ones."""
    is_axis = -self.dim() <= ch_axis < self.dim()
    require(not per_row_fake_quant or is_axis, f"{ch_axis} is no axis of rows")
    rows = self.size(ch_axis) if per_row_fake_quant else 1
    observed = [running_min, running_max, scale, zero_point]
    is_new = per_row_fake_quant and not observed[0].numel() and not observed[1].numel()
    if is_new:
        can_grow = all(tensor.untyped_storage().resizable() for tensor in observed)
        require(can_grow, "the memory of what is observed cannot grow")
    else:
        counts = [tensor.numel() for tensor in observed]
        require(counts == [rows] * 4, f"{counts} observed numbers for {rows} rows")
    require(all(tensor.is_contiguous() for tensor in observed), "observed numbers share memory")
    fits = observer_on.numel() == fake_quant_on.numel() == 1
    require(fits, "observer_on and fake_quant_on are one number each")


@check_before("copy")
def _copy(self: Any, **_: Any) -> None:
    if isinstance(self, Tensor):
        is_plain = self.layout in (torch.strided, torch.sparse_coo)
        require(is_plain, f"a tensor of layout {self.layout} cannot be copied to")


@check_before("rrelu_with_noise", "rrelu_with_noise_")
def _rrelu(self: Tensor, noise: Tensor, **_: Any) -> None:
    """The kernel writes to ``noise`` as if it were contiguous, and of the size of ``self``."""
    fits = noise.is_contiguous() and noise.size() == self.size() and noise.dtype == self.dtype
    require(fits, f"noise of sizes {list(noise.size())} for {list(self.size())}")


@check_before("repeat_interleave")
def _repeats(repeats: Any = None, **_: Any) -> None:
    """The kernel adds up the repeats in 64 bits, and writes as many elements as they tell."""
    if isinstance(repeats, Tensor) and not repeats.is_floating_point() and repeats.numel():
        require(is_within(repeats), "repeats can not be negative")
        total = int(repeats.max()) * repeats.numel()
        require(total < 2**63 or sum(repeats.flatten().tolist()) < 2**63, "too many repeats")


@check_before("__interpolate", "__upsample", "__upsample_bilinear", "__upsample_nearest")
def _resized(input: Tensor, size: Any = None, scale_factor: Any = None, **_: Any) -> None:
    """torch reads a size and a scale for each dimension of space, as many as the input has."""
    for name, numbers in (("size", size), ("scale_factor", scale_factor)):
        if isinstance(numbers, (list, tuple)):
            fits = len(numbers) >= max(input.dim() - 2, 1)
            require(fits, f"{name} {list(numbers)} for an input of {input.dim()} dimensions")


@check_before("quantize_per_channel")
def _per_channel(dtype: int, zero_points: Tensor, **_: Any) -> None:
    """torch has no kernel for 32 bits and zero points of floats, and runs into a trap."""
    has_kernel = dtype != _QINT32 or not zero_points.is_floating_point()
    require(has_kernel, "qint32 with zero points that are no integers")


@check_before("as_strided", "as_strided_copy", "as_strided_scatter")
def _sizes(size: Sequence[int], **_: Any) -> None:
    """torch takes negative sizes where the product of all is zero."""
    require(all(length >= 0 for length in size), f"a negative size in {size}")


@check_before("broadcast_to", "expand", "expand_copy")
def _expanded(size: Sequence[int], **_: Any) -> None:
    """-1 stands for the size that is there; torch takes less beside a dimension of size 0."""
    require(all(length >= -1 for length in size), f"a negative size in {size}")


@check_before("view.dtype", "view_copy")
def _bytes_view(self: Tensor, dtype: int | None = None, **_: Any) -> None:
    """torch takes the result for a quantized tensor where one of the two is."""
    is_plain = dtype is None or not (self.is_quantized or dtype in _QUANTIZED)
    require(is_plain, "the bytes of a quantized tensor are not viewed in another dtype")


@check_before("to.prim_Device", "to.prim_dtype", "to.prim_other")
def _copied(copy: bool, dtype: Any = None, device: Any = None, **_: Any) -> None:
    """torch converts to the dtype that lies on its stack where it is given none."""
    has_target = dtype is not None or device is not None
    require(has_target or not copy, "a copy by to() needs a dtype or a device")


@check_before("_grad_sum_to_size")
def _sum_to_size(self: Tensor, size: Sequence[int] | None, **_: Any) -> None:
    """Sizes that the tensor can have been expanded from."""
    found = list(self.size())
    if size is not None:
        behind = found[len(found) - len(size) :]
        fits = len(size) <= len(found)
        fits = fits and all(a in (1, b) for a, b in zip(size, behind, strict=True))
        require(fits, f"a tensor of sizes {found} is not summed to {size}")


@check_before("choose_qparams_optimized")
def _best_scale(
    input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int, **_: Any
) -> None:
    """The search goes in steps of ratio times range, and reads ``numel`` elements."""
    fits = input.dtype == torch.float32 and input.layout is torch.strided
    fits = fits and 0 < numel <= input.numel() and 0 < n_bins <= _MOST_BINS
    fits = fits and 0 <= ratio <= 1 and 0 < bit_width < _MOST_BITS
    require(fits, "arguments of choose_qparams_optimized that do not fit its input")


@check_before("native_group_norm")
def _group_norm(input: Tensor, N: int, C: int, group: int, **given: Any) -> None:
    """The kernel divides by the given sizes and groups, and reads as far as they reach."""
    space: int = given["HxW"]
    fits = group > 0 and min(N, C, space) >= 0 and C % group == 0
    fits = fits and input.numel() == N * C * space
    require(fits, f"{group} groups of {C} channels for sizes {list(input.size())}")
    for name in ("weight", "bias"):
        value: Tensor | None = given[name]
        require(value is None or value.numel() == C, f"{name} is not of {C} channels")


@check_before(
    *(
        f"special_{kind}chebyshev_polynomial_{n}" for kind in ("", "shifted_") for n in "tuvw"
    ),
    "special_hermite_polynomial_h", "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l", "special_legendre_polynomial_p",
)  # fmt: skip
def _order(n: Any, **_: Any) -> None:
    """Kernels of polynomials take as many steps as the order tells, for each element."""
    orders = torch.as_tensor(n)
    if not (orders.is_complex() or orders.is_meta):
        is_high = bool((orders.to(torch.int64) > _HIGHEST).any())  # converted as the kernel does
        require(not is_high, f"a polynomial of an order above {_HIGHEST}")


@check_before("polygamma", "polygamma_", "special_polygamma", "special_zeta")
def _zeta(self: Any, n: int = _PAIRS, **given: Any) -> None:
    """The kernel goes in steps of one from a negative number up to zero."""
    start = torch.as_tensor(given.get("other", self))
    is_direct = n < _PAIRS  # digamma and trigamma take no steps
    if not (is_direct or start.is_complex() or start.is_meta):
        is_far = bool((start.to(torch.float64) < -_HIGHEST).any())
        require(not is_far, f"a sum from below {-_HIGHEST}")


@check_before("random_.from", "random.from", "random.from_out")
def _random_from(self: Tensor, **given: Any) -> None:
    """torch looks for a whole number above the first one that a float can tell from it."""
    is_whole = not self.is_floating_point()
    require(is_whole or given["from"] != INT64_MAX, "there are no floats to draw from there")


@check_before("trapezoid", "trapz")
def _not_nested(y: Tensor, **_: Any) -> None:
    """torch selects from nested tensors by a dimension counted from the end without counting."""
    require(not y.is_nested, "a nested tensor has no integral")


@check_before("select.int")
def _select(self: Tensor, dim: int, **_: Any) -> None:
    is_counted = dim >= 0 or not self.is_nested
    require(is_counted, "the dimensions of a nested tensor are counted from the front")


@check_before(
    *(f"to.{kind}" for kind in ("device", "dtype", "dtype_layout", "other")),
    *(f"{kind}_like" for kind in ("empty", "full", "ones", "rand", "randint", "randn", "zeros")),
    "_to_copy",
)
def _nested_dtype(
    self: Tensor, dtype: int | None = None, other: Tensor | None = None, **_: Any
) -> None:
    """torch makes a quantized tensor of parts that do not fit together."""
    wanted = dtype in _QUANTIZED or (other is not None and other.is_quantized)
    require(not (wanted and self.is_nested), "a nested tensor is not quantized")


@check_before("binomial")
def _binomial(count: Tensor, **_: Any) -> None:
    """The kernel draws until a number is below the count, which nan never is."""
    require(count.is_meta or not bool(count.isnan().any()), "a count of nan")


def check_lists(**given: Any) -> None:
    """Formulas of operators on lists read as many items of each as the first list has."""
    lengths = {len(value) for value in given.values() if isinstance(value, (list, tuple))}
    require(len(lengths) <= 1, f"lists of {' and '.join(map(str, sorted(lengths)))} items")


@check_before("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid(interpolation_mode: int, padding_mode: int, **_: Any) -> None:
    modes = {"interpolation_mode": interpolation_mode, "padding_mode": padding_mode}
    for name, mode in modes.items():
        require(0 <= mode < _GRID_MODES, f"{mode} is no {name} of grid_sampler")


@check_before(
    *(f"{name}{n}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)),
    "upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d", "upsample_trilinear3d",
)  # fmt: skip
def _scaled(**given: Any) -> None:
    """Kernels compute positions from the inverse of a scale, and convert them to integers."""
    for scale in _scales(given):
        require(not 0 < (scale or 0) < _LEAST_SCALE, f"a scale of {scale}")
    if _resampled(given).is_quantized:
        _filtered(**given)


@check_before(*(f"_upsample_{kind}2d_aa" for kind in ("bicubic", "bilinear", "lanczos")))
def _filtered(output_size: Sequence[int] | None, **given: Any) -> None:
    """Kernels that filter look as far as the scales tell, and count on them to fit the sizes."""
    inputs = list(_resampled(given).size())[2:]
    for i, (scale, before) in enumerate(zip(_scales(given), inputs, strict=False)):
        after = math.nan if output_size is None or i >= len(output_size) else output_size[i]
        require(scale is None or _is_scale(scale, before, after), f"a scale of {scale}")


def _resampled(given: Given) -> Tensor:
    data: Tensor = given["self"] if "self" in given else given["input"]
    return data


def _scales(given: Given) -> Sequence[float | None]:
    names = ("scales", "scales_d", "scales_h", "scales_w")
    return given.get("scale_factors") or [given[n] for n in names if n in given]


def _is_scale(scale: float, before: int, after: float) -> bool:
    """``after`` is the whole part of ``before`` times ``scale``, or nan: the scale alone tells."""
    exact = before * scale
    if not math.isfinite(exact) or exact < 1 - _SLACK:
        return False
    return math.isnan(after) or after - _SLACK <= exact < after + 1 + _SLACK


_DIVIDED: Final = (torch.int32, torch.int64)  # as such; smaller integers are divided as int
# An operation that ends the process cannot be tried, so the version decides.
_FLOORING_TRAPS: Final[bool] = torch.__version__ < "2.10"
_FLOORING: Final = ("floor_divide", "fmod", "fmod_", "remainder", "remainder_")


def check_rounding(rounding_mode: str | None, **given: Any) -> None:
    data = given["self"]
    # torch adds up equal indices of a sparse tensor in place, beneath others that share them.
    is_sound = data.layout is not torch.sparse_coo or data.is_coalesced()
    if rounding_mode is not None:
        require(is_sound, "a sparse tensor is coalesced before it is divided with rounding")
    if rounding_mode == "trunc" or (_FLOORING_TRAPS and rounding_mode == "floor"):
        _no_overflow(**given)


@check_before(*(_FLOORING if _FLOORING_TRAPS else ()))
def _no_overflow(self: Any = None, other: Any = None, **_: Any) -> None:
    """The least integer divided by -1 ends the process, in the dtype that both are converted to.

    Overloads for numbers call theirs otherwise, and are Python's.
    """
    if self is None:
        return
    dtype = torch.result_type(self, other)
    if dtype not in _DIVIDED:
        return
    one, two = _as_kernels_get(self, dtype), _as_kernels_get(other, dtype)
    if _has_least(one):
        is_fault = (_elements(one) == torch.iinfo(dtype).min) & (two == -1)
        require(not bool(is_fault.any()), "the least integer cannot be divided by -1")


@check_before("floor_divide_")
def _floor_divide_in_place(**given: Any) -> None:
    check_rounding("floor", **given)


def _as_kernels_get(value: Any, dtype: torch.dtype) -> Tensor:
    """A tensor or a number as kernels get it: in the bits of ``dtype``, however many it had."""
    return (value if isinstance(value, Tensor) else torch.tensor(int(value))).to(dtype)


@check_before("lcm", "lcm_")
def _multiples(self: Tensor, other: Tensor, **_: Any) -> None:
    """Kernels divide by what they take for the greatest common divisor, which may be -1."""
    dtype = torch.result_type(self, other)
    one, two = self.to(dtype), other.to(dtype)
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


@check_before("linalg_eigvals")
def _eigenvalues(self: Tensor, **_: Any) -> None:
    """LAPACK reads beyond its memory when it meets numbers that are not finite."""
    is_fine = self.layout is not torch.strided or bool(torch.isfinite(self).all())
    require(is_fine, "the matrix whose eigenvalues are wanted holds infs or NaNs")


@check_before("lu_unpack")
def _pivots(LU_data: Tensor, LU_pivots: Tensor, **_: Any) -> None:
    sizes, found = list(LU_data.size()), list(LU_pivots.size())
    fits = len(sizes) >= _MATRIX and found == [*sizes[:-2], min(sizes[-2:])]
    require(fits, f"pivots of sizes {found} for {sizes}")


@check_before("linalg_ldl_solve")
def _pivot_pairs(LD: Tensor, pivots: Tensor, **_: Any) -> None:
    """LAPACK takes a negative pivot and the one behind it for a block of two rows."""
    fits = LD.dim() >= _MATRIX and pivots.size() == LD.size()[:-1]
    require(fits, f"pivots of sizes {list(pivots.size())} for {list(LD.size())}")
    if not pivots.is_meta:
        rows = list(pivots.reshape(-1, pivots.size(-1))) if pivots.numel() else []
        require(all(_is_paired(row.tolist()) for row in rows), "pivots that ldl_factor cannot give")


def _is_paired(pivots: Sequence[int]) -> bool:
    """Return whether all name rows, and negative ones stand in pairs."""
    places = iter(pivots)
    is_paired = all(place > 0 or next(places, 0) == place for place in places)
    return is_paired and all(0 < abs(place) <= len(pivots) for place in pivots)


@check_before("linalg_lstsq")
def _least_squares(b: Tensor, driver: str | None, **_: Any) -> None:
    require(driver != "gelss" or b.numel() > 0, "the driver gelss needs a right side")


@check_before("chain_matmul", "linalg_multi_dot")
def _chain(tensors: Sequence[Tensor] = (), matrices: Sequence[Tensor] = (), **_: Any) -> None:
    """torch looks for the best order in a table of all pairs."""
    factors = tensors or matrices
    require(len(factors) <= _MOST_FACTORS, f"a product of {len(factors)} matrices")


@check_before("linalg_matrix_power", "matrix_power")
def _power(n: int, **_: Any) -> None:
    """torch takes the power to ``-n`` of the inverse."""
    require(n != INT64_MIN, "the least integer has no opposite")


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


@check_before("t_", "transpose_", "swapaxes_", "swapdims_")
def _in_place(self: Tensor, **_: Any) -> None:
    """torch exchanges rows of the indices in place, beneath other tensors that share them."""
    require(self.layout is torch.strided, "a sparse tensor is not transposed in place")


@check_before(*(f"to_sparse{kind}" for kind in ("", "_bsc", "_bsr", "_csc", "_csr")))
def _blocks(self: Tensor, blocksize: Any = None, **_: Any) -> None:
    """torch counts the elements of blocks and of batches in the dtype of the indices."""
    if self.layout in _ACCESSORS and not self.is_meta:
        is_flat = self.layout in _WITHOUT_BLOCKS and not blocksize and self.dim() <= 2
        is_counted = _compressed_parts(self)[0].dtype is torch.int64 or self.numel() < _FAR
        require(is_flat or is_counted, f"indices of 32 bits over sizes {list(self.size())}")


@check_before("smm", "sspaddmm")
def _product(self: Tensor, mat2: Tensor, mat1: Tensor | None = None, **_: Any) -> None:
    """torch multiplies how many elements there are by the columns in 64 bits."""
    sparse = self if mat1 is None else mat1
    is_product = sparse.layout is torch.sparse_coo and sparse.dim() == mat2.dim() == 2
    count = max(sparse._nnz(), sparse.size(0)) * mat2.size(1) if is_product else 0
    require(count < _FAR**2, f"a product of sizes {list(mat2.size())}")
