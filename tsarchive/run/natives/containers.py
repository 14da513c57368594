"""Operators on lists and dicts, shared by reference; those ending in ``_`` change in place.

Sorting leaves the order of torch's std::sort, ties and nans included: the sort of GNU's C++
library is not stable, equal items end where its steps put them.

Dicts keep the order of insertion, and tensor keys count by identity. A key that is nan equals no
key, not even itself: it is never found, and each one that is set makes an item of its own.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import python_slice, wrap32
from tsarchive.run.natives.formatting import format_value
from tsarchive.run.natives.strings import encode
from tsarchive.run.natives.table import Native, check_items, check_kind, fault, native, wrong_kind

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


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
        raise fault(IndexError, "list index out of range") from None


@native("aten::_set_item.t")
def set_item(values: list[T], index: int, value: T) -> list[T]:
    try:
        values[index] = value
    except IndexError:
        raise fault(IndexError, "list index out of range") from None
    return values


@native("aten::add.t")
def concatenate(a: list[T], b: list[T]) -> list[T]:
    check_items(len(a) + len(b))
    return a + b


@native("aten::extend.t")
def extend(values: list[T], others: list[T]) -> None:
    check_kind(values, list)
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
    check_kind(values, list)
    if not values:
        raise fault(IndexError, "pop from empty list")
    try:
        return values.pop(index)
    except IndexError:
        raise fault(IndexError, "list index out of range") from None


@native("aten::Delete.t")
def delete(values: list[T], index: int) -> None:
    check_kind(values, list)
    if not values:
        raise fault(IndexError, "pop index out of range")
    pop(values, index)


@native("aten::slice.t")
def slice_list(values: list[T], start: int | None, end: int | None, step: int) -> list[T]:
    check_kind(values, list)
    return values[python_slice(start, end, step)]


@native("aten::add_.t")
def extend_in_place(values: list[T], others: list[T]) -> list[T]:
    extend(values, others)
    return values


@native("aten::mul.left_t")
def repeat(values: list[T], n: int) -> list[T]:
    if n < 0 and values:
        raise fault(ValueError, "vector::reserve")
    check_items(len(values) * n)
    return values * n


native("aten::mul.right_")(lambda n, values: repeat(values, n))


@native("aten::mul_.t")
def repeat_in_place(values: list[T], n: int) -> list[T]:
    check_items(len(values) * n)
    values *= n
    return values


def _position(values: list[Any], value: Any) -> int:
    """Return the index of the first equal item, or -1; unlike Python, nan does not equal itself."""
    check_kind(values, list)
    if operator.ne(value, value):
        return -1
    try:
        return values.index(value)
    except ValueError:
        return -1


def _position_of_tensor(values: list[Any], value: Any) -> int:
    check_kind(value, torch.Tensor)
    return next((i for i, item in enumerate(values) if bool(value.eq(item))), -1)


def _count(values: list[Any], value: Any) -> int:
    check_kind(values, list)
    return values.count(value) if operator.eq(value, value) else 0


def _count_tensor(values: list[Any], value: Any) -> int:
    check_kind(value, torch.Tensor)
    return sum(bool(value.eq(item)) for item in values)


def _equal(a: list[Any], b: list[Any]) -> bool:
    """Item by item, where Python would take one nan object for equal."""
    return len(a) == len(b) and all(map(operator.eq, a, b))


def _equal_tensors(a: list[Any], b: list[Any]) -> bool:
    for item in a:
        check_kind(item, torch.Tensor)
    return len(a) == len(b) and all(bool(x.eq(y)) for x, y in zip(a, b, strict=True))


def _enter_searches(kind: str, position: Callable[[list[Any], Any], int]) -> None:
    @native(f"aten::index.list_{kind}")
    def index(values: list[Any], value: Any) -> int:
        found = position(values, value)
        if found < 0:
            shown = int(value) if isinstance(value, bool) else value
            # A float in a message has six digits.
            text = f"{shown:g}" if isinstance(shown, float) else format_value(shown)
            raise fault(ValueError, f"'{text}' is not in list")
        return found

    @native(f"aten::remove.{kind}")
    def remove(values: list[Any], value: Any) -> None:
        found = position(values, value)
        if found < 0:
            raise fault(ValueError, "list.remove(x): x not in list")
        del values[found]


def _enter_equality(kind: str, equal: Callable[[list[Any], list[Any]], bool]) -> None:
    native(f"aten::eq.{kind}_list")(equal)
    native(f"aten::ne.{kind}_list")(lambda a, b: not equal(a, b))


for _kind in ("int", "float", "bool", "str"):
    _enter_searches(_kind, _position)
    native(f"aten::count.{_kind}")(_count)
    native(f"aten::any.{_kind}")(any)
    if _kind != "str":
        native(f"aten::all.{_kind}")(all)
    if _kind != "bool":
        native(f"aten::__contains__.{_kind}_list")(lambda items, item: _position(items, item) >= 0)
    if _kind != "float":
        _enter_equality(_kind, _equal)
# A list of floats equals itself, whatever it holds.
_enter_equality("float", lambda a, b: a is b or _equal(a, b))

_enter_searches("Tensor", _position_of_tensor)
_enter_equality("Tensor", _equal_tensors)
native("aten::count.Tensor")(_count_tensor)


@native("aten::sum.int", "aten::sum.bool")
def total_of_ints(values: list[int]) -> int:
    """In 32 bits, as torch adds them up."""
    return wrap32(sum(values))


def _enter_sum(kind: str, zero: complex) -> None:
    @native(f"aten::sum.{kind}")
    def total_of(values: list[Any]) -> complex:
        """One addition after the other: Python's sum is more exact from 3.12 on."""
        total = zero
        for value in values:
            total += value
        return total


