"""Element types by their numbers in ExecuTorch, which are those of ATen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class ScalarType(NamedTuple):
    """An element type: torch's name without ``torch.``, and the size of an element in bytes."""

    name: str
    itemsize: int


SCALAR_TYPES: Final[Mapping[int, ScalarType]] = {
    0: ScalarType("uint8", 1),
    1: ScalarType("int8", 1),
    2: ScalarType("int16", 2),
    3: ScalarType("int32", 4),
    4: ScalarType("int64", 8),
    5: ScalarType("float16", 2),
    6: ScalarType("float32", 4),
    7: ScalarType("float64", 8),
    # Commented out in the schema, written by exir and read by the runtime.
    8: ScalarType("complex32", 4),
    9: ScalarType("complex64", 8),
    10: ScalarType("complex128", 16),
    11: ScalarType("bool", 1),
    12: ScalarType("qint8", 1),
    13: ScalarType("quint8", 1),
    14: ScalarType("qint32", 4),
    15: ScalarType("bfloat16", 2),
    16: ScalarType("quint4x2", 1),
    17: ScalarType("quint2x4", 1),
    22: ScalarType("bits16", 2),
    23: ScalarType("float8_e5m2", 1),
    24: ScalarType("float8_e4m3fn", 1),
    25: ScalarType("float8_e5m2fnuz", 1),
    26: ScalarType("float8_e4m3fnuz", 1),
    27: ScalarType("uint16", 2),
    28: ScalarType("uint32", 4),
    29: ScalarType("uint64", 8),
}


def dtype_name(number: int) -> str:
    """Return the name of an element type, or a placeholder for an unknown number."""
    found = SCALAR_TYPES.get(number)
    return f"scalar type {number}" if found is None else found.name
