"""Deep copies of modules and objects whose tensors stay what they are.

Tensors copy themselves, with exceptions: parameters leave a storage that they share, conjugated
and negated views become plain, and some sparse layouts cannot be copied. Those are copied here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["deep_copy"]


def deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy of an object that is its attributes."""
    made = value.__class__.__new__(value.__class__)
    memo[id(value)] = made
    for tensor in _tensors(vars(value)):
        if id(tensor) not in memo and _needs_care(tensor):
            memo[id(tensor)] = _copied(tensor, memo)
    vars(made).update(copy.deepcopy(vars(value), memo))
    return made


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _needs_care(tensor: torch.Tensor) -> bool:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.is_leaf:
        return False
    if tensor.is_meta or tensor.is_quantized:
        return False
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return is_parameter or tensor.is_conj() or tensor.is_neg() or tensor.layout != torch.strided


@torch.no_grad()
def _copied(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    if tensor.layout != torch.strided or not torch._C._has_storage(tensor):
        made = tensor.detach().clone()
    else:
        storage = copy.deepcopy(tensor.untyped_storage(), memo)
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        torch._C._set_conj(made, tensor.is_conj())
        torch._C._set_neg(made, tensor.is_neg())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)
