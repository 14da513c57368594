"""Functions that TorchScript defines in its own language beside the operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from tsarchive.run.natives.strings import encode
from tsarchive.run.natives.table import Native, assertion_fault
from tsarchive.run.natives.tensors import attribute, size
from tsarchive.run.natives.values import identity


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[complex, Tensor], Tensor]:
    return lambda a, b: function(b, a)


# Operators of a number and a tensor, by what they do to the tensor and the number.
_NUMBER_WITH_TENSOR: dict[str, Callable[[complex, Tensor], Tensor]] = {
    "mul": _swapped(torch.mul),
    "add": _swapped(torch.add),
    "ne": _swapped(torch.ne),
    "eq": _swapped(torch.eq),
    "sub": lambda a, b: torch.add(torch.neg(b), a),
    "div": lambda a, b: torch.mul(torch.reciprocal(b), a),
}
_ORDERED_NUMBER_WITH_TENSOR: dict[str, Callable[[complex, Tensor], Tensor]] = {
    "lt": _swapped(torch.gt),
    "le": _swapped(torch.ge),
    "gt": _swapped(torch.lt),
    "ge": _swapped(torch.le),
}


def _first_list(out_size: list[int], defaults: list[int]) -> list[int]:
    if len(defaults) <= len(out_size):
        raise assertion_fault("")
    return out_size


def _assert_condition(condition: bool | Tensor, message: str) -> None:
    if not bool(condition):
        raise assertion_fault(message)


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
    "aten::_assert_int_or_pair.builtin": lambda *_: None,  # checks nothing
    "aten::list_with_default.builtin": _first_list,
    "aten::_assert.builtin_bool": _assert_condition,
    "aten::_assert.builtin_Tensor": _assert_condition,
    "aten::device.builtin": torch.device,
    "aten::type.builtin": lambda *arguments: torch.ops.aten.to.dtype(*arguments),
    "aten::__contains__.builtin_str": lambda string, key: encode(key) in encode(string),
    "prim::ndim.builtin": Tensor.dim,
    "prim::shape.builtin": size,
}
"""The function for each schema of ``tsarchive/operators/overloads.py``, by its full name."""