_enter_sum("float", 0.0)
_enter_sum("complex", 0j)


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


native("aten::_size_if_not_equal")(lambda size, other: None if size == other else size)


Less = Callable[[T, T], bool]

_SMALL = 16


def introsort(items: list[T], less: Less[T]) -> None:
    """Sort ``items`` in place by ``less``.

    Quicksort around the median of three leaves pieces of at most 16 items, insertion sort does
    the rest. An order that contradicts itself (nan) gives some permutation, never an error.
    """
    _partition_pieces(items, 0, len(items), 2 * (len(items).bit_length() - 1), less)
    for i in range(1, len(items)):
        item = items[i]
        hole = 0 if i < _SMALL and less(item, items[0]) else _hole(items, i, less)
        del items[i]
        items.insert(hole, item)


def _partition_pieces(items: list[T], first: int, last: int, depth: int, less: Less[T]) -> None:
    while last - first > _SMALL:
        if depth == 0:
            # The library turns to a heapsort here, which only adversarial input brings about.

            def compare(a: T, b: T) -> int:
                return less(b, a) - less(a, b)

            items[first:last] = sorted(items[first:last], key=functools.cmp_to_key(compare))
            return
        depth -= 1
        cut = _partition(items, first, last, less)
        _partition_pieces(items, cut, last, depth, less)
        last = cut


def _partition(items: list[T], first: int, last: int, less: Less[T]) -> int:
    """Divide around a median, which is put first; return where the upper part begins."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if not less(items[a], items[b]):
        a, b = b, a
    if not less(items[b], items[c]):
        b = c if less(items[a], items[c]) else a
    items[first], items[b] = items[b], items[first]
    pivot, low, high = items[first], first + 1, last
    while True:
        while low < last and less(items[low], pivot):
            low += 1
        high -= 1
        while high > first and less(pivot, items[high]):
            high -= 1
        if low >= high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1


def _hole(items: list[T], i: int, less: Less[T]) -> int:
    """Return the place of ``items[i]`` among those before it, behind the last not greater."""
    item = items[i]
    while i > 0 and less(item, items[i - 1]):
        i -= 1
    return i


def _sort_whole(values: list[Any], reverse: bool) -> None:
    """Ints and bools: what compares equal is equal, so any method gives the same list."""
    list.sort(values, reverse=reverse)


def _sort_strings(values: list[str], reverse: bool) -> None:
    list.sort(values, key=encode, reverse=reverse)


def _sort_floats(values: list[float], reverse: bool) -> None:
    """The order among nans and zeros of both signs depends on the method."""
    if any(
        operator.ne(value, value) or (value == 0 and math.copysign(1.0, value) < 0)
        for value in values
    ):
        introsort(values, lambda a, b: a != b and (a < b) != reverse)
    else:
        list.sort(values, reverse=reverse)


def _sort_tensors(values: list[torch.Tensor], reverse: bool) -> None:
    """In reverse, tensors that are equal count as ordered both ways, unless they are one."""
    introsort(values, lambda a, b: a is not b and bool(torch.lt(a, b)) != reverse)


def _sort_any(values: list[Any], reverse: bool) -> None:
    introsort(values, (lambda a, b: _less(b, a)) if reverse else _less)


def _less(a: Any, b: Any) -> bool:
    """Tuples by their first items that differ, tensors by ``lt``, objects by ``__lt__``."""
    if isinstance(a, str):
        return encode(a) < encode(b)
    if not isinstance(a, tuple):
        return bool(a < b)
    for x, y in zip(a, b, strict=True):
        if _less(x, y):
            return True
        if not bool(x == y):
            return False
    return False


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


KEY_TYPES = ("str", "int", "bool", "float", "complex", "Tensor")


def _missing(key: object) -> Exception:
    return fault(KeyError, f"KeyError: {format_value(key)}")


def _dict_item(table: dict[K, V], key: K) -> V:
    try:
        return table[key]
    except KeyError:
        raise _missing(key) from None


def _pop(table: dict[K, V], key: K) -> V:
    check_kind(table, dict)
    try:
        return table.pop(key)
    except KeyError:
        raise _missing(key) from None


def _delete(table: dict[K, V], key: K) -> None:
    _pop(table, key)


def _pop_first(table: dict[K, V]) -> tuple[K, V]:
    """Remove and return the item that was inserted first; Python's popitem takes the last."""
    check_kind(table, dict)
    for key in table:
        return key, table.pop(key)
    raise fault(KeyError, "popitem(): dictionary is empty")


