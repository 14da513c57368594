"""Sorting: the order that torch's std::sort leaves, ties and nans included."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from tsarchive.run.natives.bytestrings import encode
from tsarchive.run.natives.introsort import introsort
from tsarchive.run.natives.table import native

__all__: list[str] = []

Less = Callable[[Any, Any], bool]


def _sort_whole(values: list[Any], reverse: bool) -> None:
    """Ints and bools: what compares equal is equal, so any method gives the same list."""
    list.sort(values, reverse=reverse)


def _sort_strings(values: list[str], reverse: bool) -> None:
    list.sort(values, key=encode, reverse=reverse)


def _sort_floats(values: list[float], reverse: bool) -> None:
    """The order among nans and zeros of both signs depends on the method."""
    if any(map(_depends_on_method, values)):
        introsort(values, lambda a, b: a != b and (a < b) != reverse)
    else:
        list.sort(values, reverse=reverse)


def _depends_on_method(value: float) -> bool:
    return value != value or (value == 0 and math.copysign(1.0, value) < 0)


def _sort_tensors(values: list[torch.Tensor], reverse: bool) -> None:
    introsort(values, _tensor_order(reverse))


def _tensor_order(reverse: bool) -> Less:
    """In reverse, tensors that are equal count as ordered both ways, unless they are one."""

    def less(a: torch.Tensor, b: torch.Tensor) -> bool:
        return a is not b and bool(torch.lt(a, b)) != reverse

    return less


def _sort_any(values: list[Any], reverse: bool) -> None:
    introsort(values, _greater if reverse else _less)


def _less(a: Any, b: Any) -> bool:
    """Tuples by their first items that differ, tensors by ``lt``, objects by ``__lt__``."""
    if isinstance(a, tuple):
        return _less_items(a, b)
    if isinstance(a, str):
        return encode(a) < encode(b)
    return bool(a < b)


def _less_items(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    for x, y in zip(a, b, strict=True):
        if _less(x, y):
            return True
        if not bool(x == y):
            return False
    return False


def _greater(a: Any, b: Any) -> bool:
    return _less(b, a)


_SORTERS: dict[str, Callable[[list[Any], bool], None]] = {
    "int": _sort_whole,
    "bool": _sort_whole,
    "str": _sort_strings,
    "float": _sort_floats,
    "Tensor": _sort_tensors,
    "any": _sort_any,
}


def _sorted_copy(sort: Callable[[list[Any], bool], None], values: list[Any]) -> list[Any]:
    copy = list(values)
    sort(copy, False)
    return copy


for _type, _sorter in _SORTERS.items():
    native(f"aten::sort.{_type}")(_sorter)
    native(f"aten::sorted.{_type}")(functools.partial(_sorted_copy, _sorter))
