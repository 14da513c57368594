"""Schemas of FlatBuffers as data, and those of programs, data files and bundled programs."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from tsarchive.errors import UnsupportedError

_VERSION: Final = 0
"""The version of programs and data files, the same since the first."""

# Scalar type -> format character of struct.
SCALARS: Final[Mapping[str, str]] = {
    "bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
    "i64": "q", "u64": "Q", "f64": "d",
}  # fmt: skip
TEXT: Final = "text"
_OFFSET_BYTES: Final = 4


class Field(NamedTuple):
    """A field of a table; its index is its id.

    ``type`` is a scalar, ``text``, the name of a table or union, or any of these except a union in
    brackets: a vector. ``default`` is the value of an absent scalar. ``align`` is the alignment
    that writers force for the first byte of a vector; readers need not know it.
    """

    name: str
    type: str
    default: int = 0
    align: int = 0


class Slot(NamedTuple):
    """A field with its vtable slot; unions have a tag in the slot before.

    ``element`` is the type without brackets, ``width`` the size of the field in a table: of its
    scalar, or of an offset.
    """

    place: int
    field: Field
    element: str
    is_vector: bool
    is_union: bool
    width: int


@dataclass(frozen=True)
class Schema:
    """A schema.

    ``identifier`` stands at byte 4 of a buffer, ``root`` is the table of its first offset.
    ``unions`` list the tables that tags refer to, from 1 on.
    """

    identifier: bytes
    root: str
    tables: Mapping[str, tuple[Field, ...]]
    unions: Mapping[str, tuple[str, ...]]

    @cached_property
    def slots(self) -> Mapping[str, Mapping[str, Slot]]:
        """The slots of each table by the names of its fields."""
        return {name: dict(self._slots(fields)) for name, fields in self.tables.items()}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The number of vtable slots that the fields of each table take."""
        places = {name: [s.place for s in of.values()] for name, of in self.slots.items()}
        return {name: max(found, default=-1) + 1 for name, found in places.items()}

    def _slots(self, fields: tuple[Field, ...]) -> Iterator[tuple[str, Slot]]:
        place = 0
        for described in fields:
            element = described.type.strip("[]")
            is_vector, is_union = element != described.type, element in self.unions
            is_scalar = element in SCALARS and not is_vector
            width = struct.calcsize(f"<{SCALARS[element]}") if is_scalar else _OFFSET_BYTES
            place += is_union
            yield described.name, Slot(place, described, element, is_vector, is_union, width)
            place += 1


def version_problem(version: int) -> str | None:
    """Return the problem with a version of tables; None for a known version."""
    if version <= _VERSION:
        return None
    return f"its schema has the version {version}, newer than any that is known"


def require_known(version: int, record: str) -> None:
    """Raise UnsupportedError for tables of a later version, whose meaning may differ."""
    problem = version_problem(version)
    if problem is not None:
        raise UnsupportedError(problem, record=record)


_NUMBERS: Final = {
    "Int": (Field("int_val", "i64"),),
    "Bool": (Field("bool_val", "bool"),),
    "Double": (Field("double_val", "f64"),),
}
_SEGMENTS: Final = {
    "DataSegment": (Field("offset", "u64"), Field("size", "u64")),
    "NamedData": (Field("key", "text"), Field("segment_index", "u32")),
}

BUNDLED_PROGRAM: Final = Schema(
    identifier=b"BP08",
    root="BundledProgram",
    tables={
        "BundledProgram": (
            Field("version", "u32"),
            Field("method_test_suites", "[BundledMethodTestSuite]"),
            Field("program", "[u8]", align=32),
        ),
        "BundledMethodTestSuite": (
            Field("method_name", "text"),
            Field("test_cases", "[BundledMethodTestCase]"),
        ),
        "BundledMethodTestCase": (
            Field("inputs", "[Value]"),
            Field("expected_outputs", "[Value]"),
        ),
        "Value": (Field("val", "ValueUnion"),),
        "Tensor": (
            Field("scalar_type", "i8"),
            Field("sizes", "[i32]"),
            Field("data", "[u8]", align=16),
            Field("dim_order", "[u8]"),
        ),
        **_NUMBERS,
    },
    unions={"ValueUnion": ("Tensor", "Int", "Bool", "Double")},
)


FLAT_TENSOR: Final = Schema(
    identifier=b"FT01",
    root="FlatTensor",
    tables={
        "FlatTensor": (
            Field("version", "u32"),
            Field("segments", "[DataSegment]"),
            Field("named_data", "[NamedData]"),
        ),
        "DataSegment": _SEGMENTS["DataSegment"],
        "NamedData": (*_SEGMENTS["NamedData"], Field("tensor_layout", "TensorLayout")),
        "TensorLayout": (
            Field("scalar_type", "i8"),
            Field("sizes", "[i32]"),
            Field("dim_order", "[u8]"),
        ),
    },
    unions={},
)