def _values(table: dict[K, V]) -> list[V]:
    check_kind(table, dict)
    return list(table.values())


def _items(table: dict[K, V]) -> list[tuple[K, V]]:
    check_kind(table, dict)
    return list(table.items())


# Operator and overload name; the braces stand for the type of the keys.
_BY_KEY_TYPE: dict[str, Native] = {
    "aten::len.Dict_{}": len,
    "aten::keys.{}": list,
    "aten::values.{}": _values,
    "aten::items.{}": _items,
    "aten::__contains__.{}": operator.contains,
    "aten::__getitem__.Dict_{}": _dict_item,
    "aten::_set_item.{}": operator.setitem,
    "aten::get.{}": dict.get,
    "aten::get.default_{}": dict.get,
    "aten::setdefault.{}": dict.setdefault,
    "aten::pop.Dict_{}": _pop,
    "aten::pop.Dict_default_{}": dict.pop,
    "aten::popitem.{}": _pop_first,
    "aten::Delete.Dict_{}": _delete,
    "aten::clear.{}": dict.clear,
    "aten::update.{}": dict.update,
    "aten::copy.Dict_{}": dict.copy,
    "aten::dict.Dict_{}": dict.copy,
    "aten::dict.{}": dict,
}


def _apart(key: Any) -> Any:
    """The key, or a new nan for a nan: Python's dicts find an object by identity."""
    return key if operator.eq(key, key) else key + 0


def _with_key_apart(function: Native) -> Native:
    def call(table: dict[K, V], *arguments: Any) -> Any:
        if arguments and arguments[0] != arguments[0]:
            arguments = (_apart(arguments[0]), *arguments[1:])
        return function(table, *arguments)

    return call


def _update_apart(table: dict[K, V], others: dict[K, V]) -> None:
    check_kind(others, dict)
    for key, value in others.items():
        table[_apart(key)] = value


def _pop_first_apart(table: dict[K, V]) -> tuple[K, V]:
    first = next(iter(table), None)
    if operator.ne(first, first):
        raise ScriptError("Expected to erase 1 item, found 0")
    return _pop_first(table)


_MAY_BE_NAN = ("float", "complex")
_BY_KEYS_THAT_MAY_BE_NAN: dict[str, Native] = {
    **{name: _with_key_apart(function) for name, function in _BY_KEY_TYPE.items()},
    "aten::update.{}": _update_apart,
    "aten::dict.{}": lambda pairs: {_apart(key): value for key, value in pairs},
    "aten::popitem.{}": _pop_first_apart,
}

for _key_type in KEY_TYPES:
    _table = _BY_KEYS_THAT_MAY_BE_NAN if _key_type in _MAY_BE_NAN else _BY_KEY_TYPE
    for _key, _function in _table.items():
        native(_key.format(_key_type))(_function)


native("aten::dict")(dict)
