"""Public operators in place of internal, masked and Python-implemented ones.

Decomposing a program leaves internal operators that trust their caller to have checked arguments;
policies refuse them. The public operators check, and then do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Value
from tsarchive.ir.types import BOOL, INT, NONE

from .arguments import DTYPE_NUMBERS
from .building import Body
from .python_operators import PYTHON_FORMS
from .schema import ScalarType

__all__ = ["PUBLIC_FORMS"]

Given = Mapping[str, Value]
"""All arguments of the internal operator by name."""


class _Name(NamedTuple):
    """An argument of the public operator that is one of the internal operator."""

    name: str


_FIRST: Final = (_Name("input"), _Name("weight"), _Name("bias"))
_STATISTICS: Final = (_Name("running_mean"), _Name("running_var"))
_LAST: Final = (_Name("momentum"), _Name("eps"))
_TRAINING: Final = _Name("training")


def _call(
    kind: str, overload: str, *arguments: _Name | bool | None
) -> Callable[[Body, Given], list[Value]]:
    def call(body: Body, given: Given) -> list[Value]:
        values = [_value(body, argument, given) for argument in arguments]
        return body.call(kind, *values, overload=overload)

    return call


def _value(body: Body, argument: _Name | bool | None, given: Given) -> Value:
    if isinstance(argument, _Name):
        return given[argument.name]
    return body.constant(argument, NONE if argument is None else BOOL)


def _same(kind: str, overload: str = "") -> Callable[[Body, Given], list[Value]]:
    """Replace by an operator that takes the same arguments in the same order."""

    def call(body: Body, given: Given) -> list[Value]:
        return body.call(kind, *given.values(), overload=overload)

    return call


def _batch_norm_functional(body: Body, given: Given) -> list[Value]:
    """Return batch norm that updates copies of the statistics, and returns them."""
    copies = {name: body.value("aten::clone", given[name]) for (name,) in _STATISTICS}
    norm = _call("aten::native_batch_norm", "", *_FIRST, *_STATISTICS, _TRAINING, *_LAST)
    return [*norm(body, {**given, **copies}), *copies.values()]


def _batch_norm_and_reserve(training: bool) -> Callable[[Body, Given], list[Value]]:
    """Return batch norm and its reserve tensor for cuDNN's backward pass, empty elsewhere."""
    norm = _call("aten::native_batch_norm", "", *_FIRST, *_STATISTICS, training, *_LAST)

    def call(body: Body, given: Given) -> list[Value]:
        return [*norm(body, given), _reserve(body, given)]

    return call


def _batch_norm_and_reserve_functional(body: Body, given: Given) -> list[Value]:
    training = {**given, "training": body.constant(True, BOOL)}
    *results, mean, variance = _batch_norm_functional(body, training)
    return [*results, _reserve(body, given), mean, variance]


def _reserve(body: Body, given: Given) -> Value:
    size, dtype = body.list_of(INT, [body.integer(0)]), body.integer(DTYPE_NUMBERS[ScalarType.BYTE])
    return body.value("aten::new_zeros", given["input"], size, dtype=dtype)


