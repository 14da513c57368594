"""Arguments of nodes as values: constants, lists, and references by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.constants import Device
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

from . import schema
from .building import Body
from .schema import Numbered, device_name

Values = dict[str, Value]
"""The value of each name of a graph."""

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
    make = _MAKERS.get(argument.tag)
    if make is None:
        raise UnsupportedError(f"an argument cannot be given {argument.tag} here")
    return make(body, argument.value, values, wanted)


_Make = Callable[[Body, Any, Mapping[str, Value], Type | None], Value]


def _literal(type_: Type) -> _Make:
    """Make literals of a type; one that is an int is a float or device where that is wanted."""

    def make(body: Body, value: Any, values: Mapping[str, Value], wanted: Type | None) -> Value:
        if type_ == INT and value not in INT64:
            raise FormatError(f"the integer {value} does not fit 64 bits")
        if wanted == FLOAT and type_ == INT:
            return body.constant(float(value), FLOAT)
        if wanted == DEVICE and type_ == STRING:
            return body.constant(Device(value), DEVICE)
        return body.constant(value, type_)

    return make


def _symbolic(type_: Type) -> _Make:
    """Find or make numbers; a named int is converted to a wanted float, since operators do not."""
    literal = _literal(type_)

    def make(
        body: Body, value: schema.Tagged, values: Mapping[str, Value], wanted: Type | None
    ) -> Value:
        if value.tag == "as_name":
            found = lookup(values, value.value)
        else:
            found = literal(body, value.value, values, None)
        is_float = wanted == FLOAT and found.type in (INT, BOOL)
        return body.as_type(found, FLOAT) if is_float else found

    return make


def _enumerated(tag: str) -> _Make:
    def make(
        body: Body, value: Numbered, values: Mapping[str, Value], wanted: Type | None
    ) -> Value:
        if value.number is None:
            raise FormatError(f"{tag} cannot be {value.name}")
        return body.integer(value.number)

    return make


def _named(
    body: Body,
    value: schema.TensorArgument | schema.CustomObjArgument,
    values: Mapping[str, Value],
    wanted: Type | None,
) -> Value:
    return lookup(values, value.name)


def _listed(make: _Make, type_: Type) -> _Make:
    """Make lists of what ``make`` makes, which is of ``type_`` unless something else is wanted."""

    def make_list(
        body: Body, value: Sequence[Any], values: Mapping[str, Value], wanted: Type | None
    ) -> Value:
        element = wanted.element if isinstance(wanted, ListType) else None
        items = [make(body, item, values, element) for item in value]
        return body.list_of(element or type_, items)

    return make_list


# What there are also lists of, with an "s" behind the tag: their types, and what makes them.
_ITEMS: Final[Mapping[str, tuple[Type, _Make]]] = {
    **{tag: (type_, _literal(type_)) for tag, type_ in LITERALS.items()},
    **{tag: (type_, _symbolic(type_)) for tag, type_ in SYMBOLIC.items()},
    "as_tensor": (TENSOR, _named),
    "as_optional_tensor": (
        OptionalType(TENSOR),
        lambda body, value, values, wanted: (
            body.none() if value.tag == "as_none" else lookup(values, value.value.name)
        ),
    ),
}
_ENUMERATIONS: Final = ("as_scalar_type", "as_layout", "as_memory_format")
_MAKERS: Final[Mapping[str, _Make]] = {
    **{tag: make for tag, (_, make) in _ITEMS.items()},
    **{f"{tag}s": _listed(make, type_) for tag, (type_, make) in _ITEMS.items()},
    **{tag: _enumerated(tag) for tag in _ENUMERATIONS},
    "as_nested_tensors": _listed(_listed(_named, TENSOR), ListType(TENSOR)),
    "as_int_lists": _listed(_listed(_literal(INT), INT), ListType(INT)),
    "as_float_lists": _listed(_listed(_literal(FLOAT), FLOAT), ListType(FLOAT)),
    "as_none": lambda body, value, values, wanted: body.none(),
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
    tag = argument.tag
    if tag[:-1] in _ITEMS:
        _, make = _ITEMS[tag[:-1]]
        return [make(body, item, values, None) for item in argument.value]
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
    tag, name = output.tag, output.name
    if tag in ("as_tensors", "as_sym_ints"):
        parts = body.unpacked(result, len(output.value))
        for item, part in zip(output.value, parts, strict=True):
            _bind_one(body, schema.Argument(tag[:-1], item), part, values)
    elif name is None:
        if tag not in _NAMELESS:
            raise UnsupportedError(f"a result cannot be {tag}")
    elif tag in SYMBOLIC:
        define(values, name, body.as_type(result, SYMBOLIC[tag]))
    else:
        if result.type == OptionalType(TENSOR):
            result = body.append("prim::unchecked_cast", [result], TENSOR).output
        define(values, name, result)


_NAMELESS: Final = frozenset({"as_none", "as_optional_tensor", *SYMBOLIC, *LITERALS})


def type_of_argument(argument: schema.Argument) -> Type:
    """Return the type of an argument by itself. Raises UnsupportedError where it has none."""
    found = _TYPES.get(argument.tag)
    if found is None:
        raise UnsupportedError(f"{argument.tag} has no type of its own")
    return found


_TYPES: Final[Mapping[str, Type]] = {
    **{tag: type_ for tag, (type_, _) in _ITEMS.items()},
    **{f"{tag}s": ListType(type_) for tag, (type_, _) in _ITEMS.items()},
    **dict.fromkeys(_ENUMERATIONS, INT),
    "as_none": NONE,
    "as_device": DEVICE,
    "as_complex": COMPLEX,
}
