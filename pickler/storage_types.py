"""Types of storages by their names in pickles of torch."""

from __future__ import annotations

from typing import NamedTuple


class StorageType(NamedTuple):
    """A type of storage. ``dtype`` is the attribute name in torch; ``itemsize`` is in bytes."""

    dtype: str
    itemsize: int


STORAGE_TYPES = {
    "FloatStorage": StorageType("float32", 4),
    "DoubleStorage": StorageType("float64", 8),
    "HalfStorage": StorageType("float16", 2),
    "BFloat16Storage": StorageType("bfloat16", 2),
    "LongStorage": StorageType("int64", 8),
    "IntStorage": StorageType("int32", 4),
    "ShortStorage": StorageType("int16", 2),
    "CharStorage": StorageType("int8", 1),
    "ByteStorage": StorageType("uint8", 1),
    "BoolStorage": StorageType("bool", 1),
    "ComplexHalfStorage": StorageType("complex32", 4),
    "ComplexFloatStorage": StorageType("complex64", 8),
    "ComplexDoubleStorage": StorageType("complex128", 16),
    "QInt8Storage": StorageType("qint8", 1),
    "QUInt8Storage": StorageType("quint8", 1),
    "QInt32Storage": StorageType("qint32", 4),
    "QUInt4x2Storage": StorageType("quint4x2", 1),
    "QUInt2x4Storage": StorageType("quint2x4", 1),
    **{f"UInt{bits}Storage": StorageType(f"uint{bits}", bits // 8) for bits in (16, 32, 64)},
    **{
        f"Float8_{form}Storage": StorageType(f"float8_{form}", 1)
        for form in ("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz", "e8m0fnu")
    },
    "Float4_e2m1fn_x2Storage": StorageType("float4_e2m1fn_x2", 1),
    "Bits1x8Storage": StorageType("bits1x8", 1),
    "Bits2x4Storage": StorageType("bits2x4", 1),
    "Bits4x2Storage": StorageType("bits4x2", 1),
    "Bits8Storage": StorageType("bits8", 1),
    "Bits16Storage": StorageType("bits16", 2),
    # Integers of less than eight bits take a byte each.
    **{f"Int{bits}Storage": StorageType(f"int{bits}", 1) for bits in range(1, 8)},
    **{f"UInt{bits}Storage": StorageType(f"uint{bits}", 1) for bits in range(1, 8)},
}
