"""The JSON schema of an exported program as classes, their decoding, and their encoding.

Names are those of the format. The source of the rules is torch's
``torch/_export/serde/schema.py``, version 8.20; a field has a default here where versions since 5.3
(torch 2.4) lack it. Fields that are unknown are skipped. JSON is written as torch writes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from tsarchive.errors import FormatError
from tsarchive.pickler.values import STORAGE_TYPES, StorageType
from tsarchive.strict_json import parse_object


class Numbered(IntEnum):
    """A number of the format, and torch's own, which TorchScript code has; None where it has none.

    ``dtype`` is torch's name of an element type.
    """

    number: int | None
    dtype: str

    def __new__(cls, value: int, number: int | None = None, dtype: str = "") -> Numbered:
        made = int.__new__(cls, value)
        made._value_ = value
        made.number = number
        made.dtype = dtype
        return made


class ScalarType(Numbered):
    UNKNOWN = 0
    BYTE = 1, 0, "uint8"
    CHAR = 2, 1, "int8"
    SHORT = 3, 2, "int16"
    INT = 4, 3, "int32"
    LONG = 5, 4, "int64"
    HALF = 6, 5, "float16"
    FLOAT = 7, 6, "float32"
    DOUBLE = 8, 7, "float64"
    COMPLEXHALF = 9, 8, "complex32"
    COMPLEXFLOAT = 10, 9, "complex64"
    COMPLEXDOUBLE = 11, 10, "complex128"
    BOOL = 12, 11, "bool"
    BFLOAT16 = 13, 15, "bfloat16"
    UINT16 = 28, 27, "uint16"
    FLOAT8E4M3FN = 29, 24, "float8_e4m3fn"
    FLOAT8E5M2 = 30, 23, "float8_e5m2"
    FLOAT8E4M3FNUZ = 31, 26, "float8_e4m3fnuz"
    FLOAT8E5M2FNUZ = 32, 25, "float8_e5m2fnuz"
    FLOAT8E8M0FNU = 33, 44, "float8_e8m0fnu"
    UINT32 = 34, 28, "uint32"
    UINT64 = 35, 29, "uint64"


class Layout(Numbered):
    UNKNOWN = 0
    SPARSE_COO = 1, 1
    SPARSE_CSR = 2, 2
    SPARSE_CSC = 3, 4
    SPARSE_BSR = 4, 5
    SPARSE_BSC = 5, 6
    MKLDNN = 6, 3
    STRIDED = 7, 0


class MemoryFormat(Numbered):
    UNKNOWN = 0
    CONTIGUOUS_FORMAT = 1, 0
    CHANNELS_LAST = 2, 2
    CHANNELS_LAST_3D = 3, 3
    PRESERVE_FORMAT = 4, 1


class ArgumentKind(IntEnum):
    UNKNOWN = 0
    POSITIONAL = 1
    KEYWORD = 2


@dataclass(frozen=True, slots=True)
class Tagged:
    """A union: a value and the name of its member. ``members`` are their types."""

    members: ClassVar[dict[str, Any]]

    tag: str
    value: Any


@dataclass(frozen=True, slots=True)
class Device:
    type: str
    index: int | None = None


def device_name(device: Device) -> str:
    """Return ``cpu`` or ``cuda:0``."""
    return device.type if device.index is None else f"{device.type}:{device.index}"


class SymExprHint(Tagged):
    members: ClassVar = {"as_int": int, "as_bool": bool, "as_float": float}


@dataclass(frozen=True, slots=True)
class SymExpr:
    """A symbolic expression.

    ``expr_str`` is the text of a sympy expression, never evaluated here.
    """

    expr_str: str
    hint: SymExprHint | None = None


class SymInt(Tagged):
    members: ClassVar = {"as_expr": SymExpr, "as_int": int}


class SymFloat(Tagged):
    members: ClassVar = {"as_expr": SymExpr, "as_float": float}


class SymBool(Tagged):
    members: ClassVar = {"as_expr": SymExpr, "as_bool": bool}


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Description of a tensor. ``sizes``, ``strides`` and ``storage_offset`` count elements."""

    dtype: ScalarType
    sizes: list[SymInt]
    requires_grad: bool
    device: Device
    strides: list[SymInt]
    storage_offset: SymInt
    layout: Layout


class SymIntArgument(Tagged):
    members: ClassVar = {"as_name": str, "as_int": int}


class SymFloatArgument(Tagged):
    members: ClassVar = {"as_name": str, "as_float": float}


