"""Operators by their names in programs, and their arguments by name.

Public operators stand in for internal, masked and Python-implemented ones: replacements by a single
call are rows of ``tsarchive/operators/python_forms.py``, the others are functions here. Assertions
become conditions: they have no results, so dead code elimination would drop them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Value, must_be_none
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, NUMBER, TENSOR, ListType, Type
from tsarchive.operators.python_forms import CALLS, PublicForm

from . import schema
from .arguments import Values, argument_value, bind_results, operands
from .building import Body
from .metadata import operator_and_overload

Given = Mapping[str, Value]
"""All arguments of the internal operator by name."""

Emit = Callable[[Body, Given], list[Value]]

_STATISTICS: Final = ("running_mean", "running_var")
# Numbers of dtypes in TorchScript code.
_BYTE, _LONG, _DOUBLE, _BOOL = 0, 4, 7, 11


def _called(form: PublicForm) -> Emit:
    operator, _, overload = form.operator.partition(".")

    def call(body: Body, given: Given) -> list[Value]:
        names = form.arguments or [name for name in given if name not in form.keywords]
        positional = [_value(body, name, given) for name in names]
        keywords = {name: given[name] for name in form.keywords}
        results = body.call(operator, *positional, overload=overload, **keywords)
        if form.results is None:
            return results
        # None stands in the places that have no result.
        left = iter(results)
        return [next(left) if is_given else body.none() for is_given in form.results]

    return call


def _value(body: Body, argument: str | bool | None, given: Given) -> Value:
    if isinstance(argument, str):
        return given[argument]
    return body.constant(argument, NONE if argument is None else BOOL)


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
    size, dtype = body.list_of(INT, [body.integer(0)]), body.integer(_BYTE)
    return body.value("aten::new_zeros", given["input"], size, dtype=dtype)


def _embedding_bag(body: Body, given: Given) -> list[Value]:
    """Return the embedding bag; a negative padding index means none here, not in the public one."""
    padding = given["padding_idx"]
    if _literal(padding) < 0:
        padding = body.none()
    values = {**given, "padding_idx": padding}.values()
    return body.call("aten::embedding_bag", *values, overload="padding_idx")


def _real_transform(body: Body, given: Given) -> list[Value]:
    kind = "aten::fft_rfftn" if _literal(given["onesided"]) else "aten::fft_fftn"
    return _transform(body, given, kind, _FORWARD_NORMS)


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

PUBLIC_FORMS: Final[Mapping[str, Emit]] = {
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
    # Without the log-sum-exp, which only the backward pass uses.
    "aten::_scaled_dot_product_flash_attention_for_cpu": _called(
        PublicForm(
            "aten::scaled_dot_product_attention",
            ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"),
            keywords=("scale",),
            results=(True, False),
        )
    ),
    "aten::convolution_backward": _masked("aten::convolution_backward"),
    "prims::iota": _counted,
}
"""The replacement of each internal operator, by its full name."""


def _asserted(body: Body, given: Given) -> list[Value]:
    holds, message = body.truth(given["self"]), given.get("assert_msg")
    if message is None:
        body.raise_unless(holds, "a tensor that must hold a true value does not")
    elif not message.node.is_constant:
        raise UnsupportedError("the message of an assertion is no literal")
    else:
        body.raise_unless(holds, str(message.node.attributes["value"]))
    return []


def _in_range(body: Body, given: Given) -> list[Value]:
    number = given["size"]
    for kind, bound, words in (("aten::ge", "min", "less"), ("aten::le", "max", "more")):
        if not must_be_none(given[bound]):
            message = f"a number is {words} than the program was exported for"
            body.raise_unless(body.value(kind, number, given[bound]), message)
    return []


def _size_in_range(body: Body, given: Given) -> list[Value]:
    least = body.integer(0) if must_be_none(given["min"]) else given["min"]
    return _in_range(body, {**given, "min": least})


# The operator that reads the tensor property of each argument name.
_PROPERTIES: Final[Mapping[str, str]] = {
    "size": "aten::size",
    "stride": "aten::stride",
    "dtype": "prim::dtype",
    "device": "prim::device",
    "layout": "prim::layout",
}


def _of_tensor(body: Body, given: Given) -> list[Value]:
    for name, reader in _PROPERTIES.items():
        if must_be_none(given[name]):
            continue
        is_same = body.value("aten::eq", body.value(reader, given["a"]), given[name])
        body.raise_unless(
            is_same, f"a tensor is of another {name} than the program was exported for"
        )
    return []


def _without_errors(body: Body, given: Given) -> list[Value]:
    """Assert that the error codes of a linear algebra function, one for each matrix, are zeros."""
    has_error = body.truth(body.value("aten::any", given["info"]))
    api: Any = given["api_name"].node.attributes.get("value", "a function of linear algebra")
    body.raise_unless(body.value("aten::__not__", has_error), f"{api}: no result for a matrix")
    return []


def _functional(assertion: Emit) -> Emit:
    """Return the assertion with the token that functional programs thread through assertions."""

    def form(body: Body, given: Given) -> list[Value]:
        assertion(body, given)
        return [given["dep_token"]]

    return form


ASSERTIONS: Final[Mapping[str, Emit]] = {
    "aten::_assert_async": _asserted,
    "aten::_assert_async.msg": _asserted,
    "aten::_assert_scalar": _asserted,
    "aten::_assert_tensor_metadata": _of_tensor,
    "aten::_functional_assert_async.msg": _functional(_asserted),
    "aten::_functional_assert_scalar": _functional(_asserted),
    "aten::_functional_sym_constrain_range": _functional(_in_range),
    "aten::_functional_sym_constrain_range_for_size": _functional(_size_in_range),
    "aten::_linalg_check_errors": _without_errors,
    "aten::sym_constrain_range": _in_range,
    "aten::sym_constrain_range_for_size": _size_in_range,
}
"""The translation of each asserting operator, by its full name."""


# Operators on symbols, which differ from those of TorchScript only in their result types.
_OF_SYMBOLS: Final[Mapping[str, str]] = {
    "aten::sym_numel": "aten::numel",
    "aten::sym_size": "aten::size",
    "aten::sym_storage_offset": "aten::storage_offset",
    "aten::sym_stride": "aten::stride",
}
# Kinds that are the structure of TorchScript code, not callable operators.
_STRUCTURE: Final = frozenset(
    {
        "prim::EnumName", "prim::EnumValue", "prim::ModuleContainerIndex", "prim::TupleIndex",
        "prim::TupleUnpack", "prim::Uninitialized", "prim::unchecked_cast",
        "prim::unchecked_unwrap_optional",
    }
)  # fmt: skip
# Operators with a translation of their own.
_FORMS: Final = {**PUBLIC_FORMS, **ASSERTIONS}
# The one element of a tensor as a number, whose type the output determines.
_ITEMS: Final = frozenset({"aten::item", "aten::_local_scalar_dense"})

# The dtype of a number that becomes a tensor, by default.
_NUMBER_DTYPES: Final[Mapping[Type, int]] = {INT: _LONG, FLOAT: _DOUBLE}
# The operators to which torch passes numbers for tensors.
_TAKING_NUMBERS: Final = frozenset(
    f"aten::{name}"
    for name in (
        "_to_copy", "add", "copy", "div", "divide", "floor_divide", "mul", "multiply", "sub",
        "subtract", "true_divide",
    )
)  # fmt: skip


class Target(NamedTuple):
    """An operator such as ``aten::add``, and the name of its overload, often ""."""

    kind: str
    overload: str


def operator_of(target: str) -> Target:
    """Return the operator that a node's target names. Raises UnsupportedError for other targets."""
    found = operator_and_overload(target)
    if found is None:
        raise UnsupportedError(
            f"the target {target!r} names no operator",
            hint="Export the model again, and save what run_decompositions() gives",
        )
    kind, overload = found
    if kind.startswith("higher_order::") or kind in _STRUCTURE:
        raise UnsupportedError(f"nothing here stands for the operator {target}")
    return Target(_OF_SYMBOLS.get(kind, kind), "" if overload == "default" else overload)


