"""Checked descriptions of storages and tensors, without torch."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias

from tsarchive.errors import PickleError
from tsarchive.findings import Nature
from tsarchive.pickler import Reduce
from tsarchive.pickler.storage_types import STORAGE_TYPES

# Deeper than any model; only a file made to exhaust the stack has more.
MAX_DEPTH = 200
# The rule for a storage whose record has another size.
STORAGE_SIZE = "tensor-storage-size"
# Device indices are signed bytes in torch: 256 would be read as 0.
MAX_DEVICE_INDEX = 127

_LONGEST_DEVICE = 36
_DEVICE = re.compile(r"([a-z][a-z0-9_]{0,31})(?::(0|[1-9][0-9]{0,2}))?")


class TensorError(PickleError):
    """A PickleError with the rule that was broken, and what the breach says of the file."""

    def __init__(self, rule: str, nature: Nature, message: str, record: str) -> None:
        super().__init__(message, record=record)
        self.rule = rule
        self.nature = nature


class StoredStorage(NamedTuple):
    """A storage that a pickle refers to: ``elements`` of type ``kind`` in record ``key``."""

    key: str
    kind: str
    device: str
    elements: int

    @property
    def dtype(self) -> str:
        return STORAGE_TYPES[self.kind].dtype

    @property
    def nbytes(self) -> int:
        return self.elements * STORAGE_TYPES[self.kind].itemsize

    @property
    def is_meta(self) -> bool:
        """Whether it has a size but no data."""
        return self.device.startswith("meta") and self.device[4:5] in ("", ":")


class View(NamedTuple):
    """The elements of a storage that a tensor shows; ``offset`` and ``stride`` count elements."""

    storage: StoredStorage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements of the tensor."""
        return prod(self.size)

    @property
    def last(self) -> int:
        """The index of the last element in the storage, for nonempty views."""
        last = self.offset
        for length, step in zip(self.size, self.stride, strict=True):
            last += (length - 1) * step
        return last

    @property
    def may_overlap(self) -> bool:
        """Whether two elements may share a place of the storage, as in an expanded tensor."""
        reach = 0
        for step, length in sorted(zip(self.stride, self.size, strict=True)):
            if length > 1:
                if step <= reach:
                    return True
                reach += (length - 1) * step
        return False


class PerTensor(NamedTuple):
    """One scale and zero point for all elements."""

    scale: float
    zero_point: int


class PerChannel(NamedTuple):
    """A scale and zero point for each index of ``axis``: tensors, or lists in version 1."""

    scales: Reduce | list[float]
    zero_points: Reduce | list[int]
    axis: int


class DenseTensor(NamedTuple):
    """A dense tensor. ``flags`` holds ``conj`` and ``neg`` where they are set."""

    view: View
    requires_grad: bool
    flags: dict[str, bool]


class QuantizedTensor(NamedTuple):
    view: View
    quantizer: PerTensor | PerChannel


class SparseTensor(NamedTuple):
    """A sparse tensor.

    ``parts`` are dense: indices and values of COO; rows, columns and values of CSR.
    """

    layout: str
    size: tuple[int, ...]
    parts: tuple[Reduce, ...]
    requires_grad: bool


class Wrapped(NamedTuple):
    """A tensor wrapped in another, such as a parameter. ``requires_grad`` replaces its own."""

    tensor: Reduce
    requires_grad: bool


StoredTensor: TypeAlias = DenseTensor | QuantizedTensor | SparseTensor | Wrapped


def is_device(text: str) -> bool:
    """Return whether ``text`` has the form of a device; torch decides which types exist."""
    return len(text) <= _LONGEST_DEVICE and _is_device(text)


@lru_cache(maxsize=64)
def _is_device(text: str) -> bool:
    found = _DEVICE.fullmatch(text)
    return found is not None and int(found[2] or 0) <= MAX_DEVICE_INDEX


def check_record_size(storage: StoredStorage, size: int, record: str) -> None:
    """Raise TensorError unless a record of ``size`` bytes holds exactly the storage.

    A record that torch writes may end in less than an element: a storage of another type has that
    many bytes more.
    """
    if storage.is_meta:
        return
    itemsize = STORAGE_TYPES[storage.kind].itemsize
    if not 0 <= size - storage.elements * itemsize < itemsize:
        message = (
            f"storage {storage.key} holds {size} bytes where its reference claims {storage.nbytes}"
        )
        raise TensorError(STORAGE_SIZE, Nature.HOSTILE, message, record)
