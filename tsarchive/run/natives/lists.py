"""Operators on lists. Lists are shared by reference; those ending in ``_`` change in place."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.bounds import check_items
from tsarchive.run.natives.faults import index_fault, value_fault, wrong_kind
from tsarchive.run.natives.formatting import format_value
from tsarchive.run.natives.narrowing import wrap32
from tsarchive.run.natives.slices import python_slice
from tsarchive.run.natives.table import native

__all__: list[str] = []

T = TypeVar("T")


def _check_list(values: list[Any]) -> None:
    if not isinstance(values, list):
        raise wrong_kind(values, list)


native("aten::len.t", "aten::len.any")(len)
native("aten::list.t", "aten::copy.t")(list)
native("aten::reverse.t")(list.reverse)
native("aten::clear.t")(list.clear)
native("aten::insert.t")(list.insert)


@native("aten::select.t", "aten::__getitem__.t")
def item(values: list[T], index: int) -> T:
    try:
        return values[index]
    except IndexError:
        raise index_fault("list index out of range") from None


@native("aten::_set_item.t")
def set_item(values: list[T], index: int, value: T) -> list[T]:
    try:
        values[index] = value
    except IndexError:
        raise index_fault("list index out of range") from None
    return values


@native("aten::add.t")
def concatenate(a: list[T], b: list[T]) -> list[T]:
    check_items(len(a) + len(b))
    return a + b


@native("aten::extend.t")
def extend(values: list[T], others: list[T]) -> None:
    _check_list(values)
    check_items(len(values) + len(others))
    values.extend(others)


@native("aten::append.t")
def append(values: list[T], value: T) -> list[T]:
    if not isinstance(values, list):
        raise wrong_kind(values, list)
    values.append(value)
    return values


@native("aten::pop.t")
def pop(values: list[T], index: int) -> T:
    _check_list(values)
    if not values:
        raise index_fault("pop from empty list")
    try:
        return values.pop(index)
    except IndexError:
        raise index_fault("list index out of range") from None


@native("aten::Delete.t")
def delete(values: list[T], index: int) -> None:
    _check_list(values)
    if not values:
        raise index_fault("pop index out of range")
    pop(values, index)


@native("aten::slice.t")
def slice_list(values: list[T], start: int | None, end: int | None, step: int) -> list[T]:
    _check_list(values)
    return values[python_slice(start, end, step)]


@native("aten::add_.t")
def extend_in_place(values: list[T], others: list[T]) -> list[T]:
    extend(values, others)
    return values


@native("aten::mul.left_t")
def repeat(values: list[T], n: int) -> list[T]:
    if n < 0 and values:
        raise value_fault("vector::reserve")
    check_items(len(values) * n)
    return values * n


@native("aten::mul.right_")
def repeat_from_right(n: int, values: list[T]) -> list[T]:
    return repeat(values, n)


@native("aten::mul_.t")
def repeat_in_place(values: list[T], n: int) -> list[T]:
    check_items(len(values) * n)
    values *= n
    return values


def _check_tensor(value: torch.Tensor) -> None:
    if not isinstance(value, torch.Tensor):
        raise wrong_kind(value, torch.Tensor)


def _position(values: list[Any], value: Any) -> int:
    """Where the first equal item is, or -1; unlike Python, nan is not equal to itself."""
    _check_list(values)
    if value != value:
        return -1
    try:
        return values.index(value)
    except ValueError:
        return -1


def _position_of_tensor(values: list[Any], value: Any) -> int:
    _check_tensor(value)
    return next((i for i, item in enumerate(values) if bool(value.eq(item))), -1)


def _count(values: list[Any], value: Any) -> int:
    _check_list(values)
    return values.count(value) if value == value else 0


def _count_tensor(values: list[Any], value: Any) -> int:
    _check_tensor(value)
    return sum(bool(value.eq(item)) for item in values)


def _equal(a: list[Any], b: list[Any]) -> bool:
    """Item by item, where Python would take one nan object for equal."""
    return len(a) == len(b) and all(map(operator.eq, a, b))


def _equal_floats(a: list[float], b: list[float]) -> bool:
    """One list equals itself, whatever it holds."""
    return a is b or _equal(a, b)


def _equal_tensors(a: list[Any], b: list[Any]) -> bool:
    for x in a:
        _check_tensor(x)
    return len(a) == len(b) and all(bool(x.eq(y)) for x, y in zip(a, b, strict=True))


def _enter_searches(kind: str, position: Callable[[list[Any], Any], int]) -> None:
    @native(f"aten::index.list_{kind}")
    def index(values: list[Any], value: Any) -> int:
        found = position(values, value)
        if found < 0:
            shown = int(value) if isinstance(value, bool) else value
            raise value_fault(f"'{_streamed(shown)}' is not in list")
        return found

    @native(f"aten::remove.{kind}")
    def remove(values: list[Any], value: Any) -> None:
        found = position(values, value)
        if found < 0:
            raise value_fault("list.remove(x): x not in list")
        del values[found]


def _streamed(value: Any) -> str:
    """A float in a message has six digits, other values the text of ``str()``."""
    return f"{value:g}" if isinstance(value, float) else format_value(value)


def _enter_equality(kind: str, equal: Callable[[list[Any], list[Any]], bool]) -> None:
    native(f"aten::eq.{kind}_list")(equal)
    native(f"aten::ne.{kind}_list")(lambda a, b: not equal(a, b))


for _kind in ("int", "float", "bool", "str"):
    _enter_searches(_kind, _position)
    _enter_equality(_kind, _equal_floats if _kind == "float" else _equal)
    native(f"aten::count.{_kind}")(_count)

_enter_searches("Tensor", _position_of_tensor)
_enter_equality("Tensor", _equal_tensors)
native("aten::count.Tensor")(_count_tensor)

for _kind in ("int", "float", "str"):
    native(f"aten::__contains__.{_kind}_list")(lambda values, value: _position(values, value) >= 0)

for _kind in ("int", "float", "bool"):
    native(f"aten::all.{_kind}")(all)
for _kind in ("int", "float", "bool", "str"):
    native(f"aten::any.{_kind}")(any)


@native("aten::sum.int", "aten::sum.bool")
def total_of_ints(values: list[int]) -> int:
    """In 32 bits, as torch adds them up."""
    return wrap32(sum(values))


@native("aten::sum.float")
def total_of_floats(values: list[float]) -> float:
    """One addition after the other: Python's sum is more exact from 3.12 on."""
    total = 0.0
    for value in values:
        total += value
    return total


@native("aten::sum.complex")
def total_of_complex(values: list[complex]) -> complex:
    total = 0j
    for value in values:
        total += value
    return total


def _enter_extremes(
    name: str, of_two: Callable[[Any, Any], bool], of_one: Callable[..., T]
) -> None:
    """min or max of one list, and of two lists, which are compared item by item."""

    def of_list(values: list[Any]) -> Any:
        if not values:
            raise ScriptError(f"{name}() arg is an empty sequence")
        return of_one(values)

    def of_lists(a: list[T], b: list[T]) -> list[T]:
        for x, y in zip(a, b, strict=False):
            if x != y:
                return a if of_two(x, y) else b
        return a if of_two(len(a), len(b)) else b

    for kind in ("int", "float", "bool"):
        native(f"prim::{name}.self_{kind}")(of_list)
        native(f"prim::{name}.{kind}_list")(of_lists)


_enter_extremes("min", operator.lt, min)
_enter_extremes("max", operator.gt, max)


@native("aten::_size_if_not_equal")
def size_if_not_equal(size: list[int], other: list[int]) -> list[int] | None:
    return None if size == other else size
