"""The sort of GNU's C++ library, which is not stable: equal items end where its steps put them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Less = Callable[[T, T], bool]

_SMALL = 16


def introsort(items: list[T], less: Less[T]) -> None:
    """Sort ``items`` in place by ``less``.

    Quicksort around the median of three leaves pieces of at most 16 items, insertion sort does
    the rest. An order that contradicts itself (nan) gives some permutation, never an error.
    """
    _partition_pieces(items, 0, len(items), 2 * (len(items).bit_length() - 1), less)
    _insertion_sort(items, less)


def _partition_pieces(items: list[T], first: int, last: int, depth: int, less: Less[T]) -> None:
    while last - first > _SMALL:
        if depth == 0:
            # The library turns to a heapsort here, which only adversarial input brings about.
            items[first:last] = sorted(items[first:last], key=functools.cmp_to_key(_compare(less)))
            return
        depth -= 1
        cut = _partition(items, first, last, less)
        _partition_pieces(items, cut, last, depth, less)
        last = cut


def _compare(less: Less[T]) -> Callable[[T, T], int]:
    return lambda a, b: less(b, a) - less(a, b)


def _partition(items: list[T], first: int, last: int, less: Less[T]) -> int:
    """Divide around a median, which is put first; return where the upper part begins."""
    _median_to_first(items, first, last, less)
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


def _median_to_first(items: list[T], first: int, last: int, less: Less[T]) -> None:
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if not less(items[a], items[b]):
        a, b = b, a
    if not less(items[b], items[c]):
        b = c if less(items[a], items[c]) else a
    items[first], items[b] = items[b], items[first]


def _insertion_sort(items: list[T], less: Less[T]) -> None:
    for i in range(1, len(items)):
        item = items[i]
        hole = 0 if i < _SMALL and less(item, items[0]) else _hole(items, i, less)
        del items[i]
        items.insert(hole, item)


def _hole(items: list[T], i: int, less: Less[T]) -> int:
    """Where ``items[i]`` belongs among those before it: behind the last that is not greater."""
    item = items[i]
    while i > 0 and less(item, items[i - 1]):
        i -= 1
    return i