class SymBoolArgument(Tagged):
    members: ClassVar = {"as_name": str, "as_bool": bool}


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor by its name, or a token, which the format writes likewise."""

    name: str


class OptionalTensorArgument(Tagged):
    members: ClassVar = {"as_tensor": TensorArgument, "as_none": bool}


@dataclass(frozen=True, slots=True)
class GraphArgument:
    name: str
    graph: Graph


@dataclass(frozen=True, slots=True)
class CustomObjArgument:
    name: str
    class_fqn: str


@dataclass(frozen=True, slots=True)
class ComplexValue:
    real: float
    imag: float


class Argument(Tagged):
    """An input or output of a node: a literal, or the name of a value."""

    members: ClassVar[dict[str, Any]] = {
        "as_none": bool,
        "as_tensor": TensorArgument,
        "as_tensors": list[TensorArgument],
        "as_int": int,
        "as_ints": list[int],
        "as_float": float,
        "as_floats": list[float],
        "as_string": str,
        "as_strings": list[str],
        "as_sym_int": SymIntArgument,
        "as_sym_ints": list[SymIntArgument],
        "as_scalar_type": ScalarType,
        "as_memory_format": MemoryFormat,
        "as_layout": Layout,
        "as_device": Device,
        "as_bool": bool,
        "as_bools": list[bool],
        "as_sym_bool": SymBoolArgument,
        "as_sym_bools": list[SymBoolArgument],
        "as_graph": GraphArgument,
        "as_optional_tensors": list[OptionalTensorArgument],
        "as_custom_obj": CustomObjArgument,
        "as_operator": str,
        "as_sym_float": SymFloatArgument,
        "as_sym_floats": list[SymFloatArgument],
        "as_optional_tensor": OptionalTensorArgument,
        "as_complex": ComplexValue,
        "as_nested_tensors": list[list[TensorArgument]],
        "as_int_lists": list[list[int]],
        "as_float_lists": list[list[float]],
    }

    @property
    def name(self) -> str | None:
        """The name of the one value that it is; None for literals and lists."""
        value = self.value
        if isinstance(value, TensorArgument | CustomObjArgument):
            return value.name
        if isinstance(value, Tagged) and value.tag in ("as_name", "as_tensor"):
            return value.value if value.tag == "as_name" else str(value.value.name)
        return None


Argument.members["as_string_to_argument"] = dict[str, Argument]


@dataclass(frozen=True, slots=True)
class NamedArgument:
    """An argument by its name in the operator's schema; empty for higher-order operators."""

    name: str
    arg: Argument
    kind: ArgumentKind | None = None


@dataclass(frozen=True, slots=True)
class Node:
    target: str
    inputs: list[NamedArgument]
    outputs: list[Argument]
    metadata: dict[str, str]
    is_hop_single_tensor_return: bool | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    inputs: list[Argument]
    outputs: list[Argument]
    nodes: list[Node]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, SymInt]
    sym_bool_values: dict[str, SymBool]
    is_single_tensor_return: bool = False
    custom_obj_values: dict[str, CustomObjArgument] = field(default_factory=dict)
    sym_float_values: dict[str, SymFloat] = field(default_factory=dict)


# What torch has under several names, for inputs and outputs, is one class here, of another name.


@dataclass(frozen=True, slots=True)
class UserSpec:
    arg: Argument


@dataclass(frozen=True, slots=True)
class TensorSpec:
    arg: TensorArgument


