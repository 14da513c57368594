"""What pickles say of storages and tensors, as values that were checked. Without torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from tsarchive.errors import PickleError
from tsarchive.findings import Nature
from tsarchive.pickler import Reduce
from tsarchive.torchscript.storages import STORAGE_TYPES

__all__ = [
    "DenseTensor",
    "PerChannel",
    "PerTensor",
    "QuantizedTensor",
    "SparseTensor",
    "StoredStorage",
    "StoredTensor",
    "TensorError",
    "View",
    "Wrapped",
    "check_record_size",
    "is_device",
]

# Device indices are signed bytes in torch: 256 would be read as 0.
MAX_DEVICE_INDEX = 127

_DEVICE = re.compile(r"([a-z][a-z0-9_]{0,31})(?::(0|[1-9][0-9]{0,2}))?")


class TensorError(PickleError):
    """A PickleError that knows which rule found it, and what that says of the file."""

    def __init__(self, rule: str, nature: Nature, message: str, record: str) -> None:
        super().__init__(message, record=record)
        self.rule = rule
        self.nature = nature


@dataclass(frozen=True, slots=True)
class StoredStorage:
    """A storage that a pickle refers to: ``count`` elements of type ``kind`` in record ``key``."""

    key: str
    kind: str
    device: str
    count: int

    @property
    def dtype(self) -> str:
        return STORAGE_TYPES[self.kind].dtype

    @property
    def nbytes(self) -> int:
        return self.count * STORAGE_TYPES[self.kind].itemsize

    @property
    def is_meta(self) -> bool:
        """Whether it has a size and no data."""
        return self.device.partition(":")[0] == "meta"


@dataclass(frozen=True, slots=True)
class View:
    """Which elements of a storage a tensor shows; ``offset`` and ``stride`` count elements."""

    storage: StoredStorage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def count(self) -> int:
        return prod(self.size)

    @property
    def last(self) -> int:
        """The place of the last element in the storage, for views that show any."""
        steps = zip(self.size, self.stride, strict=True)
        return self.offset + sum((length - 1) * step for length, step in steps)

    @property
    def may_overlap(self) -> bool:
        """Whether two elements may be one place of the storage, as in an expanded tensor."""
        reach = 0
        for step, length in sorted(zip(self.stride, self.size, strict=True)):
            if length > 1:
                if step <= reach:
                    return True
                reach += (length - 1) * step
        return False


@dataclass(frozen=True, slots=True)
class PerTensor:
    """One scale and zero point for all elements."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class PerChannel:
    """A scale and zero point for each index of ``axis``: tensors, or lists in version 1."""

    scales: Reduce | list[float]
    zero_points: Reduce | list[int]
    axis: int


@dataclass(frozen=True, slots=True)
class DenseTensor:
    """``flags`` holds ``conj`` and ``neg`` where they are set."""

    view: View
    requires_grad: bool
    flags: dict[str, bool]


@dataclass(frozen=True, slots=True)
class QuantizedTensor:
    view: View
    quantizer: PerTensor | PerChannel


@dataclass(frozen=True, slots=True)
class SparseTensor:
    """``parts`` are dense: indices and values of COO; rows, columns and values of CSR."""

    layout: str
    size: tuple[int, ...]
    parts: tuple[Reduce, ...]
    requires_grad: bool


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A tensor that stands for another: a parameter. ``requires_grad`` replaces its own."""

    tensor: Reduce
    requires_grad: bool


StoredTensor: TypeAlias = DenseTensor | QuantizedTensor | SparseTensor | Wrapped


def is_device(text: str) -> bool:
    """Whether ``text`` has the form of a device; which types there are, torch knows."""
    found = _DEVICE.fullmatch(text)
    return found is not None and int(found[2] or 0) <= MAX_DEVICE_INDEX


def check_record_size(storage: StoredStorage, size: int, record: str) -> None:
    """Raise TensorError unless a record of ``size`` bytes holds the storage and nothing more.

    What torch writes may end in less than an element: a storage of other types has that many
    bytes more.
    """
    if storage.is_meta:
        return
    itemsize = STORAGE_TYPES[storage.kind].itemsize
    if not storage.nbytes <= size < storage.nbytes + itemsize:
        message = (
            f"storage {storage.key} holds {size} bytes where its reference claims {storage.nbytes}"
        )
        raise TensorError("tensor-storage-size", Nature.HOSTILE, message, record)
