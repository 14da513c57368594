"""Sizes in tensors, while torch.export traces.

Code of torch.jit.trace computes with sizes as tensors without dimensions, and takes the numbers
out again. A tracer does not know what its tensors hold, so here the number goes along with the
tensor as an attribute, and is taken where code asks for it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

from tsarchive.run.natives.delegation import overload
from tsarchive.run.natives.dtypes import to_dtype
from tsarchive.run.natives.table import Native

_HELD: Final = "_tsarchive_number"


def holding(tensor: torch.Tensor, number: Any) -> torch.Tensor:
    """``tensor``, known to hold ``number`` until it is written to."""
    setattr(tensor, _HELD, (number, _version(tensor)))
    return tensor


def held_number(tensor: torch.Tensor) -> Any:
    """The number that a tensor is known to hold; None where nothing is known."""
    number, version = getattr(tensor, _HELD, (None, None))
    return number if number is not None and version == _version(tensor) else None


def _version(tensor: torch.Tensor) -> int:
    """How often the tensor was written to; torch.compile could not compare that."""
    return 0 if torch.compiler.is_dynamo_compiling() else tensor._version


def _add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return a + b * alpha


def _subtract(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return a - b * alpha


def _divide(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return a / b
    is_exact = rounding_mode == "floor" or (a < 0) == (b < 0)
    return a // b if is_exact else -(abs(a) // abs(b))


def _floor(a: Any) -> Any:
    as_float: Any = torch.sym_float
    return as_float(math.floor(a))


def _to_dtype(a: Any, dtype: int, *_: Any, **__: Any) -> Any:
    kind = to_dtype(dtype)
    is_float = kind is not None and kind.is_floating_point
    convert: Any = torch.sym_float if is_float else torch.sym_int
    return convert(a)


_BINARY: Final[dict[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "aten::add": (_add, ("Tensor", "Scalar")),
    "aten::sub": (_subtract, ("Tensor", "Scalar")),
    "aten::mul": (operator.mul, ("Tensor", "Scalar")),
    "aten::div": (_divide, ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode")),
    "aten::floor_divide": (operator.floordiv, ("", "Scalar")),
    "aten::remainder": (operator.mod, ("Tensor", "Scalar")),
}
_UNARY: Final[dict[str, Callable[..., Any]]] = {
    "aten::neg": operator.neg,
    "aten::floor": _floor,
    "aten::detach": lambda a: a,
    "aten::clone": lambda a, **_: a,
    "aten::to.dtype": _to_dtype,
}


def _following(key: str, operation: Callable[..., Any]) -> Native:
    """The operator ``key``, which does to known numbers what it does to tensors."""
    run = overload(key)

    def call(*arguments: Any, **keywords: Any) -> Any:
        result = run(*arguments, **keywords)
        numbers = [
            held_number(argument) if isinstance(argument, torch.Tensor) else argument
            for argument in arguments
        ]
        if isinstance(result, torch.Tensor) and None not in numbers[:2]:
            holding(result, operation(*numbers, **keywords))
        return result

    return call


def _forgetting(key: str) -> Native:
    """The operator ``key``, which writes to its first argument."""
    run = overload(key)

    def call(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        result = run(tensor, *arguments, **keywords)
        if held_number(tensor) is not None:
            holding(tensor, None)
        return result

    return call


_WRITING: Final = tuple(
    f"aten::{name}_.{kind}"
    for name in ("add", "sub", "mul", "div", "floor_divide", "remainder", "fill")
    for kind in ("Tensor", "Scalar")
)

SIZE_ARITHMETIC: Final[Mapping[str, Native]] = MappingProxyType(
    {
        key: _following(key, operation)
        for key, operation in (
            *_UNARY.items(),
            *(
                (f"{name}.{kind}".rstrip("."), operation)
                for name, (operation, kinds) in _BINARY.items()
                for kind in kinds
            ),
        )
    }
    | {key: _forgetting(key) for key in (*_WRITING, "aten::copy_", "aten::zero_")}
)
"""Operators of torch that follow numbers, by key, for code that is traced."""