def call_operator(body: Body, target: Target, node: schema.Node, values: Values) -> None:
    """Append the operator that a node calls, and bind its results.

    Raises FormatError where arguments or results do not fit, UnknownOperatorError for an
    operator that this process does not have.
    """
    kind, overload = target
    if kind in _ITEMS:
        taken = [value for one in node.inputs for value in operands(body, one.arg, values)]
        if len(taken) != 1:
            raise FormatError(f"{kind} takes one tensor, not {len(taken)}")
        bind_results(body, node.outputs, taken, values)
        return
    named = body.operators.overload(kind, overload)
    given = given_arguments(body, named, node.inputs, values)
    bind_results(body, node.outputs, call_with(body, named, given), values)


def call_function(body: Body, function: Function, node: schema.Node, values: Values) -> None:
    """Append a call of a function that implements an operator, and bind its results."""
    named = function.schema
    given = _all_arguments(body, named, given_arguments(body, named, node.inputs, values))
    bind_results(body, node.outputs, body.call_function(function, list(given.values())), values)


def call_with(body: Body, named: FunctionSchema, given: Given) -> list[Value]:
    """Return the results of an operator; defaults stand for arguments that are not given.

    In TorchScript code numbers are not bools, but in programs they may be: `full([2], True)` is a
    tensor of bools there, and `full([2], 1)` is not.
    """
    form = _FORMS.get(named.full_name)
    if form is not None:
        return form(body, _all_arguments(body, named, given))
    kind = named.name
    present = [argument for argument in named.arguments if argument.name in given]
    positional = [given[argument.name] for argument in present if not argument.kwarg_only]
    keywords = {argument.name: given[argument.name] for argument in present if argument.kwarg_only}
    types = [value.type for value in positional]
    bools = [
        position
        for position, value in enumerate(positional)
        if value.type == BOOL and named.arguments[position].type in (NUMBER, TENSOR)
    ]
    if bools and kind == "aten::full":
        if must_be_none(keywords.setdefault("dtype", body.none())):
            keywords["dtype"] = body.integer(_BOOL)
    elif bools:
        for position in bools:
            types[position] = TENSOR
        if body.operators.takes(kind, types):
            for position in bools:
                number = body.as_type(positional[position], INT)
                positional[position] = body.value(
                    "aten::scalar_tensor", number, dtype=body.integer(_BOOL)
                )
    positional = _with_tensors(body, named, positional, keywords)
    results = body.call_schema(kind, named, positional, keywords)
    for argument, value in zip(named.arguments, positional, strict=False):
        if argument.is_write and value.type == ListType(TENSOR):
            # In TorchScript code an operator that writes to the tensors of a list counts as a write
            # to the list only, and would be eliminated where the list is not used again. So each
            # tensor of the list is written to itself.
            for tensor in body.unpacked(value, len(value.node.inputs)):
                body.call("aten::squeeze_", tensor, body.list_of(INT, ()), overload="dims")
    return results


