"""The memory of a module: arenas, and the tensors that lie in them.

All methods share it, so one runs at a time. Copies of a module have memory of their own.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tsarchive.errors import LimitError
from tsarchive.formats.executorch.values import derived_strides
from tsarchive.formats.torchscript.tensors import without_warnings

from .layout import Layout, Place


class Memory:
    """Arenas of zeros, committed as they are written to. Sizes are in bytes.

    Raises LimitError where the system lacks memory.
    """

    def __init__(self, layout: Layout) -> None:
        self.lock = threading.RLock()
        self._layout = layout
        self._arenas = [_arena(size) for size in layout.arenas]
        self.tensors = [_tensor(self._arenas[place.arena], place) for place in layout.places]
        # Buffers of the module that were found to be the ones that methods use.
        self.checked: list[Any] = []

    def contents(self) -> list[bytes]:
        """Return a copy of the bytes of each arena."""
        return [b"" if arena is None else bytes(arena) for arena in self._arenas]

    def fill(self, contents: Iterable[bytes]) -> None:
        """Set the bytes of each arena."""
        for arena, content in zip(self._arenas, contents, strict=True):
            if arena is not None:
                arena[:] = content

    def copied(self, memo: dict[int, Any]) -> Memory:
        """Copy into new memory. ``memo`` maps each tensor to its copy."""
        made = Memory(self._layout)
        for mine, other in zip(self._arenas, made._arenas, strict=True):
            if mine is not None and other is not None:
                other[:] = mine[:]
        for tensor, copy in zip(self.tensors, made.tensors, strict=True):
            memo[id(tensor)] = copy
        return made


def _arena(size: int) -> mmap.mmap | None:
    if not size:
        return None
    try:
        return mmap.mmap(-1, size)
    except (OSError, OverflowError, ValueError) as error:
        raise LimitError(
            f"the memory plan has an arena of {size:,} bytes, which this process cannot have",
            hint="It stands in the program, as the bound of a size or as that of an arena",
        ) from error


@cache
def _dtype(name: str) -> torch.dtype:
    """Return a dtype after triggering torch's one-time warning about it, suppressed.

    Users cannot change what a file holds.
    """
    found: torch.dtype = getattr(torch, name)
    with without_warnings():
        torch.empty(0, dtype=found, device="cpu")
    return found


def _tensor(arena: mmap.mmap | None, place: Place) -> Tensor:
    """Return a tensor whose storage is exactly its place."""
    tensor = place.tensor
    dtype = _dtype(tensor.dtype)
    strides = derived_strides(tensor.sizes, tensor.dim_order)
    count = tensor.nbytes // dtype.itemsize
    if arena is None or not count:
        # A view beyond the only element of its storage has no memory, and gets none.
        alone = torch.frombuffer(bytearray(dtype.itemsize), dtype=dtype)
        return alone.as_strided(tensor.sizes, strides, 1)
    made = torch.frombuffer(arena, dtype=dtype, count=count, offset=place.offset)
    return made.as_strided(tensor.sizes, strides)


def tensor_over(
    data: memoryview, sizes: Sequence[int], strides: Sequence[int], name: str
) -> Tensor:
    """Return a tensor over bytes of a file, or over a copy of them if they are misaligned."""
    dtype = _dtype(name)
    if not len(data):
        return torch.empty_strided(tuple(sizes), tuple(strides), dtype=dtype)
    found = torch.frombuffer(data, dtype=dtype, count=len(data) // dtype.itemsize)
    if found.data_ptr() % dtype.itemsize:
        found = torch.frombuffer(bytearray(data), dtype=dtype)
    return found.as_strided(tuple(sizes), tuple(strides))
