"""The names of values in an argument of a graph, by what kind of value they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from tsarchive.formats.pt2.schema import Argument, OptionalTensorArgument


class ValueKind(Enum):
    """What a value is; the value is the table of a graph that describes it."""

    TENSOR = "tensor_values"
    INT = "sym_int_values"
    FLOAT = "sym_float_values"
    BOOL = "sym_bool_values"
    OBJECT = "custom_obj_values"


_SYMBOLS = {
    "as_sym_int": ValueKind.INT,
    "as_sym_float": ValueKind.FLOAT,
    "as_sym_bool": ValueKind.BOOL,
    "as_sym_ints": ValueKind.INT,
    "as_sym_floats": ValueKind.FLOAT,
    "as_sym_bools": ValueKind.BOOL,
}


def named_values(argument: Argument) -> Iterator[tuple[str, ValueKind]]:
    """Every name of a value; literals and graphs have none."""
    value = argument.value
    match argument.tag:
        case "as_tensor":
            yield value.name, ValueKind.TENSOR
        case "as_tensors":
            for tensor in value:
                yield tensor.name, ValueKind.TENSOR
        case "as_nested_tensors":
            for tensors in value:
                for tensor in tensors:
                    yield tensor.name, ValueKind.TENSOR
        case "as_optional_tensor":
            yield from _optional(value)
        case "as_optional_tensors":
            for optional in value:
                yield from _optional(optional)
        case "as_custom_obj":
            yield value.name, ValueKind.OBJECT
        case "as_string_to_argument":
            for inner in value.values():
                yield from named_values(inner)
        case tag if tag in _SYMBOLS:
            for symbol in value if isinstance(value, list) else [value]:
                if symbol.tag == "as_name":
                    yield symbol.value, _SYMBOLS[tag]


def _optional(argument: OptionalTensorArgument) -> Iterator[tuple[str, ValueKind]]:
    if argument.tag == "as_tensor":
        yield argument.value.name, ValueKind.TENSOR
