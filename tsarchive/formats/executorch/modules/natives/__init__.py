"""Operators of ExecuTorch programs implemented in Python; importing them registers them."""

from . import (
    quantized_arithmetic,
    quantized_decomposed,
    quantized_embedding,
    quantized_scales,
    scalars,
    slots,
)

__all__ = [
    "quantized_arithmetic",
    "quantized_decomposed",
    "quantized_embedding",
    "quantized_scales",
    "scalars",
    "slots",
]
