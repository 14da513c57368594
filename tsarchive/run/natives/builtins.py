"""Functions that TorchScript defines in its own language beside the operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from tsarchive.run.natives.strings import encode, find
from tsarchive.run.natives.table import assertion_fault
from tsarchive.run.natives.tensors import attribute, device, size
from tsarchive.run.natives.values import identity

Native = Callable[..., Any]


def _subtract(a: complex, b: Tensor) -> Tensor:
    return torch.add(torch.neg(b), a)


def _divide(a: complex, b: Tensor) -> Tensor:
    return torch.mul(torch.reciprocal(b), a)


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[complex, Tensor], Tensor]:
    def call(a: complex, b: Tensor) -> Tensor:
        result: Tensor = function(b, a)
        return result

    return call


# Operators of a number and a tensor, by what they do to the tensor and the number.
_NUMBER_WITH_TENSOR: dict[str, Callable[[complex, Tensor], Tensor]] = {
    "mul": _swapped(torch.mul),
    "add": _swapped(torch.add),
    "ne": _swapped(torch.ne),
    "eq": _swapped(torch.eq),
    "sub": _subtract,
    "div": _divide,
}
_ORDERED_NUMBER_WITH_TENSOR: dict[str, Callable[[complex, Tensor], Tensor]] = {
    "lt": _swapped(torch.gt),
    "le": _swapped(torch.ge),
    "gt": _swapped(torch.lt),
    "ge": _swapped(torch.le),
}


def _ignore(*_: Any) -> None:
    """Check nothing."""


def _first_list(out_size: list[int], defaults: list[int]) -> list[int]:
    if len(defaults) <= len(out_size):
        raise assertion_fault("")
    return out_size


def _assert_condition(condition: bool | Tensor, message: str) -> None:
    if not bool(condition):
        raise assertion_fault(message)


def _to_dtype(tensor: Tensor, dtype: int, non_blocking: bool, copy: bool) -> Tensor:
    result: Tensor = torch.ops.aten.to.dtype(tensor, dtype, non_blocking, copy)
    return result


def _contains(string: str, key: str) -> bool:
    return find(encode(string), encode(key), 0, len(encode(string))) >= 0


def _rows() -> Iterator[tuple[str, Native]]:
    for kind in ("float", "int", "complex"):
        ordered = {} if kind == "complex" else _ORDERED_NUMBER_WITH_TENSOR
        for name, function in (_NUMBER_WITH_TENSOR | ordered).items():
            yield f"aten::{name}.builtin_{kind}_Tensor", function
    for kind in ("float", "int"):
        # A number where a list of fixed length is expected is repeated before the call.
        for name in ("_single", "_pair", "_triple", "_quadruple"):
            yield f"aten::{name}.builtin_{kind}", identity
    for name in ("T", "H", "mT", "mH"):
        yield f"prim::{name}.builtin", attribute(name)


BUILTINS: Mapping[str, Native] = {
    **dict(_rows()),
    "aten::floordiv.builtin_Scalar": torch.floor_divide,
    "aten::floordiv.builtin_Tensor": torch.floor_divide,
    "aten::_assert_int_or_pair.builtin": _ignore,
    "aten::list_with_default.builtin": _first_list,
    "aten::_assert.builtin_bool": _assert_condition,
    "aten::_assert.builtin_Tensor": _assert_condition,
    "aten::device.builtin": device,
    "aten::type.builtin": _to_dtype,
    "aten::__contains__.builtin_str": _contains,
    "prim::ndim.builtin": Tensor.dim,
    "prim::shape.builtin": size,
}
"""The function for each schema of ``tsarchive/operators/overloads.py``, by its full name."""
