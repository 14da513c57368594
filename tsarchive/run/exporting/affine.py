"""Quantized tensors as plain ones, whose scale and zero point go along as an attribute.

Tracers know no quantized tensors. Here they are either their integers, on which the operators of
``quantized_decomposed`` work, or the floats that these stand for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import Tensor

_MARK: Final = "_tsarchive_affine"
_INTEGERS: Final = {
    torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Affine:
    """How integers stand for numbers: ``(integer - zero_point) * scale``.

    ``dtype`` is that of torch's quantized tensor. With an ``axis``, scales and zero points are
    tensors with an item for each index along it.
    """

    dtype: torch.dtype
    scale: Any
    zero_point: Any
    axis: int | None = None

    def __str__(self) -> str:
        along = "" if self.axis is None else f" along axis {self.axis}"
        return f"{self.dtype}: scale {self.scale}, zero point {self.zero_point}{along}"

    @classmethod
    def of(cls, tensor: Tensor) -> Affine:
        """The affine of a quantized tensor of torch."""
        if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            return cls(tensor.dtype, tensor.q_scale(), tensor.q_zero_point())
        scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
        return cls(tensor.dtype, scales.clone(), zeros.clone(), tensor.q_per_channel_axis())

    @classmethod
    def per_tensor(cls, dtype: torch.dtype, scale: Any, zero_point: Any) -> Affine:
        """An affine with one scale; numbers that a tracer does not know become tensors."""
        parts = (scale, zero_point)
        if not any(isinstance(part, (Tensor, torch.SymFloat, torch.SymInt)) for part in parts):
            return cls(dtype, *parts)
        kinds = (torch.float64, torch.int64)
        scale, zero_point = (
            part if isinstance(part, Tensor) else torch.scalar_tensor(part, dtype=kind)
            for part, kind in zip(parts, kinds, strict=True)
        )
        return cls(dtype, scale, zero_point)

    @property
    def integer(self) -> torch.dtype:
        """The dtype of the integers."""
        return _INTEGERS[self.dtype]

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest integer."""
        info = torch.iinfo(self.integer)
        return info.min, info.max


def marked(tensor: Tensor, affine: Affine) -> Tensor:
    """The tensor, known to stand for a quantized one."""
    setattr(tensor, _MARK, affine)
    return tensor


def affine_of(tensor: Any) -> Affine | None:
    """The affine of a tensor that stands for a quantized one; None for others."""
    found: Affine | None = getattr(tensor, _MARK, None)
    return found


class Form(Protocol):
    """What stands for quantized tensors: ``word`` says what, ``accuracy`` how results differ."""

    word: str
    accuracy: str

    def stored(self, tensor: Tensor) -> Tensor:
        """What stands for a quantized tensor of torch, without its mark."""

    def quantized(self, tensor: Tensor, affine: Affine) -> Tensor:
        """What stands for the floats of ``tensor`` where these are quantized."""

    def floats(self, tensor: Tensor) -> Tensor:
        """The floats that a marked tensor stands for."""

    def integers(self, tensor: Tensor) -> Tensor:
        """The integers of a marked tensor."""

    def observed(self, tensor: Tensor, most: int) -> Tensor:
        """Floats that were quantized by their own range, to integers from 0 to ``most``."""


def _operators() -> Any:
    """The operators of quantized_decomposed, which torch registers on import."""
    import torch.ao.quantization.fx._decomposed

    return torch.ops.quantized_decomposed


class Integers:
    """Quantized tensors as their integers."""

    word = "the integers"
    accuracy = (
        "each result can be one step of its scale from that of torch's kernel, and NaN becomes "
        "another integer"
    )

    def stored(self, tensor: Tensor) -> Tensor:
        return tensor.int_repr()

    def quantized(self, tensor: Tensor, affine: Affine) -> Tensor:
        given = (affine.scale, affine.zero_point)
        rest = (*affine.bounds, affine.integer)
        operators = _operators()
        if affine.axis is not None:
            made = operators.quantize_per_channel.default(tensor, *given, affine.axis, *rest)
        elif isinstance(affine.scale, Tensor):
            made = operators.quantize_per_tensor.tensor(tensor, *given, *rest)
        else:
            made = operators.quantize_per_tensor.default(tensor, *given, *rest)
        return marked(made, affine)

    def floats(self, tensor: Tensor) -> Tensor:
        affine = affine_of(tensor)
        assert affine is not None
        given = (affine.scale, affine.zero_point)
        rest = (*affine.bounds, affine.integer)
        operators = _operators()
        made: Tensor
        if affine.axis is not None:
            made = operators.dequantize_per_channel.default(tensor, *given, affine.axis, *rest)
        elif isinstance(affine.scale, Tensor):
            made = operators.dequantize_per_tensor.tensor(tensor, *given, *rest)
        else:
            made = operators.dequantize_per_tensor.default(tensor, *given, *rest)
        return made

    def integers(self, tensor: Tensor) -> Tensor:
        return tensor.clone()

    def observed(self, tensor: Tensor, most: int) -> Tensor:
        operators, least = _operators(), torch.finfo(torch.float32).eps
        chosen = operators.choose_qparams.tensor(tensor, 0, most, least, torch.uint8)
        rest = (0, most, torch.uint8)
        made = operators.quantize_per_tensor.tensor(tensor, *chosen, *rest)
        found: Tensor = operators.dequantize_per_tensor.tensor(made, *chosen, *rest)
        return found


class Floats:
    """Quantized tensors as the floats that they stand for; nothing is rounded any more."""

    word = "the floats"
    accuracy = "values between these operators are no longer rounded or limited"

    def stored(self, tensor: Tensor) -> Tensor:
        return tensor.dequantize()

    def quantized(self, tensor: Tensor, affine: Affine) -> Tensor:
        return marked(tensor.clone(), affine)

    def floats(self, tensor: Tensor) -> Tensor:
        return tensor.clone()

    def integers(self, tensor: Tensor) -> Tensor:
        affine = affine_of(tensor)
        assert affine is not None
        return Integers().quantized(tensor, affine).clone()

    def observed(self, tensor: Tensor, most: int) -> Tensor:
        return tensor


def moved_by(affine: Affine, number: float) -> Affine:
    """The affine that torch gives a sum of a quantized tensor and a number."""
    least, most = affine.bounds
    zero = affine.zero_point - round(number / affine.scale)
    if least <= zero <= most:
        return Affine(affine.dtype, affine.scale, zero)
    reach = most - zero if zero < least else zero - least
    wider = _as_float32(reach / (most - least)) * affine.scale
    return Affine(affine.dtype, wider, least if zero < least else most)


def stretched_by(affine: Affine, number: float) -> Affine:
    """The affine that torch gives a product of a quantized tensor and a number."""
    least, most = affine.bounds
    if number == 0:
        return Affine(affine.dtype, 1.0, 0)
    zero = affine.zero_point if number > 0 else most - (affine.zero_point - least)
    return Affine(affine.dtype, math.fabs(number) * affine.scale, zero)


def _as_float32(number: float) -> float:
    return torch.tensor(number, dtype=torch.float32).item()
