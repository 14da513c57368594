"""The values of a method: Python scalars, tensors, and lists of other values.

A value is None, a bool, int, float or str, or one of the classes here. Element types have the
numbers of ATen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias


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

NO_TENSOR: Final = -1
# The maximum rank that the runtime accepts.
MAX_RANK: Final = 16
_MAX_BYTES: Final = (1 << 63) - 1


class Span(NamedTuple):
    """A byte range of an arena."""

    arena: int
    start: int
    end: int

    def meets(self, other: Span) -> bool:
        return self.arena == other.arena and self.start < other.end and other.start < self.end


class Shape(IntEnum):
    """How the declared sizes bound a tensor: exactly, by their product, or not at all."""

    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


@dataclass(frozen=True, slots=True)
class Allocation:
    """A place in an arena of the memory plan: arenas count from 1, ``offset`` in bytes."""

    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The interpretation of bytes as a tensor; unchecked."""

    scalar_type: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """The element type, as torch's name without ``torch.``; a placeholder if unknown."""
        found = SCALAR_TYPES.get(self.scalar_type)
        return f"scalar type {self.scalar_type}" if found is None else found.name

    @property
    def strides(self) -> tuple[int, ...]:
        return derived_strides(self.sizes, self.dim_order)

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes, 0 where the element type is unknown."""
        return byte_count(self.scalar_type, self.sizes)

    @property
    def problem(self) -> str | None:
        """Why no tensor can have this layout; None for a valid one."""
        rank = len(self.sizes)
        if self.scalar_type not in SCALAR_TYPES:
            return f"the scalar type {self.scalar_type} is not known"
        if min(self.sizes, default=0) < 0:
            return f"the size {min(self.sizes)} is negative"
        if rank > MAX_RANK:
            return f"it has {rank} dimensions, more than {MAX_RANK}"
        if byte_count(self.scalar_type, tuple(max(size, 1) for size in self.sizes)) > _MAX_BYTES:
            return "its bytes are more than 64 bits count"
        if sorted(self.dim_order) != list(range(rank)):
            return f"the order of dimensions {list(self.dim_order)} is no permutation of {rank}"
        return None


@dataclass(frozen=True, slots=True)
class Tensor(Layout):
    """A tensor as the file describes it; complete, but otherwise unchecked.

    ``sizes`` are upper bounds where ``dynamism`` is not static. ``data_index`` refers to its
    initial bytes, 0 for none; ``is_external`` if they are in a data file, under ``name``.
    ``mutable_index``, ``device_type`` and ``device_index`` are as written.
    """

    storage_offset: int
    requires_grad: bool
    data_index: int
    allocation: Allocation | None
    layout: int
    dynamism: int
    name: str | None = None
    is_external: bool = False
    mutable_index: int = 0
    device_type: int = 0
    device_index: int = 0

    @property
    def has_data(self) -> bool:
        """Whether it has initial bytes, in the file or in a data file."""
        return self.is_external or bool(self.data_index)

    @property
    def span(self) -> Span | None:
        """Its place in the memory plan, if it has one."""
        if self.allocation is None:
            return None
        start = self.allocation.offset
        return Span(self.allocation.arena, start, start + self.nbytes)


@dataclass(frozen=True, slots=True)
class ValueList:
    """A list of one of the kinds below."""

    items: tuple[Any, ...]


class DoubleList(ValueList):
    """A list of floats."""


class BoolList(ValueList):
    """A list of bools."""


class IndexList(ValueList):
    """A list of other values, by their indices."""


class IntList(IndexList):
    """Indices of integer values, which allows symbolic sizes."""


class TensorList(IndexList):
    """Indices of tensor values."""


class OptionalTensorList(IndexList):
    """Indices of tensor values, -1 for None."""


Value: TypeAlias = bool | int | float | str | Tensor | ValueList | None


def derived_strides(sizes: tuple[int, ...], dim_order: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides in elements, as the runtime derives them.

    () where ``dim_order`` is not a permutation of the dimensions, or there are too many for the
    runtime.
    """
    if len(sizes) > MAX_RANK or sorted(dim_order) != list(range(len(sizes))):
        return ()
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(dim_order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def byte_count(scalar_type: int, sizes: tuple[int, ...]) -> int:
    """Return the size of a tensor in bytes, 0 where its element type or sizes are invalid."""
    found = SCALAR_TYPES.get(scalar_type)
    if found is None or len(sizes) > MAX_RANK or min(sizes, default=0) < 0:
        return 0
    return math.prod(sizes) * found.itemsize