def _all_arguments(body: Body, named: FunctionSchema, given: Given) -> dict[str, Value]:
    return {
        argument.name: given.get(argument.name) or _default(body, argument)
        for argument in named.arguments
    }


def _default(body: Body, argument: Argument) -> Value:
    if not argument.has_default:
        raise FormatError(f"the argument {argument.name!r} is missing")
    return body.default(argument)


def _with_tensors(
    body: Body, named: FunctionSchema, given: list[Value], keywords: Mapping[str, Value]
) -> list[Value]:
    """Convert numbers passed for tensors, such as the 5 of `5 // x`, to tensors.

    Such a number has less weight in type promotion than a tensor of rank 0.
    """
    pairs = list(zip(named.arguments, given, strict=False))
    numbers = [one.type == TENSOR and value.type in _NUMBER_DTYPES for one, value in pairs]
    if named.name not in _TAKING_NUMBERS or not any(numbers):
        return given
    types = {name: value.type for name, value in keywords.items()}
    if body.operators.takes(named.name, [value.type for value in given], types):
        return given
    tensors = [value for value in given if value.type == TENSOR]
    return [
        _counted_as(body, value, tensors) if is_number else value
        for value, is_number in zip(given, numbers, strict=True)
    ]


def _counted_as(body: Body, number: Value, tensors: Sequence[Value]) -> Value:
    if tensors:
        dtype = body.value("aten::result_type", number, tensors[0])
    else:
        dtype = body.integer(_NUMBER_DTYPES[number.type])
    return body.value("aten::scalar_tensor", number, dtype=dtype)


def given_arguments(
    body: Body,
    named: FunctionSchema,
    inputs: Sequence[schema.NamedArgument],
    values: Mapping[str, Value],
    made: Given = MappingProxyType({}),
) -> dict[str, Value]:
    """Return the arguments of a node in schema order; defaults fill gaps between those by position.

    Arguments in ``made`` take the place of given ones.
    """
    given = _by_name(named, inputs)
    present = given.keys() | made.keys()

    def value_of(argument: Argument) -> Value:
        if argument.name in made:
            return made[argument.name]
        if argument.name in given:
            return argument_value(body, given[argument.name], values, argument.type)
        return _default(body, argument)

    by_position = [argument for argument in named.arguments if not argument.kwarg_only]
    while by_position and by_position[-1].name not in present:
        by_position.pop()
    by_name = [one for one in named.arguments if one.kwarg_only and one.name in present]
    return {argument.name: value_of(argument) for argument in (*by_position, *by_name)}


def _by_name(
    named: FunctionSchema, inputs: Sequence[schema.NamedArgument]
) -> dict[str, schema.Argument]:
    """Map arguments to their names; unnamed ones count from the first on."""
    known = [argument.name for argument in named.arguments]
    given: dict[str, schema.Argument] = {}
    for position, input_ in enumerate(inputs):
        name = input_.name or (known[position] if position < len(known) else "")
        if name not in known:
            raise FormatError(f"{named.full_name} has no argument {input_.name or position!r}")
        if name in given:
            raise FormatError(f"the argument {name!r} of {named.full_name} is given twice")
        given[name] = input_.arg
    return given
