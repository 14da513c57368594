"""``with torch.autocast(...)`` in archive code: torch.jit knows the class by its name.

The class's own ``__enter__`` and ``__exit__`` do nothing in TorchScript; a pass of torch.jit
inserts the casts. Here the dispatcher makes them, as it does in eager code.
"""

from __future__ import annotations

from typing import Any

import torch

from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import Type

from .natives.dtypes import to_dtype
from .slots import get_slot
from .typecheck import type_of_class

_CLASSES = frozenset(
    f"__torch__.torch.{part}amp.autocast_mode.autocast" for part in ("", "cpu.", "cuda.")
)
_DEVICE, _DTYPE, _ENABLED = "device", "fast_dtype", "_enabled"


def is_autocast(type_: Type) -> bool:
    """Whether objects of this type switch casts on and off; copies of the class do not."""
    return (
        isinstance(type_, ClassType)
        and type_.qualified_name in _CLASSES
        and {_DEVICE, _DTYPE, _ENABLED} <= type_.attributes.keys()
    )


def autocast(manager: Any) -> torch.autocast:
    """The context that ``manager``, an object of such a class, stands for."""
    type_ = type_of_class(type(manager))
    assert isinstance(type_, ClassType)
    device, dtype, enabled = (
        get_slot(manager, type_.attributes[name]) for name in (_DEVICE, _DTYPE, _ENABLED)
    )
    # Without CUDA there is nothing that casts for it could change; torch would warn each time.
    is_usable = device != "cuda" or torch.cuda.is_available()
    return torch.autocast(device, dtype=to_dtype(dtype), enabled=enabled and is_usable)
