"""Are two outputs equal to the bit, and if not, how far apart are they?"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Comparison:
    """``max_difference`` is the largest absolute difference of two numbers at the same place;
    None when the outputs do not have the same structure, types and shapes."""

    equal: bool
    max_difference: float | None


_EQUAL = Comparison(True, 0.0)
_DIFFERENT = Comparison(False, None)


def compare(first: Any, second: Any) -> Comparison:
    """Compare plain values (see ``values.plain``) bit for bit; NaN equals the same NaN."""
    if type(first) is not type(second):
        return _DIFFERENT
    if isinstance(first, torch.Tensor):
        return _compare_tensors(first, second)
    if isinstance(first, (tuple, list)):
        return _compare_items(list(first), list(second))
    if isinstance(first, dict):
        keys, items = _compare_items(list(first), list(second)), list(first.values())
        return _merged([keys, _compare_items(items, list(second.values()))])
    if isinstance(first, (float, complex)):
        return _compare_numbers(first, second)
    return _EQUAL if first == second else _DIFFERENT


def _compare_items(first: list[Any], second: list[Any]) -> Comparison:
    if len(first) != len(second):
        return _DIFFERENT
    return _merged([compare(left, right) for left, right in zip(first, second, strict=True)])


def _merged(parts: list[Comparison]) -> Comparison:
    known = [part.max_difference for part in parts if part.max_difference is not None]
    worst = max(known, default=0.0) if len(known) == len(parts) else None
    return Comparison(all(part.equal for part in parts), worst)


def _compare_numbers(first: complex, second: complex) -> Comparison:
    if _bits(first) == _bits(second):
        return _EQUAL
    return Comparison(False, abs(first - second))


def _bits(number: complex) -> bytes:
    return struct.pack("<2d", number.real, number.imag)


def _compare_tensors(first: torch.Tensor, second: torch.Tensor) -> Comparison:
    if (first.dtype, first.shape, first.layout) != (second.dtype, second.shape, second.layout):
        return _DIFFERENT
    left, right = _dense(first), _dense(second)
    if torch.equal(left.view(torch.uint8), right.view(torch.uint8)):
        return _EQUAL
    wide = torch.complex128 if left.is_complex() else torch.float64
    apart = (left.to(wide) - right.to(wide)).abs()
    # Infinities and NaN that both have are no difference, and their difference is NaN.
    both = (left == right) | ((left != left) & (right != right))
    return Comparison(False, apart.masked_fill(both, 0.0).max().item())


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in order, as a vector of whole bytes each."""
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.resolve_conj().resolve_neg().reshape(-1).contiguous()
