"""Private copies of the indices of loaded sparse tensors, which code cannot modify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

# The original indices by sparse tensor, used only by saving.
_read: Any = WeakIdKeyDictionary()


class PrivateCopies:
    """Copies indices, so that checked ones do not share memory with tensors that code can write to.

    They stay views of storages of the same sizes. A storage is copied once, however many tensors
    view it.
    """

    def __init__(self) -> None:
        # By address: the storage, which is kept alive by being held here, and its copy.
        self._storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def of(self, indices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return views like ``indices`` over copies of their storages."""
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
    """Record the originals of the indices of ``sparse``."""
    _read[sparse] = tuple(indices)


def as_read(sparse: torch.Tensor, indices: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Return the originals of ``indices``, to be written once; unless they now differ."""
    found = _read.get(sparse, ())
    same = len(found) == len(indices) and all(map(torch.equal, found, indices))
    return found if same else indices
