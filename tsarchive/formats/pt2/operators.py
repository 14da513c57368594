"""Resolution of operators by their names in programs, and their arguments by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Value, must_be_none
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import BOOL, FLOAT, INT, NUMBER, TENSOR, ListType, Type

from . import schema
from .arguments import DTYPE_NUMBERS, Values, argument_value, bind_results, operands
from .assertions import ASSERTIONS
from .building import Body
from .public_forms import PUBLIC_FORMS
from .schema import ScalarType

# Prefixes that torch and ExecuTorch give to operators; "#" marks a registered extension.
_TARGET: Final = re.compile(
    r"(?:torch\.ops|executorch\.exir\.dialects\.(?:edge|backend)\._ops)"
    r"\.(\w+)\.(\w+)(?:\.(\w+))?|#(\w+):(\w+)(?:\.(\w+))?",
    re.ASCII,
)
# Operators on symbols, which differ from those of TorchScript only in their result types.
_OF_SYMBOLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aten::sym_numel": "aten::numel",
        "aten::sym_size": "aten::size",
        "aten::sym_storage_offset": "aten::storage_offset",
        "aten::sym_stride": "aten::stride",
    }
)
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

_BOOL: Final = DTYPE_NUMBERS[ScalarType.BOOL]
# The dtype of a number that becomes a tensor, by default.
_NUMBER_DTYPES: Final[Mapping[Type, int]] = MappingProxyType(
    {INT: DTYPE_NUMBERS[ScalarType.LONG], FLOAT: DTYPE_NUMBERS[ScalarType.DOUBLE]}
)
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
    match = _TARGET.fullmatch(target)
    if match is None:
        raise UnsupportedError(
            f"the target {target!r} names no operator",
            hint="Export the model again, and save what run_decompositions() gives",
        )
    namespace, name, overload = match.groups()[:3] if match[1] else match.groups()[3:]
    if namespace == "higher_order" or f"{namespace}::{name}" in _STRUCTURE:
        raise UnsupportedError(f"nothing here stands for the operator {target}")
    kind = f"{namespace}::{name}"
    return Target(_OF_SYMBOLS.get(kind, kind), "" if overload in (None, "default") else overload)


def call_operator(body: Body, target: Target, node: schema.Node, values: Values) -> None:
    """Append the operator that a node calls, and bind its results.

    Raises FormatError where arguments or results do not fit, UnknownOperatorError for an
    operator that this process does not have.
    """
    kind, overload = target
    if kind in _ITEMS:
        given = [value for one in node.inputs for value in operands(body, one.arg, values)]
        if len(given) != 1:
            raise FormatError(f"{kind} takes one tensor, not {len(given)}")
        bind_results(body, node.outputs, given, values)
        return
    named = body.operators.overload(kind, overload)
    positional, keywords = given_arguments(body, named, node.inputs, values)
    results = call_with(body, named, positional, keywords)
    bind_results(body, node.outputs, results, values)


def call_function(body: Body, function: Function, node: schema.Node, values: Values) -> None:
    """Append a call of a function that implements an operator, and bind its results."""
    named = function.schema
    given = _all_arguments(body, named, *given_arguments(body, named, node.inputs, values))
    bind_results(body, node.outputs, body.call_function(function, list(given.values())), values)


def call_with(
    body: Body, named: FunctionSchema, positional: list[Value], keywords: dict[str, Value]
) -> list[Value]:
    """Return the results of an operator.

    In TorchScript code numbers are not bools, but in programs they may be: `full([2], True)` is a
    tensor of bools there, and `full([2], 1)` is not.
    """
    form = _FORMS.get(named.full_name)
    if form is not None:
        return form(body, _all_arguments(body, named, positional, keywords))
    kind = named.name
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
                positional[position] = _tensor_of(body, positional[position])
    positional = _with_tensors(body, named, positional, keywords)
    results = body.call_schema(kind, named, positional, keywords)
    for argument, value in zip(named.arguments, positional, strict=False):
        if argument.is_write and value.type == ListType(TENSOR):
            _note_writes(body, value)
    return results


def _all_arguments(
    body: Body,
    named: FunctionSchema,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
) -> dict[str, Value]:
    names = [argument.name for argument in named.arguments]
    given = {**dict(zip(names, positional, strict=False)), **keywords}
    for argument in named.arguments:
        if argument.name not in given:
            if not argument.has_default:
                raise FormatError(f"the argument {argument.name!r} is missing")
            given[argument.name] = body.default(argument)
    return {name: given[name] for name in names}


def _note_writes(body: Body, tensors: Value) -> None:
    """Append a write of each tensor of a list to itself.

    In TorchScript code an operator that writes to the tensors of a list counts as a write to the
    list only, and would be eliminated where the list is not used again.
    """
    for tensor in body.unpacked(tensors, len(tensors.node.inputs)):
        body.call("aten::squeeze_", tensor, body.list_of(INT, ()), overload="dims")


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


def _tensor_of(body: Body, value: Value) -> Value:
    number = body.as_type(value, INT)
    return body.value("aten::scalar_tensor", number, dtype=body.integer(_BOOL))


def given_arguments(
    body: Body,
    named: FunctionSchema,
    inputs: Sequence[schema.NamedArgument],
    values: Mapping[str, Value],
    made: Mapping[str, Value] = MappingProxyType({}),
) -> tuple[list[Value], dict[str, Value]]:
    """Return the arguments of a node in schema order; defaults fill gaps.

    Arguments in ``made`` take the place of given ones.
    """
    given = _by_name(named, inputs)
    present = {**given, **made}

    def value_of(argument: Argument) -> Value:
        found = made.get(argument.name)
        return _given(body, argument, given, values) if found is None else found

    by_position = [argument for argument in named.arguments if not argument.kwarg_only]
    while by_position and by_position[-1].name not in present:
        by_position.pop()
    return (
        [value_of(argument) for argument in by_position],
        {
            argument.name: value_of(argument)
            for argument in named.arguments
            if argument.kwarg_only and argument.name in present
        },
    )


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


def _given(
    body: Body,
    argument: Argument,
    given: Mapping[str, schema.Argument],
    values: Mapping[str, Value],
) -> Value:
    if argument.name in given:
        return argument_value(body, given[argument.name], values, argument.type)
    if not argument.has_default:
        raise FormatError(f"the argument {argument.name!r} is missing")
    return body.default(argument)
