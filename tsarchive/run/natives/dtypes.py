"""The numbers that archives hold for dtypes and layouts."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tsarchive.errors import ScriptError

# Number, name of the torch.dtype, name of the element type. The numbers never change; a torch
# that lacks a type lacks its row.
_SCALAR_TYPES: tuple[tuple[str, str], ...] = (
    ("uint8", "Byte"), ("int8", "Char"), ("int16", "Short"), ("int32", "Int"), ("int64", "Long"),
    ("float16", "Half"), ("float32", "Float"), ("float64", "Double"), ("complex32", "ComplexHalf"),
    ("complex64", "ComplexFloat"), ("complex128", "ComplexDouble"), ("bool", "Bool"),
    ("qint8", "QInt8"), ("quint8", "QUInt8"), ("qint32", "QInt32"), ("bfloat16", "BFloat16"),
    ("quint4x2", "QUInt4x2"), ("quint2x4", "QUInt2x4"), ("bits1x8", "Bits1x8"),
    ("bits2x4", "Bits2x4"), ("bits4x2", "Bits4x2"), ("bits8", "Bits8"), ("bits16", "Bits16"),
    ("float8_e5m2", "Float8_e5m2"), ("float8_e4m3fn", "Float8_e4m3fn"),
    ("float8_e5m2fnuz", "Float8_e5m2fnuz"), ("float8_e4m3fnuz", "Float8_e4m3fnuz"),
    ("uint16", "UInt16"), ("uint32", "UInt32"), ("uint64", "UInt64"), ("uint1", "UInt1"),
    ("uint2", "UInt2"), ("uint3", "UInt3"), ("uint4", "UInt4"), ("uint5", "UInt5"),
    ("uint6", "UInt6"), ("uint7", "UInt7"), ("int1", "Int1"), ("int2", "Int2"), ("int3", "Int3"),
    ("int4", "Int4"), ("int5", "Int5"), ("int6", "Int6"), ("int7", "Int7"),
    ("float8_e8m0fnu", "Float8_e8m0fnu"), ("float4_e2m1fn_x2", "Float4_e2m1fn_x2"),
)  # fmt: skip

DTYPES: Mapping[int, torch.dtype] = {
    number: getattr(torch, name)
    for number, (name, _) in enumerate(_SCALAR_TYPES)
    if hasattr(torch, name)
}
"""The torch.dtype of every element type number."""

NUMBERS: Mapping[torch.dtype, int] = {dtype: number for number, dtype in DTYPES.items()}
"""The inverse of ``DTYPES``."""

LAYOUTS: Mapping[torch.layout, int] = {
    torch.strided: 0,
    torch.sparse_coo: 1,
    torch.sparse_csr: 2,
    torch._mkldnn: 3,  # type: ignore[attr-defined]
    torch.sparse_csc: 4,
    torch.sparse_bsr: 5,
    torch.sparse_bsc: 6,
    torch.jagged: 7,
}
"""The number of every layout."""


def to_dtype(number: int | None) -> torch.dtype | None:
    return None if number is None else dtype_of(number)


def dtype_of(number: int) -> torch.dtype:
    """The torch.dtype of an element type number. Raises ScriptError for unknown numbers."""
    dtype = DTYPES.get(number)
    if dtype is None:
        raise ScriptError(f"{number} is not the number of an element type")
    return dtype


def scalar_type_name(dtype: torch.dtype) -> str:
    """torch's C++ name of an element type: ``Float``, ``Long``, ``BFloat16``."""
    return _SCALAR_TYPES[NUMBERS[dtype]][1]
