"""Descriptions of an archive's tensors, and their totals, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .text import plural, size

if TYPE_CHECKING:
    from .facts import TensorFacts

Role: TypeAlias = Literal["parameter", "buffer", "attribute", "constant"]


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """Bytes that tensors occupy, and may share: ``nbytes`` of a record, from ``start`` on.

    Storages without bytes in the file, as of meta tensors, have 0. Equal ones are the same storage.
    """

    record: str
    start: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The description of a tensor in an archive.

    ``dtype`` is torch's name without ``torch.``; ``strides`` count elements and are empty for
    sparse tensors; ``storage`` is the record of its bytes, None for sparse tensors; ``nbytes`` is
    the size of the elements that the tensor shows, not of the storage; ``offset`` is the offset in
    bytes of the first of them in the record, None where unknown. ``storages`` are all of its
    storages: that of its elements, those of per-channel scales and zero points, or those of the
    indices and values of a sparse tensor. ``device`` is None where the format stores none. A tensor
    is a constant where code names it; one that is neither parameter, buffer nor constant is an
    attribute, or inside one.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: str | None
    nbytes: int
    role: Role
    storages: tuple[StorageInfo, ...]
    device: str | None = None
    offset: int | None = None

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_parameter(self) -> bool:
        """Whether the tensor is a parameter of a module."""
        return self.role == "parameter"

    @property
    def is_buffer(self) -> bool:
        """Whether the tensor is a buffer of a module."""
        return self.role == "buffer"


@dataclass(frozen=True, slots=True)
class TensorTotals:
    """Totals of tensors.

    Tensors are counted by name, so that one with two names counts twice, and so are their elements;
    storages and their bytes are counted once.
    """

    count: int
    elements: int
    storages: int
    bytes: int


def totals_of(infos: Iterable[TensorInfo]) -> TensorTotals:
    """Count tensors; all commands use this definition."""
    count = elements = 0
    storages: set[StorageInfo] = set()
    for info in infos:
        count, elements = count + 1, elements + info.elements
        storages.update(info.storages)
    nbytes = sum(storage.nbytes for storage in storages)
    return TensorTotals(count, elements, len(storages), nbytes)


def uniquely_named(
    named: Iterable[tuple[str, TensorInfo]],
) -> Iterator[tuple[str, TensorInfo]]:
    """Make names unique; the second of a name, as of the keys 1 and ``"1"``, is ``name (2)``."""
    known: set[str] = set()
    repeated: dict[str, int] = {}
    for name, info in named:
        shown = name
        while shown in known:
            repeated[name] = repeated.get(name, 1) + 1
            shown = f"{name} ({repeated[name]})"
        known.add(shown)
        yield shown, info


def totals_text(totals: TensorTotals | TensorFacts) -> str:
    """``19 tensors in 5 storages, 654.6 KiB``"""
    storages = plural(totals.storages, "storage")
    return f"{plural(totals.count, 'tensor')} in {storages}, {size(totals.bytes)}"
