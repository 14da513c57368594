"""A module twice: as torch.jit and as tsarchive load it from the same bytes."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable
from typing import Any

import torch
from comparing import equal
from conftest import torch_loaded, torch_saved

import tsarchive


def loaded(data: bytes) -> Any:
    return tsarchive.load(io.BytesIO(data))


def saved(module: Any) -> bytes:
    buffer = io.BytesIO()
    tsarchive.save(module, buffer)
    return buffer.getvalue()


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
