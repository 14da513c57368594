"""Equality of results: tensors to the bit, containers item by item, types included."""

from __future__ import annotations

import enum
from typing import Any

import torch


def equal(one: Any, two: Any) -> bool:
    match one, two:
        case torch.Tensor(), torch.Tensor():
            return equal_tensors(one, two)
        case (list(), list()) | (tuple(), tuple()):
            return len(one) == len(two) and all(map(equal, one, two))
        case dict(), dict():
            same_keys = len(one) == len(two) and all(map(equal, one, two))
            return same_keys and all(map(equal, one.values(), two.values()))
        case enum.Enum(), enum.Enum():
            return (one.name, one.value) == (two.name, two.value)
        case float(), float():
            return one == two or (one != one and two != two)
        case complex(), complex():
            return equal(one.real, two.real) and equal(one.imag, two.imag)
    return type(one) is type(two) and one == two


def equal_tensors(one: torch.Tensor, two: torch.Tensor) -> bool:
    if (one.dtype, one.shape, one.layout) != (two.dtype, two.shape, two.layout):
        return False
    if one.is_quantized:
        return torch.equal(one.int_repr(), two.int_repr()) and one.qscheme() == two.qscheme()
    if one.layout != torch.strided:
        one, two = one.to_dense(), two.to_dense()
    if one.is_complex():
        one, two = torch.view_as_real(one.resolve_conj()), torch.view_as_real(two.resolve_conj())
    return torch.equal(one, two) or bool(torch.all((one == two) | ((one != one) & (two != two))))
