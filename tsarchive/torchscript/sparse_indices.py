"""Indices of loaded sparse tensors: copies that code cannot reach, and what they are copies of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

# By sparse tensor: its indices as they were read. Only saving looks here.
_read: Any = WeakIdKeyDictionary()


def private_copies(indices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Indices that are checked must not be those of a tensor that code can write to.

    They stay the views that they are, of storages of the same sizes.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    copies = []
    for tensor in indices:
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = storage.clone()  # type: ignore[no-untyped-call]
        copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        place = (tensor.storage_offset(), tensor.size(), tensor.stride())
        copies.append(copy.set_(storages[storage._cdata], *place))
    return copies


def remember(sparse: torch.Tensor, indices: Sequence[torch.Tensor]) -> None:
    """Tell what the indices of ``sparse`` are copies of."""
    _read[sparse] = tuple(indices)


def as_read(sparse: torch.Tensor, indices: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """What ``indices`` are copies of, so that it is written once; unless they differ by now."""
    found = _read.get(sparse, ())
    same = len(found) == len(indices) and all(map(torch.equal, found, indices))
    return found if same else indices
