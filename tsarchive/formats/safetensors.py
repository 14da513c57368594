"""Writing safetensors files: the length of a header in JSON, the header, and the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from tsarchive.errors import SaveError

DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32",
        "int64": "I64", "uint16": "U16", "uint32": "U32", "uint64": "U64", "float16": "F16",
        "bfloat16": "BF16", "float32": "F32", "float64": "F64", "complex64": "C64",
        "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    }
)  # fmt: skip
"""The names of dtypes in these files, by those of torch."""
RAW: Final = "U8"

Piece: TypeAlias = bytes | bytearray | memoryview
# The data begins at a multiple of this.
_ALIGNMENT: Final = 8
_METADATA: Final = "__metadata__"


class Tensor(NamedTuple):
    """A tensor to write: ``pieces`` give its elements in order, ``nbytes`` in all."""

    name: str
    dtype: str
    shape: Sequence[int]
    nbytes: int
    pieces: Callable[[], Iterable[Piece]]


def write_safetensors(
    stream: BinaryIO, tensors: Sequence[Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors in this order. Raises SaveError where one has other bytes than it tells."""
    stream.write(_head(tensors, metadata))
    for tensor in tensors:
        written = 0
        for piece in tensor.pieces():
            written += memoryview(piece).nbytes
            stream.write(piece)
        if written != tensor.nbytes:
            raise SaveError(f"{tensor.name!r} has {written:,} bytes in place of {tensor.nbytes:,}")


def _head(tensors: Iterable[Tensor], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {_METADATA: dict(metadata), **dict(_entries(tensors))}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _entries(tensors: Iterable[Tensor]) -> Iterator[tuple[str, Any]]:
    start = 0
    for tensor in tensors:
        if tensor.name == _METADATA:
            raise SaveError(f"no tensor may be called {_METADATA!r} in a safetensors file")
        end = start + tensor.nbytes
        facts = {"dtype": tensor.dtype, "shape": [*tensor.shape], "data_offsets": [start, end]}
        yield tensor.name, facts
        start = end
