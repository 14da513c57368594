"""Histograms of the values of tensors, read with NumPy from the file, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy

from tsarchive.archive import Archive
from tsarchive.describing.contents import TensorInfo
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.contents import is_big_endian
from tsarchive.formats.executorch.view import EXTERNAL

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


class Changed(NamedTuple):
    """A tensor as it is in two files, as the differences of its elements."""

    before: Stored
    after: Stored

    @property
    def dtype(self) -> str:
        """The dtype of the differences."""
        return "float64"

    @property
    def array(self) -> Numbers:
        """Elements of the shape of the differences."""
        return self.after.array

    @property
    def times(self) -> int:
        """How often each difference is there."""
        return self.after.times

    def pieces(self) -> Iterator[Numbers]:
        """Yield what was added to the elements, in the order of their indices."""
        if not self.array.size:
            return
        walk = numpy.nditer(
            [self.before.array, self.after.array],
            flags=("external_loop", "buffered"),
            order="C",
            buffersize=_PIECE,
        )
        for before, after in walk:
            one = _decode(self.before.dtype, before).astype(numpy.float64)
            yield _decode(self.after.dtype, after).astype(numpy.float64) - one


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
        if info.storage is not None and info.storage.startswith(EXTERNAL):
            raise UnsupportedError("its elements are in a data file")
        if info.storage is None or info.offset is None:
            raise UnsupportedError("its elements are not in one record")
        dtype = numpy.dtype(code).newbyteorder(self._order)
        return _view(self._archive.view.element_bytes(name, info), info, dtype)

    @cached_property
    def _order(self) -> Literal["<", ">"]:
        """Return the byte order recorded in the archive; little-endian by default."""
        return ">" if is_big_endian(self._archive.records, self._archive.read) else "<"


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


# A power of two: bin edges are then exact for all but extreme values.
_BINS: Final = 64


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of a tensor's values.

    ``counts`` are those of finite values in equal bins from ``low`` to ``high``, the last bin
    including its upper edge; empty where there are none, or their range exceeds a float.
    ``elements`` counts all, ``nans`` and ``infinities`` those that are not finite. Bounds, mean and
    standard deviation (of the population) are those of finite values.
    """

    counts: tuple[int, ...]
    low: float
    high: float
    mean: float
    deviation: float
    elements: int
    zeros: int
    nans: int
    infinities: int

    def document(self) -> dict[str, Any]:
        """Return JSON for the script of the page; numbers that are only shown are text."""
        facts = {
            "elements": f"{self.elements:,}",
            "minimum": _shown(self.low),
            "mean": _shown(self.mean),
            "maximum": _shown(self.high),
            "standard deviation": _shown(self.deviation),
            "zeros": f"{self.zeros:,}",
        }
        if self.nans or self.infinities:
            facts |= {"NaN": f"{self.nans:,}", "infinite": f"{self.infinities:,}"}
        return {"counts": self.counts, "facts": facts}


def _shown(number: float) -> str:
    return f"{number:.6g}" if math.isfinite(number) else "none"


@dataclass(slots=True)
class _Totals:
    """The sums of one pass over the elements."""

    finite: int = 0
    nans: int = 0
    infinities: int = 0
    zeros: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0

    def add(self, piece: Numbers) -> None:
        nans = int(numpy.isnan(piece).sum())
        values = _finite(piece)
        self.nans += nans
        self.infinities += piece.size - values.size - nans
        self.finite += values.size
        self.zeros += values.size - int(numpy.count_nonzero(values))
        if values.size:
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))
            self.total += float(values.sum(dtype=numpy.float64))


def change_histogram(before: Stored, after: Stored) -> Histogram:
    """Return the histogram of the differences between two tensors of one shape.

    Raises UnsupportedError where they repeat other elements.
    """
    if before.array.shape != after.array.shape or before.times != after.times:
        raise UnsupportedError("its elements are laid out otherwise in one of the files")
    return histogram(Changed(before, after))


def histogram(stored: Stored | Changed) -> Histogram:
    """Make two passes over the elements, piecewise: one for their bounds, one to count them."""
    with numpy.errstate(all="ignore"):
        totals = _Totals()
        for piece in stored.pieces():
            totals.add(piece)
        return _counted(stored, totals)


def _counted(stored: Stored | Changed, totals: _Totals) -> Histogram:
    mean = totals.total / totals.finite if totals.finite else math.nan
    low, high, times = totals.low, totals.high, stored.times
    bins = (
        _bins(low, high, is_float=stored.dtype.startswith(("float", "bfloat")))
        if totals.finite
        else 0
    )
    counts = numpy.zeros(bins, numpy.int64)
    squares = 0.0
    for piece in stored.pieces():
        values = _finite(piece).astype(numpy.float64)
        squares += float(numpy.square(values - mean).sum())
        if bins > 1:
            counts += numpy.histogram(values, bins, (low, high))[0]
        else:
            counts += values.size
    deviation = math.sqrt(squares / totals.finite) if totals.finite else math.nan
    return Histogram(
        tuple(int(count) * times for count in counts), low, high, mean, deviation,
        stored.array.size * times, totals.zeros * times, totals.nans * times,
        totals.infinities * times,
    )  # fmt: skip


def _finite(piece: Numbers) -> Numbers:
    return piece[numpy.isfinite(piece)] if piece.dtype.kind == "f" else piece


def _bins(low: float, high: float, *, is_float: bool) -> int:
    """Return the number of bins, all of which have bounds of their own; for few integers, one each.

    A bin two units in the last place wide has them, however its bounds are rounded.
    """
    width = high - low
    if not math.isfinite(width):
        return 0
    most = _BINS if is_float else min(width + 1, _BINS)
    units = width / math.ulp(max(abs(low), abs(high)))
    return max(1, int(min(most, units / 2)))
