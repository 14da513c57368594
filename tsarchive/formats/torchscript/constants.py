"""The archive-wide constant table behind ``CONSTANTS.cN`` and constants.pkl."""

from __future__ import annotations

from typing import Any

import torch

from tsarchive.ir.types import Type
from tsarchive.ir.values import TableConstant, TypedValue


class Constants:
    """Collects constants in printing order; equal tensors share one entry."""

    def __init__(self) -> None:
        self.entries: list[TypedValue] = []
        self._tensors: dict[object, list[int]] = {}

    def index(self, value: Any, type_: Type) -> int:
        if not (isinstance(value, TableConstant) and isinstance(value.value, torch.Tensor)):
            return self._append(value, type_)
        tensor = value.value
        if tensor.requires_grad:
            # The code asks for gradients of what it reads from the table.
            tensor, value = tensor.detach(), TableConstant(tensor.detach())
        kind = (tensor.dtype, tensor.device.type, tensor.layout, tuple(tensor.shape))
        alike = self._tensors.setdefault(kind, [])
        for position in alike:
            if torch.equal(self.entries[position].value.value, tensor):
                return position
        alike.append(len(self.entries))
        return self._append(value, type_)

    def _append(self, value: Any, type_: Type) -> int:
        self.entries.append(TypedValue(value, type_))
        return len(self.entries) - 1