FLAT_TENSOR_06: Final = Schema(
    identifier=b"FT01",
    root="FlatTensor",
    tables={
        "FlatTensor": (
            Field("version", "u32"),
            Field("tensor_alignment", "u32"),
            Field("tensors", "[TensorMetadata]"),
            Field("segments", "[DataSegment]"),
            Field("named_data", "[NamedData]"),
        ),
        "TensorMetadata": (
            Field("fully_qualified_name", "text"),
            Field("scalar_type", "i8"),
            Field("sizes", "[i32]"),
            Field("dim_order", "[u8]"),
            Field("segment_index", "u32"),
            Field("offset", "u64"),
        ),
        **_SEGMENTS,
    },
    unions={},
)


# The alignment that writers use by default.
_BLOB_ALIGN: Final = 16

PROGRAM: Final = Schema(
    identifier=b"ET12",
    root="Program",
    tables={
        "Program": (
            Field("version", "u32"),
            Field("execution_plan", "[ExecutionPlan]"),
            Field("constant_buffer", "[Buffer]"),
            Field("backend_delegate_data", "[BackendDelegateInlineData]"),
            Field("segments", "[DataSegment]"),
            Field("constant_segment", "SubsegmentOffsets"),
            Field("mutable_data_segments", "[SubsegmentOffsets]"),
            Field("named_data", "[NamedData]"),
        ),
        "ExecutionPlan": (
            Field("name", "text"),
            Field("container_meta_type", "ContainerMetadata"),
            Field("values", "[EValue]"),
            Field("inputs", "[i32]"),
            Field("outputs", "[i32]"),
            Field("chains", "[Chain]"),
            Field("operators", "[Operator]"),
            Field("delegates", "[BackendDelegate]"),
            Field("non_const_buffer_sizes", "[i64]"),
            Field("non_const_buffer_device", "[NonConstBufferDevice]"),
        ),
        "ContainerMetadata": (Field("encoded_inp_str", "text"), Field("encoded_out_str", "text")),
        "EValue": (Field("val", "KernelTypes"),),
        "Null": (),
        **_NUMBERS,
        "Tensor": (
            Field("scalar_type", "i8"),
            Field("storage_offset", "i32"),
            Field("sizes", "[i32]"),
            Field("dim_order", "[u8]"),
            Field("requires_grad", "bool"),
            Field("data_buffer_idx", "u32"),
            Field("allocation_info", "AllocationDetails"),
            Field("layout", "i8"),
            Field("shape_dynamism", "i8"),
            Field("extra_tensor_info", "ExtraTensorInfo"),
        ),
        "String": (Field("string_val", "text"),),
        "IntList": (Field("items", "[i64]"),),
        "DoubleList": (Field("items", "[f64]"),),
        "BoolList": (Field("items", "[bool]"),),
        "TensorList": (Field("items", "[i32]"),),
        "OptionalTensorList": (Field("items", "[i32]"),),
        "AllocationDetails": (
            Field("memory_id", "u32"),
            Field("memory_offset_low", "u32"),
            Field("memory_offset_high", "u32"),
        ),
        "ExtraTensorInfo": (
            Field("mutable_data_segments_idx", "u64"),
            Field("fully_qualified_name", "text"),
            Field("location", "i8"),
            Field("device_type", "i8"),
            Field("device_index", "i8"),
        ),
        "Chain": (
            Field("inputs", "[i32]"),
            Field("outputs", "[i32]"),
            Field("instructions", "[Instruction]"),
            Field("stacktrace", "[FrameList]"),
        ),
        "Instruction": (Field("instr_args", "InstructionArguments"),),
        "KernelCall": (Field("op_index", "i32"), Field("args", "[i32]")),
        "DelegateCall": (Field("delegate_index", "i32"), Field("args", "[i32]")),
        "MoveCall": (Field("move_from", "i32"), Field("move_to", "i32")),
        "JumpFalseCall": (
            Field("cond_value_index", "i32"),
            Field("destination_instruction", "i32"),
        ),
        "FreeCall": (Field("value_index", "i32"),),
        "FrameList": (Field("items", "[Frame]"),),
        "Frame": (
            Field("filename", "text"),
            Field("lineno", "i32"),
            Field("name", "text"),
            Field("context", "text"),
        ),
        "Operator": (Field("name", "text"), Field("overload", "text")),
        "BackendDelegate": (
            Field("id", "text"),
            Field("processed", "BackendDelegateDataReference"),
            Field("compile_specs", "[CompileSpec]"),
        ),
        "BackendDelegateDataReference": (Field("location", "i8"), Field("index", "u32")),
        "CompileSpec": (Field("key", "text"), Field("value", "[u8]")),
        "Buffer": (Field("storage", "[u8]", align=_BLOB_ALIGN),),
        "BackendDelegateInlineData": (Field("data", "[u8]", align=_BLOB_ALIGN),),
        **_SEGMENTS,
        "SubsegmentOffsets": (Field("segment_index", "u32"), Field("offsets", "[u64]")),
        "NonConstBufferDevice": (
            Field("buffer_idx", "i32"),
            Field("device_type", "i8"),
            Field("device_index", "i8"),
        ),
    },
    unions={
        "KernelTypes": (
            "Null", "Int", "Bool", "Double", "Tensor", "String", "IntList", "DoubleList",
            "BoolList", "TensorList", "OptionalTensorList",
        ),
        "InstructionArguments": (
            "KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall", "FreeCall",
        ),
    },
)  # fmt: skip
