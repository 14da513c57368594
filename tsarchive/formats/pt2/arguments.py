"""Arguments of nodes as values: constants, lists, and references by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Value
from tsarchive.ir.names import to_identifier
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    Type,
)
from tsarchive.ir.values import Device

from . import schema
from .building import Body
from .schema import Layout, MemoryFormat, ScalarType, device_name

Values = dict[str, Value]
"""The value of each name of a graph."""

# Numbers in torch's own enumerations, which TorchScript code uses.
DTYPE_NUMBERS: Final[Mapping[ScalarType, int]] = {
    ScalarType.BYTE: 0, ScalarType.CHAR: 1, ScalarType.SHORT: 2, ScalarType.INT: 3,
    ScalarType.LONG: 4, ScalarType.HALF: 5, ScalarType.FLOAT: 6, ScalarType.DOUBLE: 7,
    ScalarType.COMPLEXHALF: 8, ScalarType.COMPLEXFLOAT: 9, ScalarType.COMPLEXDOUBLE: 10,
    ScalarType.BOOL: 11, ScalarType.BFLOAT16: 15, ScalarType.FLOAT8E5M2: 23,
    ScalarType.FLOAT8E4M3FN: 24, ScalarType.FLOAT8E5M2FNUZ: 25,
    ScalarType.FLOAT8E4M3FNUZ: 26, ScalarType.UINT16: 27, ScalarType.UINT32: 28,
    ScalarType.UINT64: 29, ScalarType.FLOAT8E8M0FNU: 44,
}  # fmt: skip
LAYOUT_NUMBERS: Final[Mapping[Layout, int]] = {
    Layout.STRIDED: 0, Layout.SPARSE_COO: 1, Layout.SPARSE_CSR: 2, Layout.MKLDNN: 3,
    Layout.SPARSE_CSC: 4, Layout.SPARSE_BSR: 5, Layout.SPARSE_BSC: 6,
}  # fmt: skip
MEMORY_FORMAT_NUMBERS: Final[Mapping[MemoryFormat, int]] = {
    MemoryFormat.CONTIGUOUS_FORMAT: 0, MemoryFormat.PRESERVE_FORMAT: 1,
    MemoryFormat.CHANNELS_LAST: 2, MemoryFormat.CHANNELS_LAST_3D: 3,
}  # fmt: skip
_ENUMERATIONS: Final[Mapping[str, Mapping[Any, int]]] = {
    "as_scalar_type": DTYPE_NUMBERS,
    "as_layout": LAYOUT_NUMBERS,
    "as_memory_format": MEMORY_FORMAT_NUMBERS,
}
SYMBOLIC: Final[Mapping[str, Type]] = {
    "as_sym_int": INT,
    "as_sym_float": FLOAT,
    "as_sym_bool": BOOL,
}
"""The type of a symbolic argument, by its tag."""
LITERALS: Final[Mapping[str, Type]] = {
    "as_int": INT,
    "as_float": FLOAT,
    "as_bool": BOOL,
    "as_string": STRING,
}
"""The type of a literal, by its tag."""
_CONSTANT_LISTS: Final[Mapping[str, Type]] = {f"{tag}s": type_ for tag, type_ in LITERALS.items()}
INT64: Final = range(-(1 << 63), 1 << 63)


def lookup(values: Mapping[str, Value], name: str) -> Value:
    """Return the value of a name. Raises FormatError before it is defined."""
    found = values.get(name)
    if found is None:
        raise FormatError(f"the name {name!r} is used and not defined before")
    return found


def define(values: Values, name: str, value: Value) -> None:
    """Bind a name to a value. Raises FormatError for a name that is already bound."""
    if name in values:
        raise FormatError(f"the name {name!r} is defined twice")
    values[name] = value
    if value.name is None and not value.node.is_constant:
        value.name = to_identifier(name)


def argument_value(
    body: Body, argument: schema.Argument, values: Mapping[str, Value], type_: Type | None
) -> Value:
    """Return the value of an argument that should be of ``type_``, None if that is unknown.

    Raises FormatError for names that are not defined, and values that cannot be of the type.
    """
    wanted = type_.element if isinstance(type_, OptionalType) else type_
    tag, value = argument.tag, argument.value
    if tag in LITERALS:
        return _constant(body, value, LITERALS[tag], wanted)
    if tag in SYMBOLIC:
        return _as_wanted(body, _symbolic(body, value, SYMBOLIC[tag], values), wanted)
    if tag in _CONSTANT_LISTS:
        items = [_constant(body, item, _CONSTANT_LISTS[tag], _element(wanted)) for item in value]
        return body.list_of(_element(wanted) or _CONSTANT_LISTS[tag], items)
    if tag in _ENUMERATIONS:
        if value not in _ENUMERATIONS[tag]:
            raise FormatError(f"{tag} cannot be {value.name}")
        return body.integer(_ENUMERATIONS[tag][value])
    made = _MAKERS.get(tag)
    if made is None:
        raise UnsupportedError(f"an argument cannot be given {tag} here")
    return made(body, value, values, wanted)


def _element(wanted: Type | None) -> Type | None:
    return wanted.element if isinstance(wanted, ListType) else None


def _constant(body: Body, value: Any, type_: Type, wanted: Type | None) -> Value:
    """Return a literal, as a float if one is wanted in place of an int."""
    if type_ == INT and value not in INT64:
        raise FormatError(f"the integer {value} does not fit 64 bits")
    if wanted == FLOAT and type_ == INT:
        return body.constant(float(value), FLOAT)
    if wanted == DEVICE and type_ == STRING:
        return body.constant(Device(value), DEVICE)
    return body.constant(value, type_)


def _symbolic(
    body: Body, argument: schema.Tagged, type_: Type, values: Mapping[str, Value]
) -> Value:
    if argument.tag == "as_name":
        return lookup(values, argument.value)
    return _constant(body, argument.value, type_, None)


def _as_wanted(body: Body, value: Value, wanted: Type | None) -> Value:
    """Convert a named int to a wanted float, since operators do not."""
    if wanted == FLOAT and value.type in (INT, BOOL):
        return body.as_type(value, FLOAT)
    return value


def _named(
    body: Body,
    value: schema.TensorArgument | schema.CustomObjArgument,
    values: Mapping[str, Value],
    wanted: Type | None,
) -> Value:
    return lookup(values, value.name)


def _tensors(
    body: Body,
    value: Sequence[schema.TensorArgument],
    values: Mapping[str, Value],
    wanted: Type | None,
) -> Value:
    items = [lookup(values, item.name) for item in value]
    return body.list_of(_element(wanted) or TENSOR, items)


def _optional_tensor(
    body: Body, value: schema.Tagged, values: Mapping[str, Value], wanted: Type | None
) -> Value:
    return body.none() if value.tag == "as_none" else lookup(values, value.value.name)


def _optional_tensors(
    body: Body, value: Sequence[schema.Tagged], values: Mapping[str, Value], wanted: Type | None
) -> Value:
    items = [_optional_tensor(body, item, values, None) for item in value]
    return body.list_of(_element(wanted) or OptionalType(TENSOR), items)


def _nested_tensors(
    body: Body,
    value: Sequence[Sequence[schema.TensorArgument]],
    values: Mapping[str, Value],
    wanted: Type | None,
) -> Value:
    inner = _element(wanted) or ListType(TENSOR)
    return body.list_of(inner, [_tensors(body, item, values, inner) for item in value])


def _number_lists(type_: Type) -> Any:
    def make(
        body: Body, value: Sequence[Sequence[Any]], values: Mapping[str, Value], wanted: Type | None
    ) -> Value:
        items = [
            body.list_of(type_, [_constant(body, number, type_, None) for number in numbers])
            for numbers in value
        ]
        return body.list_of(ListType(type_), items)

    return make


def _symbolics(type_: Type) -> Any:
    def make(
        body: Body,
        value: Sequence[schema.Tagged],
        values: Mapping[str, Value],
        wanted: Type | None,
    ) -> Value:
        element = _element(wanted)
        items = [_as_wanted(body, _symbolic(body, item, type_, values), element) for item in value]
        return body.list_of(element or type_, items)

    return make


_Make = Callable[[Body, Any, Mapping[str, Value], Type | None], Value]
_MAKERS: Final[Mapping[str, _Make]] = {
    "as_none": lambda body, value, values, wanted: body.none(),
    "as_tensor": _named,
    "as_tensors": _tensors,
    "as_optional_tensor": _optional_tensor,
    "as_optional_tensors": _optional_tensors,
    "as_nested_tensors": _nested_tensors,
    "as_int_lists": _number_lists(INT),
    "as_float_lists": _number_lists(FLOAT),
    "as_sym_ints": _symbolics(INT),
    "as_sym_floats": _symbolics(FLOAT),
    "as_sym_bools": _symbolics(BOOL),
    "as_device": lambda body, value, values, wanted: body.constant(
        Device(device_name(value)), DEVICE
    ),
    "as_complex": lambda body, value, values, wanted: body.constant(
        complex(value.real, value.imag), COMPLEX
    ),
    "as_custom_obj": _named,
}


def operands(body: Body, argument: schema.Argument, values: Mapping[str, Value]) -> list[Value]:
    """Return the values in an argument of a higher-order operator: one, or each item of a list."""
    tag, value = argument.tag, argument.value
    if tag in ("as_tensors", "as_optional_tensors"):
        make = _named if tag == "as_tensors" else _optional_tensor
        return [make(body, item, values, None) for item in value]
    if tag in _CONSTANT_LISTS:
        return [_constant(body, item, _CONSTANT_LISTS[tag], None) for item in value]
    if tag[:-1] in SYMBOLIC:
        return [_symbolic(body, item, SYMBOLIC[tag[:-1]], values) for item in value]
    return [argument_value(body, argument, values, None)]


def flat_outputs(outputs: Sequence[schema.Argument]) -> list[schema.Argument]:
    """Flatten list outputs to one output for each result."""
    found: list[schema.Argument] = []
    for output in outputs:
        if output.tag == "as_tensors":
            found += [schema.Argument("as_tensor", item) for item in output.value]
        else:
            found.append(output)
    return found


def bind_results(
    body: Body, outputs: Sequence[schema.Argument], results: Sequence[Value], values: Values
) -> None:
    """Bind the results of a node to its outputs. Raises FormatError where they do not match."""
    if outputs and len(outputs) != len(results):
        raise FormatError(f"{len(outputs)} outputs are named, and there are {len(results)} results")
    for output, result in zip(outputs, results, strict=False):
        _bind_one(body, output, result, values)


def _bind_one(body: Body, output: schema.Argument, result: Value, values: Values) -> None:
    tag, value = output.tag, output.value
    if tag in SYMBOLIC and value.tag == "as_name":
        define(values, value.value, body.as_type(result, SYMBOLIC[tag]))
    elif tag in ("as_tensor", "as_custom_obj"):
        _bind_tensor(body, value.name, result, values)
    elif tag == "as_optional_tensor" and value.tag == "as_tensor":
        _bind_tensor(body, value.value.name, result, values)
    elif tag == "as_tensors":
        items = body.unpacked(result, len(value))
        for item, part in zip(value, items, strict=True):
            _bind_tensor(body, item.name, part, values)
    elif tag == "as_sym_ints":
        for item, part in zip(value, body.unpacked(result, len(value)), strict=True):
            if item.tag == "as_name":
                define(values, item.value, body.as_type(part, INT))
    elif tag not in _NAMELESS:
        raise UnsupportedError(f"a result cannot be {tag}")


_NAMELESS: Final = frozenset({"as_none", "as_optional_tensor", *SYMBOLIC, *LITERALS})


def _bind_tensor(body: Body, name: str, result: Value, values: Values) -> None:
    if result.type == OptionalType(TENSOR):
        result = body.append("prim::unchecked_cast", [result], TENSOR).output
    define(values, name, result)


def type_of_argument(argument: schema.Argument) -> Type:
    """Return the type of an argument by itself. Raises UnsupportedError where it has none."""
    found = _TYPES.get(argument.tag)
    if found is None:
        raise UnsupportedError(f"{argument.tag} has no type of its own")
    return found


_TYPES: Final[Mapping[str, Type]] = {
    **LITERALS,
    **SYMBOLIC,
    **{tag: ListType(type_) for tag, type_ in _CONSTANT_LISTS.items()},
    **{f"{tag}s": ListType(type_) for tag, type_ in SYMBOLIC.items()},
    **dict.fromkeys(_ENUMERATIONS, INT),
    "as_none": NONE,
    "as_tensor": TENSOR,
    "as_tensors": ListType(TENSOR),
    "as_optional_tensor": OptionalType(TENSOR),
    "as_optional_tensors": ListType(OptionalType(TENSOR)),
    "as_device": DEVICE,
    "as_complex": COMPLEX,
}
