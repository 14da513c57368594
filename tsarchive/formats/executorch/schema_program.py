"""The schema of programs (.pte): ``program.fbs`` of ExecuTorch 0.1 to 1.5, which only appended.

Enumerations are numbers: ``TensorShapeDynamism`` (static, dynamic bound, dynamic unbound),
``TensorDataLocation`` (segment, external), ``DataLocation`` (inline, segment), ``DeviceType`` (CPU,
CUDA); ``ScalarType`` is in ``scalar_types.py``.
"""

from __future__ import annotations

from typing import Final

from .schema import Field, Schema

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
        "Int": (Field("int_val", "i64"),),
        "Bool": (Field("bool_val", "bool"),),
        "Double": (Field("double_val", "f64"),),
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
        "DataSegment": (Field("offset", "u64"), Field("size", "u64")),
        "SubsegmentOffsets": (Field("segment_index", "u32"), Field("offsets", "[u64]")),
        "NamedData": (Field("key", "text"), Field("segment_index", "u32")),
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
