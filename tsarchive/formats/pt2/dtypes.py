"""Element types by their number in the format, with torch's name and their size in bytes."""

from __future__ import annotations

from tsarchive.pickler.storage_types import STORAGE_TYPES, StorageType

from .schema import ScalarType

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
