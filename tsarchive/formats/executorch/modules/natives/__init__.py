"""Operators of ExecuTorch programs implemented in Python; importing them registers them."""

from . import prim, quantized

__all__ = ["prim", "quantized"]
