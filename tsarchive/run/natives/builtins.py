"""Functions that TorchScript defines in its own language beside the operators.

In a call by name they are candidates behind all operators of that name. The overload names are
this table's own; torch gives the functions none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tsarchive.run.natives.bytestrings import encode
from tsarchive.run.natives.faults import assertion_fault
from tsarchive.run.natives.searching import find
from tsarchive.run.natives.tensor_properties import attribute, device, size
from tsarchive.run.natives.values import identity

__all__ = ["BUILTIN_SCHEMAS"]

Row = tuple[str, Callable[..., Any]]


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


def _number_rows(kind: str, functions: dict[str, Callable[[complex, Tensor], Tensor]]) -> list[Row]:
    return [
        (f"aten::{name}.builtin_{kind}_Tensor({kind} a, Tensor b) -> Tensor", function)
        for name, function in functions.items()
    ]


def _tuple_rows(kind: str) -> list[Row]:
    """A number where a list of fixed length is expected is repeated before the call."""
    names = ("_single", "_pair", "_triple", "_quadruple")
    return [
        (f"aten::{name}.builtin_{kind}({kind}[{length}] x) -> {kind}[]", identity)
        for length, name in enumerate(names, start=1)
    ]


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


_TENSOR_PROPERTIES: tuple[Row, ...] = (
    ("prim::ndim.builtin(Tensor a) -> int", Tensor.dim),
    ("prim::shape.builtin(Tensor a) -> int[]", size),
    *(
        (f"prim::{name}.builtin(Tensor a) -> Tensor", attribute(name))
        for name in ("T", "H", "mT", "mH")
    ),
)

BUILTIN_SCHEMAS: tuple[Row, ...] = (
    *_number_rows("float", _NUMBER_WITH_TENSOR | _ORDERED_NUMBER_WITH_TENSOR),
    *_number_rows("int", _NUMBER_WITH_TENSOR | _ORDERED_NUMBER_WITH_TENSOR),
    *_number_rows("complex", _NUMBER_WITH_TENSOR),
    *_tuple_rows("float"),
    *_tuple_rows("int"),
    ("aten::floordiv.builtin_Scalar(Tensor self, Scalar other) -> Tensor", torch.floor_divide),
    ("aten::floordiv.builtin_Tensor(Tensor self, Tensor other) -> Tensor", torch.floor_divide),
    ("aten::_assert_int_or_pair.builtin(int[] vals, str name, str message) -> ()", _ignore),
    ("aten::list_with_default.builtin(int[] out_size, int[] defaults) -> int[]", _first_list),
    ("aten::_assert.builtin_bool(bool condition, str message) -> ()", _assert_condition),
    ("aten::_assert.builtin_Tensor(Tensor condition, str message) -> ()", _assert_condition),
    ("aten::device.builtin(str type) -> Device", device),
    (
        "aten::type.builtin(Tensor self, int dtype, bool non_blocking=False, bool copy=False)"
        " -> Tensor",
        _to_dtype,
    ),
    ("aten::__contains__.builtin_str(str self, str key) -> bool", _contains),
    *_TENSOR_PROPERTIES,
)
"""Schema text in torch's grammar, and the function. The order is that of the candidates."""
