"""The JSON schema of an exported program as classes; names are those of the format.

The source of the rules is torch's ``torch/_export/serde/schema.py``, version 8.20; a field has a
default here where versions since 5.3 (torch 2.4) lack it. Fields that are unknown are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from tsarchive.pickler.storage_types import STORAGE_TYPES, StorageType


class ScalarType(IntEnum):
    UNKNOWN = 0
    BYTE = 1
    CHAR = 2
    SHORT = 3
    INT = 4
    LONG = 5
    HALF = 6
    FLOAT = 7
    DOUBLE = 8
    COMPLEXHALF = 9
    COMPLEXFLOAT = 10
    COMPLEXDOUBLE = 11
    BOOL = 12
    BFLOAT16 = 13
    UINT16 = 28
    FLOAT8E4M3FN = 29
    FLOAT8E5M2 = 30
    FLOAT8E4M3FNUZ = 31
    FLOAT8E5M2FNUZ = 32
    FLOAT8E8M0FNU = 33
    UINT32 = 34
    UINT64 = 35


class Layout(IntEnum):
    UNKNOWN = 0
    SPARSE_COO = 1
    SPARSE_CSR = 2
    SPARSE_CSC = 3
    SPARSE_BSR = 4
    SPARSE_BSC = 5
    MKLDNN = 6
    STRIDED = 7


class MemoryFormat(IntEnum):
    UNKNOWN = 0
    CONTIGUOUS_FORMAT = 1
    CHANNELS_LAST = 2
    CHANNELS_LAST_3D = 3
    PRESERVE_FORMAT = 4


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
    name: str


@dataclass(frozen=True, slots=True)
class TokenArgument:
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


@dataclass(frozen=True, slots=True)
class UserInputSpec:
    arg: Argument


class ConstantValue(Tagged):
    members: ClassVar = {
        "as_none": bool, "as_int": int, "as_float": float, "as_string": str, "as_bool": bool,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class InputToConstantInputSpec:
    name: str
    value: ConstantValue


@dataclass(frozen=True, slots=True)
class InputToParameterSpec:
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


@dataclass(frozen=True, slots=True)
class TokenSpec:
    arg: TokenArgument


class InputSpec(Tagged):
    members: ClassVar = {
        "user_input": UserInputSpec,
        "parameter": InputToParameterSpec,
        "buffer": InputToBufferSpec,
        "tensor_constant": InputToTensorConstantSpec,
        "custom_obj": InputToCustomObjSpec,
        "token": TokenSpec,
        "constant_input": InputToConstantInputSpec,
    }


@dataclass(frozen=True, slots=True)
class UserOutputSpec:
    arg: Argument


@dataclass(frozen=True, slots=True)
class LossOutputSpec:
    arg: TensorArgument


@dataclass(frozen=True, slots=True)
class BufferMutationSpec:
    arg: TensorArgument
    buffer_name: str


@dataclass(frozen=True, slots=True)
class ParameterMutationSpec:
    arg: TensorArgument
    parameter_name: str


@dataclass(frozen=True, slots=True)
class GradientToParameterSpec:
    arg: TensorArgument
    parameter_name: str


@dataclass(frozen=True, slots=True)
class GradientToUserInputSpec:
    arg: TensorArgument
    user_input_name: str


@dataclass(frozen=True, slots=True)
class UserInputMutationSpec:
    arg: TensorArgument
    user_input_name: str


class OutputSpec(Tagged):
    members: ClassVar = {
        "user_output": UserOutputSpec,
        "loss_output": LossOutputSpec,
        "buffer_mutation": BufferMutationSpec,
        "gradient_to_parameter": GradientToParameterSpec,
        "gradient_to_user_input": GradientToUserInputSpec,
        "user_input_mutation": UserInputMutationSpec,
        "token": TokenSpec,
        "parameter_mutation": ParameterMutationSpec,
    }


@dataclass(frozen=True, slots=True)
class GraphSignature:
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]


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


_NAMES = {
    ScalarType.BYTE: "uint8",
    ScalarType.CHAR: "int8",
    ScalarType.SHORT: "int16",
    ScalarType.INT: "int32",
    ScalarType.LONG: "int64",
    ScalarType.HALF: "float16",
    ScalarType.FLOAT: "float32",
    ScalarType.DOUBLE: "float64",
    ScalarType.COMPLEXHALF: "complex32",
    ScalarType.COMPLEXFLOAT: "complex64",
    ScalarType.COMPLEXDOUBLE: "complex128",
    ScalarType.BOOL: "bool",
    ScalarType.BFLOAT16: "bfloat16",
    ScalarType.UINT16: "uint16",
    ScalarType.FLOAT8E4M3FN: "float8_e4m3fn",
    ScalarType.FLOAT8E5M2: "float8_e5m2",
    ScalarType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    ScalarType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    ScalarType.FLOAT8E8M0FNU: "float8_e8m0fnu",
    ScalarType.UINT32: "uint32",
    ScalarType.UINT64: "uint64",
}
_SIZES = {storage.dtype: storage.itemsize for storage in STORAGE_TYPES.values()}

# Without ``UNKNOWN``.
DTYPES: dict[ScalarType, StorageType] = {
    number: StorageType(name, _SIZES[name]) for number, name in _NAMES.items()
}
SCALAR_TYPES: dict[str, ScalarType] = {name: number for number, name in _NAMES.items()}