def _attention(body: Body, given: Given) -> list[Value]:
    """Return attention without the log-sum-exp, which only its backward pass uses."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    result = body.value(
        "aten::scaled_dot_product_attention",
        *(given[name] for name in names),
        scale=given["scale"],
    )
    return [result, body.none()]


def _embedding_bag(body: Body, given: Given) -> list[Value]:
    """Return the embedding bag; a negative padding index means none here, not in the public one."""
    padding = given["padding_idx"]
    if _literal(padding) < 0:
        padding = body.none()
    values = {**given, "padding_idx": padding}.values()
    return body.call("aten::embedding_bag", *values, overload="padding_idx")


def _real_transform(body: Body, given: Given) -> list[Value]:
    if not _literal(given["onesided"]):
        return _transform(body, given, "aten::fft_fftn", _FORWARD_NORMS)
    return _transform(body, given, "aten::fft_rfftn", _FORWARD_NORMS)


def _complex_transform(body: Body, given: Given) -> list[Value]:
    if _literal(given["forward"]):
        return _transform(body, given, "aten::fft_fftn", _FORWARD_NORMS)
    return _transform(body, given, "aten::fft_ifftn", _INVERSE_NORMS)


def _transform_to_real(body: Body, given: Given) -> list[Value]:
    """Return the inverse transform of a half spectrum, given the size of the last dimension."""
    *dims, _ = given["dim"].node.inputs or [given["last_dim_size"]]
    sizes = [body.value("aten::size", given["self"], dim) for dim in dims]
    shape = body.list_of(INT, [*sizes, given["last_dim_size"]])
    return _transform(body, given, "aten::fft_irfftn", _INVERSE_NORMS, shape)


def _transform(
    body: Body, given: Given, kind: str, norms: Sequence[str], shape: Value | None = None
) -> list[Value]:
    number = _literal(given["normalization"])
    if number not in range(len(norms)):
        raise FormatError(f"a Fourier transform has no normalization {number}")
    norm = body.string(norms[number])
    return body.call(kind, given["self"], shape or body.none(), given["dim"], norm, overload="")


def _factors(kind: str, *names: str) -> Callable[[Body, Given], list[Value]]:
    """Replace by a linear algebra function without the factors for its backward pass.

    ``names`` are the results; factors have no name.
    """

    def call(body: Body, given: Given) -> list[Value]:
        keywords = {name: given[name] for name in ("left", "check_errors") if name in given}
        matrices = [given[name] for name in ("A", "B") if name in given]
        results = iter(body.call(kind, *matrices, overload="", **keywords))
        return [next(results) if name else body.none() for name in names]

    return call


def _singular_values(body: Body, given: Given) -> list[Value]:
    matrix, driver = given["A"], given["driver"]
    if _literal(given["compute_uv"]):
        full = given["full_matrices"]
        return body.call("aten::linalg_svd", matrix, full, driver=driver, overload="")
    values = body.call("aten::linalg_svdvals", matrix, driver=driver, overload="")
    return [body.none(), *values, body.none()]


def _eigenvalues(body: Body, given: Given) -> list[Value]:
    matrix, triangle = given["A"], given["UPLO"]
    if _literal(given["compute_v"]):
        return body.call("aten::linalg_eigh", matrix, triangle, overload="")
    return [*body.call("aten::linalg_eigvalsh", matrix, triangle, overload=""), body.none()]


def _histogram(overload: str, result: int) -> Callable[[Body, Given], list[Value]]:
    """Return the counts of a histogram of points, or the edges of its bins."""

    def call(body: Body, given: Given) -> list[Value]:
        limits = given.get("range", body.none())
        values = given["self"], given["bins"], limits, given["weight"], given["density"]
        return [body.call("aten::histogramdd", *values, overload=overload)[result]]

    return call


def _with_keywords(kind: str, *keywords: str) -> Callable[[Body, Given], list[Value]]:
    """Replace by an operator that takes the same arguments, some of them by keyword."""

    def call(body: Body, given: Given) -> list[Value]:
        positional = [value for name, value in given.items() if name not in keywords]
        named = {name: given[name] for name in keywords}
        return body.call(kind, *positional, overload="", **named)

    return call


def _masked(kind: str) -> Callable[[Body, Given], list[Value]]:
    """Replace by an operator that omits the results that ``output_mask`` does not request."""

    def call(body: Body, given: Given) -> list[Value]:
        results = body.call(kind, *given.values(), overload="")
        asked = [_literal(value) for value in given["output_mask"].node.inputs]
        pairs = zip(asked, results, strict=True)
        return [result if is_asked else body.none() for is_asked, result in pairs]

    return call


def _literal(value: Value) -> Any:
    """Return the content of an argument that must be a literal. Raises UnsupportedError."""
    if not value.node.is_constant:
        raise UnsupportedError("an argument is no literal")
    return value.node.attributes["value"]


# Normalizations by number: none, 1/sqrt(n), 1/n.
_FORWARD_NORMS: Final = ("backward", "ortho", "forward")
_INVERSE_NORMS: Final = ("forward", "ortho", "backward")

PUBLIC_FORMS: Final[Mapping[str, Callable[[Body, Given], list[Value]]]] = MappingProxyType(
    {
        "aten::_batch_norm_no_update": _batch_norm_and_reserve(training=False),
        "aten::_batch_norm_with_update": _batch_norm_and_reserve(training=True),
        "aten::_batch_norm_with_update_functional": _batch_norm_and_reserve_functional,
        "aten::_adaptive_avg_pool2d": _same("aten::adaptive_avg_pool2d"),
        "aten::_adaptive_avg_pool3d": _same("aten::adaptive_avg_pool3d"),
        "aten::_cdist_forward": _same("aten::cdist"),
        "aten::_embedding_bag": _embedding_bag,
        "aten::_embedding_bag_forward_only": _embedding_bag,
        "aten::_fft_c2c": _complex_transform,
        "aten::_fft_c2r": _transform_to_real,
        "aten::_fft_r2c": _real_transform,
        "aten::_histogramdd_bin_edges": _histogram("", 1),
        "aten::_histogramdd_from_bin_cts": _histogram("", 0),
        "aten::_histogramdd_from_bin_tensors": _histogram("TensorList_bins", 0),
        "aten::_linalg_det": _factors("aten::linalg_det", "det", "", ""),
        "aten::_linalg_eigh": _eigenvalues,
        "aten::_linalg_eigvals": _same("aten::linalg_eigvals"),
        "aten::_linalg_slogdet": _factors("aten::linalg_slogdet", "sign", "logabsdet", "", ""),
        "aten::_linalg_solve_ex": _factors("aten::linalg_solve_ex", "result", "", "", "info"),
        "aten::_linalg_svd": _singular_values,
        "aten::_native_batch_norm_legit": _call(
            "aten::native_batch_norm", "", *_FIRST, *_STATISTICS, _TRAINING, *_LAST
        ),
        "aten::_native_batch_norm_legit.no_stats": _call(
            "aten::native_batch_norm", "", *_FIRST, None, None, _TRAINING, *_LAST
        ),
        "aten::_native_batch_norm_legit_functional": _batch_norm_functional,
        "aten::_native_batch_norm_legit_no_training": _call(
            "aten::native_batch_norm", "", *_FIRST, *_STATISTICS, False, *_LAST
        ),
        "aten::_pdist_forward": _same("aten::pdist"),
        "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
        "aten::_to_dense": _with_keywords("aten::to_dense", "masked_grad"),
        "aten::_to_sparse": _with_keywords("aten::to_sparse", "layout", "blocksize", "dense_dim"),
        "aten::_to_sparse.sparse_dim": _same("aten::to_sparse", "sparse_dim"),
        "aten::_to_sparse_bsc": _same("aten::to_sparse_bsc"),
        "aten::_to_sparse_bsr": _same("aten::to_sparse_bsr"),
        "aten::_to_sparse_csc": _same("aten::to_sparse_csc"),
        "aten::_to_sparse_csr": _same("aten::to_sparse_csr"),
        "aten::_unsafe_index.Tensor": _same("aten::index", "Tensor"),
        "aten::_unsafe_index_put": _same("aten::index_put"),
        "aten::convolution_backward": _masked("aten::convolution_backward"),
        **PYTHON_FORMS,
    }
)
"""The replacement of each internal operator, by its full name."""
