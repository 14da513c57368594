"""Operators of ExecuTorch programs that run as Python functions; importing them enters them."""

from tsarchive.pte.natives import (
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
