"""A module twice: as torch.jit and as tsarchive load it from the same bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch

from tests.support.archives import loaded, torch_loaded, torch_saved
from tests.support.comparing import equal


def both_of(module: Any) -> tuple[Any, Any]:
    """torch.jit's and ours."""
    data = torch_saved(module)
    return torch_loaded(data), loaded(data)


def called(module: Any, arguments: Iterable[Any], seed: int = 1) -> Any:
    """The result of a call with copies of ``arguments``."""
    torch.manual_seed(seed)
    return module(*copy.deepcopy(tuple(arguments)))


def same(one: Any, two: Any) -> bool:
    """Equal, or objects that look alike."""
    return equal(one, two) or repr(one) == repr(two)
