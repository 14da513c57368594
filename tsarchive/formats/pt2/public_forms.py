"""Public operators in place of internal, masked and Python-implemented ones.

Replacements by a single call are rows of ``tsarchive/operators/bindings.py``; the others are
functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Value
from tsarchive.ir.types import BOOL, INT, NONE
from tsarchive.operators.bindings import CALLS, PublicForm

from .arguments import DTYPE_NUMBERS
from .building import Body
from .schema import ScalarType

Given = Mapping[str, Value]
"""All arguments of the internal operator by name."""

Emit = Callable[[Body, Given], list[Value]]

_STATISTICS: Final = ("running_mean", "running_var")


def _called(form: PublicForm) -> Emit:
    operator, _, overload = form.operator.partition(".")

    def call(body: Body, given: Given) -> list[Value]:
        names = form.arguments or [name for name in given if name not in form.keywords]
        positional = [_value(body, name, given) for name in names]
        keywords = {name: given[name] for name in form.keywords}
        results = body.call(operator, *positional, overload=overload, **keywords)
        return results if form.results is None else _in_places(body, results, form.results)

    return call


def _value(body: Body, argument: str | bool | None, given: Given) -> Value:
    if isinstance(argument, str):
        return given[argument]
    return body.constant(argument, NONE if argument is None else BOOL)


def _in_places(body: Body, results: Iterable[Value], is_given: Iterable[bool]) -> list[Value]:
    """Return the results in the places that have one, and None for the others."""
    left = iter(results)
    return [next(left) if is_one else body.none() for is_one in is_given]


def _batch_norm_functional(body: Body, given: Given) -> list[Value]:
    """Return batch norm that updates copies of the statistics, and returns them."""
    copies = {name: body.value("aten::clone", given[name]) for name in _STATISTICS}
    norm = _called(CALLS["aten::_native_batch_norm_legit"])
    return [*norm(body, {**given, **copies}), *copies.values()]


def _batch_norm_and_reserve(training: bool) -> Emit:
    """Return batch norm and its reserve tensor for cuDNN's backward pass, empty elsewhere."""
    norm = _called(CALLS["aten::_native_batch_norm_legit"])

    def call(body: Body, given: Given) -> list[Value]:
        values = {**given, "training": body.constant(training, BOOL)}
        return [*norm(body, values), _reserve(body, given)]

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


def _histogram(overload: str, result: int) -> Emit:
    """Return the counts of a histogram of points, or the edges of its bins."""

    def call(body: Body, given: Given) -> list[Value]:
        limits = given.get("range", body.none())
        values = given["self"], given["bins"], limits, given["weight"], given["density"]
        return [body.call("aten::histogramdd", *values, overload=overload)[result]]

    return call


def _masked(kind: str) -> Emit:
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


def _counted(body: Body, given: Given) -> list[Value]:
    """Return ``length`` numbers from ``start`` on."""
    start, step = given["start"], given["step"]
    end = body.value("aten::add", start, body.value("aten::mul", given["length"], step))
    options = {"dtype": given["dtype"], "device": given["device"]}
    return body.call("aten::arange", start, end, step, overload="start_step", **options)


# Normalizations by number: none, 1/sqrt(n), 1/n.
_FORWARD_NORMS: Final = ("backward", "ortho", "forward")
_INVERSE_NORMS: Final = ("forward", "ortho", "backward")

PUBLIC_FORMS: Final[Mapping[str, Emit]] = MappingProxyType(
    {
        **{step: _called(form) for step, form in CALLS.items()},
        "aten::_batch_norm_no_update": _batch_norm_and_reserve(training=False),
        "aten::_batch_norm_with_update": _batch_norm_and_reserve(training=True),
        "aten::_batch_norm_with_update_functional": _batch_norm_and_reserve_functional,
        "aten::_embedding_bag": _embedding_bag,
        "aten::_embedding_bag_forward_only": _embedding_bag,
        "aten::_fft_c2c": _complex_transform,
        "aten::_fft_c2r": _transform_to_real,
        "aten::_fft_r2c": _real_transform,
        "aten::_histogramdd_bin_edges": _histogram("", 1),
        "aten::_histogramdd_from_bin_cts": _histogram("", 0),
        "aten::_histogramdd_from_bin_tensors": _histogram("TensorList_bins", 0),
        "aten::_linalg_eigh": _eigenvalues,
        "aten::_linalg_svd": _singular_values,
        "aten::_native_batch_norm_legit_functional": _batch_norm_functional,
        "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
        "aten::convolution_backward": _masked("aten::convolution_backward"),
        "prims::iota": _counted,
    }
)
"""The replacement of each internal operator, by its full name."""
