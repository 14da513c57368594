"""The schemas of data files (.ptd): ``flat_tensor.fbs`` of ExecuTorch 0.7 on, and that of 0.6.

Both have the same identifier and version: ``data_file.py`` tells them apart.
"""

from __future__ import annotations

from typing import Final

from .schema import Field, Schema

_SEGMENT: Final = (Field("offset", "u64"), Field("size", "u64"))

FLAT_TENSOR: Final = Schema(
    identifier=b"FT01",
    root="FlatTensor",
    tables={
        "FlatTensor": (
            Field("version", "u32"),
            Field("segments", "[DataSegment]"),
            Field("named_data", "[NamedData]"),
        ),
        "DataSegment": _SEGMENT,
        "NamedData": (
            Field("key", "text"),
            Field("segment_index", "u32"),
            Field("tensor_layout", "TensorLayout"),
        ),
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
        "DataSegment": _SEGMENT,
        "NamedData": (Field("key", "text"), Field("segment_index", "u32")),
    },
    unions={},
)
