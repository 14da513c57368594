"""Indices of loaded sparse tensors: copies that code cannot reach, and what they are copies of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

# By sparse tensor: its indices as they were read. Only saving looks here.
_read: Any = WeakIdKeyDictionary()


class PrivateCopies:
    """Indices that are checked must not be those of a tensor that code can write to.

    They stay the views that they are, of storages of the same sizes. However many tensors view
    a storage, it is copied once.
    """

    def __init__(self) -> None:
        # By address: the storage, which is kept alive by being held here, and its copy.
        self._storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def of(self, indices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Views like ``indices``, of copies of their storages."""
        return [self._copy(tensor) for tensor in indices]

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            copy = storage.clone()  # type: ignore[no-untyped-call]
            self._storages[storage._cdata] = storage, copy
        _, copy = self._storages[storage._cdata]
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(copy, tensor.storage_offset(), tensor.size(), tensor.stride())


def remember(sparse: torch.Tensor, indices: Sequence[torch.Tensor]) -> None:
    """Tell what the indices of ``sparse`` are copies of."""
    _read[sparse] = tuple(indices)


def as_read(sparse: torch.Tensor, indices: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """What ``indices`` are copies of, so that it is written once; unless they differ by now."""
    found = _read.get(sparse, ())
    same = len(found) == len(indices) and all(map(torch.equal, found, indices))
    return found if same else indices