class ConstantValue(Tagged):
    members: ClassVar = {
        "as_none": bool, "as_int": int, "as_float": float, "as_string": str, "as_bool": bool,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class InputToConstantInputSpec:
    name: str
    value: ConstantValue


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    arg: TensorArgument
    parameter_name: str


@dataclass(frozen=True, slots=True)
class InputToBufferSpec:
    arg: TensorArgument
    buffer_name: str
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class InputToTensorConstantSpec:
    arg: TensorArgument
    tensor_constant_name: str


@dataclass(frozen=True, slots=True)
class InputToCustomObjSpec:
    arg: CustomObjArgument
    custom_obj_name: str


class InputSpec(Tagged):
    members: ClassVar = {
        "user_input": UserSpec,
        "parameter": ParameterSpec,
        "buffer": InputToBufferSpec,
        "tensor_constant": InputToTensorConstantSpec,
        "custom_obj": InputToCustomObjSpec,
        "token": TensorSpec,
        "constant_input": InputToConstantInputSpec,
    }

    @property
    def target(self) -> str | None:
        """The dotted name of a parameter, buffer, constant or object; None for other inputs."""
        return getattr(self.value, f"{self.tag}_name", None)


@dataclass(frozen=True, slots=True)
class BufferSpec:
    arg: TensorArgument
    buffer_name: str


@dataclass(frozen=True, slots=True)
class NamedInputSpec:
    arg: TensorArgument
    user_input_name: str


class OutputSpec(Tagged):
    members: ClassVar = {
        "user_output": UserSpec,
        "loss_output": TensorSpec,
        "buffer_mutation": BufferSpec,
        "gradient_to_parameter": ParameterSpec,
        "gradient_to_user_input": NamedInputSpec,
        "user_input_mutation": NamedInputSpec,
        "token": TensorSpec,
        "parameter_mutation": ParameterSpec,
    }

    @property
    def changed(self) -> tuple[str, str] | None:
        """The kind and name of the input that it changes, or whose gradient it is; else None."""
        kind = _CHANGED.get(self.tag)
        return None if kind is None else (kind, getattr(self.value, f"{kind}_name"))


_CHANGED = {
    "buffer_mutation": "buffer",
    "parameter_mutation": "parameter",
    "gradient_to_parameter": "parameter",
    "user_input_mutation": "user_input",
    "gradient_to_user_input": "user_input",
}


@dataclass(frozen=True, slots=True)
class GraphSignature:
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    @property
    def user_inputs(self) -> list[InputSpec]:
        """The inputs that the caller passes."""
        tags = ("user_input", "constant_input")
        return [spec for spec in self.input_specs if spec.tag in tags]

    @property
    def results(self) -> Iterator[Argument]:
        """The outputs that the caller gets."""
        for spec in self.output_specs:
            if spec.tag == "loss_output":
                yield Argument("as_tensor", spec.value.arg)
            elif spec.tag == "user_output":
                yield spec.value.arg


@dataclass(frozen=True, slots=True)
class RangeConstraint:
    """A range with inclusive bounds, None for none."""

    min_val: int | None
    max_val: int | None


@dataclass(frozen=True, slots=True)
class ModuleCallSignature:
    """The signature of a submodule. ``in_spec`` and ``out_spec`` are JSON pytree specifications."""

    inputs: list[Argument]
    outputs: list[Argument]
    in_spec: str
    out_spec: str
    forward_arg_names: list[str] | None = None


@dataclass(frozen=True, slots=True)
class ModuleCallEntry:
    fqn: str
    signature: ModuleCallSignature | None = None


@dataclass(frozen=True, slots=True)
class NamedTupleDef:
    field_names: list[str]


@dataclass(frozen=True, slots=True)
class GraphModule:
    graph: Graph
    signature: GraphSignature
    module_call_graph: list[ModuleCallEntry]
    metadata: dict[str, str] = field(default_factory=dict)
    treespec_namedtuple_fields: dict[str, NamedTupleDef] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class ExportedProgram:
    graph_module: GraphModule
    opset_version: dict[str, int]
    range_constraints: dict[str, RangeConstraint]
    schema_version: SchemaVersion
    verifiers: list[str] = field(default_factory=list)
    torch_version: str = "<=2.4"
    guards_code: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PayloadMeta:
    """The location of a tensor or object: ``path_name`` is a file beside the configuration."""

    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: TensorMeta | None


@dataclass(frozen=True, slots=True)
class PayloadConfig:
    """Payloads by fully qualified name."""

    config: dict[str, PayloadMeta]


_SIZES = {storage.dtype: storage.itemsize for storage in STORAGE_TYPES.values()}

# Without ``UNKNOWN``.
DTYPES: dict[ScalarType, StorageType] = {
    found: StorageType(found.dtype, _SIZES[found.dtype]) for found in ScalarType if found.dtype
}
SCALAR_TYPES: dict[str, ScalarType] = {found.dtype: found for found in DTYPES}


# Levels of lists and objects. A nested graph takes seven, and few models nest more than two.
MAX_DEPTH = 256

Schema = TypeVar("Schema")
Decode = Callable[[Any], Any]

_SPECIAL_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_SHOWN = 60
# The union member for None. Before schema 8 its value was an empty tuple.
_NOTHING = "as_none"


class _Mismatch(Exception):
    """A value of the wrong type; ``path`` grows while the error propagates."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []

    def inside(self, step: str) -> _Mismatch:
        self.path.append(step)
        return self


def read_json(schema: type[Schema], data: bytes, record: str) -> Schema:
    """Decode a JSON record to an instance of a class of the schema.

    Raises FormatError, naming the field, where the record breaks a rule.
    """
    return decoded(schema, parse_json(data, record), record)


def parse_json(data: bytes, record: str) -> dict[str, Any]:
    """Parse the JSON of a record, with a limit on nesting for recursive readers."""
    return parse_object(data, record, MAX_DEPTH)


def decoded(schema: type[Schema], value: Any, record: str) -> Schema:
    """Decode parsed JSON to an instance of a class of the schema. Raises FormatError."""
    hint: Any = schema
    try:
        found: Schema = _decoder(hint)(value)
    except _Mismatch as error:
        path = "".join(reversed(error.path)).removeprefix(".")
        raise FormatError(f"{path or 'the record'} {error}", record=record) from None
    return found


@cache
def _decoder(hint: Any) -> Decode:
    """Return a decoder of JSON values to the type ``hint``."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        return _list_of(_decoder(arguments[0]))
    if origin is dict:
        return _dict_of(_decoder(arguments[1]))
    if origin is UnionType:
        (element,) = (argument for argument in arguments if argument is not NoneType)
        decode = _decoder(element)
        return lambda value: None if value is None else decode(value)
    if issubclass(hint, IntEnum):
        return _enumeration(hint)
    if issubclass(hint, Tagged):
        return _union(hint)
    assert is_dataclass(hint)
    return _message(hint)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Mismatch(f"is {_shown(value)}, not true or false")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
        raise _Mismatch(f"is {_shown(value)}, not an integer of 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            pass
    elif isinstance(value, str) and value in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[value]
    raise _Mismatch(f"is {_shown(value)}, not a number")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Mismatch(f"is {_shown(value)}, not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Mismatch("has half a surrogate pair") from None
    return value


_PLAIN: dict[Any, Decode] = {bool: _boolean, int: _integer, float: _number, str: _text}


def _list_of(decode: Decode) -> Decode:
    def decode_list(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Mismatch(f"is {_shown(value)}, not a list")
        found: list[Any] = []
        try:
            for item in value:
                found.append(decode(item))
        except _Mismatch as error:
            raise error.inside(f"[{len(found)}]") from None
        return found

    return decode_list


def _dict_of(decode: Decode) -> Decode:
    def decode_dict(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _Mismatch(f"is {_shown(value)}, not an object")
        found = {}
        for key, item in value.items():
            try:
                found[_text(key)] = decode(item)
            except _Mismatch as error:
                raise error.inside(f".{_shown(key)}") from None
        return found

    return decode_dict


def _enumeration(kind: type[IntEnum]) -> Decode:
    by_number = {int(member): member for member in kind}

    def decode_member(value: Any) -> IntEnum:
        found = by_number.get(_integer(value))
        if found is None:
            raise _Mismatch(f"is {value}, which is no {kind.__name__}")
        return found

    return decode_member


def _union(kind: type[Tagged]) -> Decode:
    def decode_union(value: Any) -> Tagged:
        if type(value) is not dict or len(value) != 1:
            raise _Mismatch(f"is {_shown(value)}, not an object with one field")
        ((tag, content),) = value.items()
        if tag == _NOTHING and content == []:
            content = True
        if tag not in kind.members:
            raise _Mismatch(f"is {_shown(tag)}, which is no {kind.__name__}")
        try:
            return kind(tag, _decoder(kind.members[tag])(content))
        except _Mismatch as error:
            raise error.inside(f".{tag}") from None

    return decode_union


def _message(kind: Any) -> Decode:
    hints = get_type_hints(kind)
    members = [(field.name, _late(hints[field.name]), _default(field)) for field in fields(kind)]

    def decode_message(value: Any) -> Any:
        if type(value) is not dict:
            raise _Mismatch(f"is {_shown(value)}, not an object")
        found = []
        for name, decode, default in members:
            if name in value:
                try:
                    found.append(decode(value[name]))
                except _Mismatch as error:
                    raise error.inside(f".{name}") from None
            elif default is None:
                raise _Mismatch("is missing").inside(f".{name}")
            else:
                found.append(default())
        return kind(*found)

    return decode_message


def _late(hint: Any) -> Decode:
    """Find the decoder of a class on first use, since classes of the schema are recursive."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    return lambda value: _decoder(hint)(value)


def _default(field: Field[Any]) -> Callable[[], Any] | None:
    """Return a factory for the value of an absent field; None where it is required."""
    if field.default_factory is not MISSING:
        return field.default_factory
    if field.default is not MISSING:
        return lambda: field.default
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


Fields: TypeAlias = Mapping[str, Collection[str]]
"""Names of fields by the name of their class."""

_NONE: Final[Fields] = {}


def write_json(value: Any, without: Fields = _NONE) -> bytes:
    """Encode an instance of a class of the schema as a record, omitting the fields ``without``."""
    return json.dumps(json_of(value, without), allow_nan=False).encode()


def json_of(value: Any, without: Fields = _NONE) -> Any:
    """Return the JSON value of an instance of a class of the schema, or of a field's value."""
    match value:
        case IntEnum():
            return int(value)
        case Tagged():
            return {value.tag: json_of(value.value, without)}
        case list():
            return [json_of(item, without) for item in value]
        case dict():
            return {key: json_of(item, without) for key, item in value.items()}
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _ if is_dataclass(value):
            names = [field.name for field in fields(value)]
            if left_out := without.get(type(value).__name__):
                names = [name for name in names if name not in left_out]
            return {name: json_of(getattr(value, name), without) for name in names}
    return value
