"""The stored elements of a tensor as NumPy arrays over the file, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy

from tsarchive.archive import Archive
from tsarchive.describing.contents import TensorInfo
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.executorch.looking import EXTERNAL

Numbers = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.generic]]

# How many elements are converted at a time.
_PIECE: Final = 1 << 20
# Every NumPy supports this many dimensions.
_MAX_RANK: Final = 32
_BFLOAT16: Final = "bfloat16"
# The memory format of elements, except for the byte order. Quantized ones as their integers.
_CODES: Final = {
    "float16": "f2", "float32": "f4", "float64": "f8", _BFLOAT16: "u2", "int8": "i1", "int16": "i2",
    "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
    "bool": "u1", "qint8": "i1", "quint8": "u1", "qint32": "i4", "float8_e5m2": "u1",
}  # fmt: skip


class Stored(NamedTuple):
    """A tensor in the file: ``array`` holds its stored elements, each repeated ``times`` times."""

    dtype: str
    array: Numbers
    times: int

    def pieces(self) -> Iterator[Numbers]:
        """Yield the elements as numbers, in an order that is fast to read."""
        if not self.array.size:
            return
        walk = numpy.nditer(
            self.array, flags=("external_loop", "buffered"), order="K", buffersize=_PIECE
        )
        for piece in walk:
            yield _decode(self.dtype, numpy.asarray(piece))


class Elements:
    """Finds the elements of the tensors of one file by their names."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def of(self, name: str) -> Stored:
        """Return the elements of one of ``Archive.tensors``.

        Raises UnsupportedError for types that are not plain numbers, and for tensors whose bytes
        are not in the file; what reading a record raises.
        """
        info = self._archive.tensors[name]
        code = _CODES.get(info.dtype)
        if code is None:
            raise UnsupportedError(f"elements of {info.dtype} are not read as numbers")
        dtype = numpy.dtype(code).newbyteorder(self._order)
        return _view(self._bytes(name, info), info, dtype)

    def _bytes(self, name: str, info: TensorInfo) -> memoryview:
        """Return the storage of a tensor from its first element on."""
        if info.storage is not None and info.storage.startswith(EXTERNAL):
            raise UnsupportedError("its elements are in a data file")
        if info.storage is None or info.offset is None:
            raise UnsupportedError("its elements are not in one record")
        return self._archive.view.element_bytes(name, info)

    @cached_property
    def _order(self) -> Literal["<", ">"]:
        """Return the byte order recorded in the archive; little-endian by default."""
        is_told = "byteorder" in self._archive.records
        return ">" if is_told and self._archive.read("byteorder").strip() == b"big" else "<"


def _view(data: memoryview, info: TensorInfo, dtype: numpy.dtype[numpy.generic]) -> Stored:
    """View the storage. Dimensions that repeat elements are counted, not walked."""
    if len(info.strides) != len(info.shape) or min(info.shape, default=0) < 0:
        raise FormatError("its strides do not fit its sizes", record=info.storage)
    pairs = [pair for pair in zip(info.shape, info.strides, strict=True) if pair[0] != 1]
    walked = [(length, step) for length, step in pairs if step or not length]
    times = math.prod(length for length, step in pairs if length and not step)
    shape = tuple(length for length, _ in walked)
    _check_reach(walked, len(data) // dtype.itemsize, info)
    strides = tuple(step * dtype.itemsize for _, step in walked)
    return Stored(info.dtype, numpy.ndarray(shape, dtype, buffer=data, strides=strides), times)


def _check_reach(walked: list[tuple[int, int]], most: int, info: TensorInfo) -> None:
    """Raise FormatError for elements beyond the record, and for more than it has."""
    elements = math.prod(length for length, _ in walked)
    last = sum((length - 1) * step for length, step in walked)
    if elements and max(elements, last + 1) > most:
        raise FormatError("it shows more elements than its record has", record=info.storage)
    if len(walked) > _MAX_RANK:
        raise UnsupportedError(f"it has more than {_MAX_RANK} dimensions", record=info.storage)


def _decode(dtype: str, piece: Numbers) -> Numbers:
    """Convert types that NumPy lacks, which are the upper halves of those that it has."""
    if dtype == _BFLOAT16:
        return (piece.astype(numpy.uint32) << 16).view(numpy.float32)
    if dtype == "float8_e5m2":
        return (piece.astype(numpy.uint16) << 8).view(numpy.float16)
    return (piece != 0).astype(numpy.uint8) if dtype == "bool" else piece
