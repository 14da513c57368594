"""Operators that take any number of tensors, or tensors among other values."""

from __future__ import annotations

from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.table import native

__all__: list[str] = []


@native("aten::dequantize.any")
def dequantize(values: Any) -> Any:
    """The list or tuple with its tensors dequantized; other items of a tuple stay."""
    if isinstance(values, tuple):
        return tuple(
            torch.dequantize(item) if isinstance(item, torch.Tensor) else item for item in values
        )
    return [torch.dequantize(item) for item in values]


@native("aten::einsum.sublist")
def einsum(*arguments: Any) -> torch.Tensor:
    """einsum with subscripts as lists of numbers, one behind each operand.

    An odd number of arguments ends with the subscripts of the result.
    """
    operands, subscripts = list(arguments[:-1:2]), [_letters(s) for s in arguments[1::2]]
    result = f"->{_letters(arguments[-1])}" if len(arguments) % 2 else ""
    tensor: torch.Tensor = torch.ops.aten.einsum.default(",".join(subscripts) + result, operands)
    return tensor


def _letters(subscripts: list[int]) -> str:
    """The letters that stand for subscripts 0 to 51: A to Z, then a to z."""
    if not all(0 <= number < 52 for number in subscripts):
        raise ScriptError(
            f"einsum(): expected subscripts to be within the range [0, 52), but got {subscripts}"
        )
    return "".join(chr(65 + n) if n < 26 else chr(71 + n) for n in subscripts)


@native("prim::VarConcat")
def concatenate(*arguments: Any) -> torch.Tensor:
    *tensors, dim = arguments
    return torch.cat(tensors, dim)


@native("prim::VarStack")
def stack(*arguments: Any) -> torch.Tensor:
    *tensors, dim = arguments
    return torch.stack(tensors, dim)
