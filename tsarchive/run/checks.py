"""Helpers that checks of arguments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError

_FORMATS: Final = {4: torch.channels_last, 5: torch.channels_last_3d}

Given = Mapping[str, Any]
"""The arguments of a call by the names of the schema, defaults filled in."""

Check = Callable[[Given], None]


def require(condition: bool, message: str) -> None:
    """ScriptError with the message unless the condition holds."""
    if not condition:
        raise ScriptError(message)


def is_within(values: Tensor, low: int, below: int | None) -> bool:
    """Whether all values are at least ``low``, and below ``below`` where that is given."""
    if not values.numel():
        return True
    return int(values.min()) >= low and (below is None or int(values.max()) < below)


def plain(value: Any) -> Any:
    """Tensors, alone or in lists, in memory without gaps and of one place for each element."""
    if isinstance(value, Tensor) and value.layout is torch.strided:
        return value if _is_plain(value) else value.contiguous()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _is_plain(tensor: Tensor) -> bool:
    like = _FORMATS.get(tensor.dim())
    return tensor.is_contiguous() or (like is not None and tensor.is_contiguous(memory_format=like))


def room_of(tensor: Tensor) -> int:
    """How many elements the whole storage of a tensor has room for."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()
