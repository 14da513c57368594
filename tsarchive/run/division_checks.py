"""Checks of integers whose division would end the process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from .checks import Check, Given, require

_DIVIDED: Final = (torch.int32, torch.int64)  # as such; smaller integers are divided as int
# An operation that ends the process cannot be tried, so the version decides.
_FLOORING_TRAPS: Final[bool] = torch.__version__ < "2.10"


def check_rounding(given: Given) -> None:
    _whole_quotient(given)
    if given["rounding_mode"] == "trunc" or (_FLOORING_TRAPS and given["rounding_mode"] == "floor"):
        _no_overflow(given)


def _no_overflow(given: Given) -> None:
    """The least integer divided by -1 ends the process, in the dtype that both are converted to.

    Overloads for numbers call theirs otherwise, and are Python's.
    """
    if "self" not in given:
        return
    dtype = torch.result_type(given["self"], given["other"])
    if dtype not in _DIVIDED:
        return
    one, two = _converted(given["self"], dtype), _converted(given["other"], dtype)
    if _has_least(one):
        is_fault = (_elements(one) == torch.iinfo(dtype).min) & (two == -1)
        require(not bool(is_fault.any()), "the least integer cannot be divided by -1")


def _floor_divide_in_place(given: Given) -> None:
    _whole_quotient(given)
    if _FLOORING_TRAPS:
        _no_overflow(given)


def _whole_quotient(given: Given) -> None:
    """torch adds up equal indices of a sparse tensor in place, beneath others that share them."""
    one: Tensor = given["self"]
    is_sound = one.layout is not torch.sparse_coo or one.is_coalesced()
    if given.get("rounding_mode", "floor") is not None:
        require(is_sound, "a sparse tensor is coalesced before it is divided with rounding")


def _converted(value: Any, dtype: torch.dtype) -> Tensor:
    """A tensor or a number as kernels get it: in the bits of ``dtype``, however many it had."""
    return (value if isinstance(value, Tensor) else torch.tensor(int(value))).to(dtype)


def _multiples(given: Given) -> None:
    """Kernels divide by what they take for the greatest common divisor, which may be -1."""
    dtype = torch.result_type(given["self"], given["other"])
    one, two = given["self"].to(dtype), given["other"].to(dtype)
    if _has_least(one):
        is_fault = (one == torch.iinfo(dtype).min) & (torch.gcd(one, two) == -1)
        require(not bool(is_fault.any()), "the least integer has no least common multiple here")


def _has_least(tensor: Tensor) -> bool:
    if tensor.dtype not in _DIVIDED or tensor.is_meta:
        return False
    return bool((_elements(tensor) == torch.iinfo(tensor.dtype).min).any())


def _elements(tensor: Tensor) -> Tensor:
    """The elements that a tensor has in memory."""
    if tensor.layout is torch.strided:
        return tensor
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


_FLOORING: Final = ("floor_divide", "fmod", "fmod_", "remainder", "remainder_")
DIVISION_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "aten::floor_divide_": _floor_divide_in_place,
        "aten::lcm": _multiples,
        "aten::lcm_": _multiples,
        **{f"aten::{name}": _no_overflow for name in _FLOORING if _FLOORING_TRAPS},
    }
)
