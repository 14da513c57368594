"""Operators of ExecuTorch programs that run as Python functions; importing them enters them."""

from tsarchive.pte.natives import quantized_decomposed, scalars, slots

__all__ = ["quantized_decomposed", "scalars", "slots"]
