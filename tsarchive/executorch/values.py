"""What the values of a method are: scalars as Python has them, tensors, and lists of others.

A value is None, a bool, int, float or str, or one of the classes here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from .scalar_types import SCALAR_TYPES, dtype_name

__all__ = [
    "Allocation", "BoolList", "DoubleList", "IntList", "Layout", "OptionalTensorList", "Shape",
    "Tensor", "TensorList", "Value", "derived_strides",
]  # fmt: skip

NO_TENSOR: Final = -1
# The most dimensions that the runtime takes.
MAX_RANK: Final = 16
_MAX_BYTES: Final = (1 << 63) - 1


class Shape(IntEnum):
    """How the sizes of a tensor bind it: exactly, by their product, or not at all."""

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
    """What bytes are as a tensor; nothing in it is checked."""

    scalar_type: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """torch's name without ``torch.``."""
        return dtype_name(self.scalar_type)

    @property
    def strides(self) -> tuple[int, ...]:
        return derived_strides(self.sizes, self.dim_order)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, 0 where the element type is unknown."""
        return byte_count(self.scalar_type, self.sizes)


@dataclass(frozen=True, slots=True)
class Tensor(Layout):
    """A tensor as the file describes it; nothing in it is checked, but that it is complete.

    ``sizes`` are upper bounds where ``dynamism`` is not static. ``data_index`` names its initial
    bytes, 0 for none; ``is_external`` that they are in a data file, under ``name``.
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


@dataclass(frozen=True, slots=True)
class IntList:
    """Numbers of values that are integers, so that symbolic sizes can stand there."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DoubleList:
    items: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoolList:
    items: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TensorList:
    """Numbers of values that are tensors."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OptionalTensorList:
    """The same, with -1 for None."""

    items: tuple[int, ...]


Value: TypeAlias = (
    bool | int | float | str | Tensor | IntList | DoubleList | BoolList | TensorList
    | OptionalTensorList | None
)  # fmt: skip


def derived_strides(sizes: tuple[int, ...], dim_order: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements, as the runtime derives them; () where ``dim_order`` is no permutation
    of the dimensions, or there are more than the runtime takes."""
    if len(sizes) > MAX_RANK or sorted(dim_order) != list(range(len(sizes))):
        return ()
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(dim_order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def byte_count(scalar_type: int, sizes: tuple[int, ...]) -> int:
    """The bytes of a tensor, 0 where ``layout_problem`` would find element type or sizes wrong."""
    found = SCALAR_TYPES.get(scalar_type)
    if found is None or len(sizes) > MAX_RANK or min(sizes, default=0) < 0:
        return 0
    return math.prod(sizes) * found.itemsize


def layout_problem(
    scalar_type: int, sizes: tuple[int, ...], dim_order: tuple[int, ...]
) -> str | None:
    """Why no tensor has these sizes and this order of dimensions in memory; None for sound ones."""
    if scalar_type not in SCALAR_TYPES:
        return f"the scalar type {scalar_type} is not known"
    if min(sizes, default=0) < 0:
        return f"the size {min(sizes)} is negative"
    if len(sizes) > MAX_RANK:
        return f"it has {len(sizes)} dimensions, more than {MAX_RANK}"
    if byte_count(scalar_type, tuple(max(size, 1) for size in sizes)) > _MAX_BYTES:
        return "its bytes are more than 64 bits count"
    if sorted(dim_order) != list(range(len(sizes))):
        return f"the order of dimensions {list(dim_order)} is no permutation of {len(sizes)}"
    return None
