"""The short suite and the long one: which items of the long suite stand for all in the short.

The short suite keeps every test function that is quick. Of one with many items it keeps a sample:
as many as the root of their number, drawn by their names, those of large files last, and one more
for each value of a parameter that has few values and would be missing. A function whose items are
slow is marked ``@pytest.mark.sample(count)``, which says how many instead of the root; what would
be missing is added all the same. Where that is too slow as well, the mark says why values may be
left out: ``@pytest.mark.sample(count, gaps="reason")``; the sample is then ``count`` items and no
more. ``@pytest.mark.whole`` keeps all, for tables in which each row is a bug of its own. A slow
function that has no items to choose from is marked ``@pytest.mark.long("test_name")``, which names
the function of the same file, or of ``"tests/other.py::test_name"``, that stands for it.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

__all__ = [
    "ALL_ITEMS",
    "by_function",
    "examples",
    "function_of",
    "gaps",
    "is_long",
    "kept",
    "left_out",
    "sampled",
    "set_long",
    "thinned",
]

ALL_ITEMS = pytest.StashKey[list[pytest.Item]]()
"""All that was collected, whichever suite runs."""

_FEW = 12
_LARGE = 4 << 20  # bytes of a file of the corpus
_is_long = False

Value = TypeVar("Value")


def set_long(long: bool) -> None:
    """Say, before tests are collected, which suite runs."""
    global _is_long
    _is_long = long


def is_long() -> bool:
    """Whether the long suite runs."""
    return _is_long


def examples(count: int) -> int:
    """How many examples Hypothesis draws where the long suite draws ``count``."""
    return count if _is_long else max(5, count // 20)


def thinned(slices: int) -> int:
    """Into how many slices work is cut of which an item does one: more where few items run."""
    return slices if _is_long else 12 * slices


def sampled(values: Sequence[Value], count: int | None = None) -> list[Value]:
    """``values``, or in the short suite ``count`` of them, evenly spread."""
    number = count or math.isqrt(len(values)) + 1
    if _is_long or len(values) <= number:
        return list(values)
    return [values[i * len(values) // number] for i in range(number)]


def kept(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The items of the short suite among those of the long one."""
    return {item for group in by_function(items).values() for item in _kept_of(group)}


def by_function(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The items of each function."""
    functions = defaultdict(list)
    for item in items:
        functions[function_of(item)].append(item)
    return functions


def stand_in(item: pytest.Item) -> str:
    """The function that stands in the short suite for that of an item: mostly itself."""
    long = item.get_closest_marker("long")
    if long is None:
        return function_of(item)
    name: str = long.args[0]
    return name if "::" in name else f"{item.nodeid.partition('::')[0]}::{name}"


def function_of(item: pytest.Item) -> str:
    """The node ID without the parameters."""
    return item.nodeid.partition("[")[0]


def left_out(items: Sequence[pytest.Item]) -> set[tuple[str, object]]:
    """The values of few-valued parameters that no item of the short suite has."""
    short = _short_parameters(items)
    return _short_values(items, short) - _short_values(_kept_of(items), short)


def gaps(item: pytest.Item) -> str | None:
    """Why the function of an item may leave out such values, if it may."""
    marked = item.get_closest_marker("sample")
    return marked and marked.kwargs.get("gaps")


def _kept_of(items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    first = items[0]
    if first.get_closest_marker("long"):
        return []
    if first.get_closest_marker("whole"):
        return items
    drawn = sorted(items, key=_lot)
    wanted = first.get_closest_marker("sample")
    if wanted is None:
        return items if len(items) <= _FEW else _sample(drawn, math.isqrt(len(items)) + 1)
    count: int = wanted.args[0]
    return _sample(drawn, count) if gaps(first) is None else drawn[:count]


def _sample(items: Sequence[pytest.Item], count: int) -> list[pytest.Item]:
    """The first ``count`` items, and each other that has a value of which there is none yet."""
    chosen = list(items[:count])
    short = _short_parameters(items)
    seen = _short_values(chosen, short)
    for item in items[count:]:
        missing = _short_values([item], short) - seen
        if missing:
            chosen.append(item)
            seen |= missing
    return chosen


def _short_parameters(items: Iterable[pytest.Item]) -> set[str]:
    """The parameters that have few values."""
    values = defaultdict(set)
    for item in items:
        for name, value in _arguments(item).items():
            values[name].add(value)
    return {name for name, found in values.items() if len(found) <= _FEW}


def _short_values(items: Iterable[pytest.Item], short: set[str]) -> set[tuple[str, object]]:
    return {
        (name, value) for item in items for name, value in _arguments(item).items() if name in short
    }


def _arguments(item: pytest.Item) -> Mapping[str, object]:
    """The values of the parameters, as what equals itself in each item that has the value.

    pytest's own indices are of no use: they number the items where parametrizations are stacked.
    """
    return {name: _key(value) for name, value in _parameters(item).items()}


def _key(value: object) -> tuple[object, ...]:
    """A key that tells 1 from True and 0.0 from -0.0, alone and in tuples: they are equal."""
    if isinstance(value, tuple):
        return type(value), *map(_key, value)
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), repr(value) if isinstance(value, float | complex) else value


def _parameters(item: pytest.Item) -> Mapping[str, object]:
    callspec: Any = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params


def _lot(item: pytest.Item) -> tuple[bool, bytes]:
    """The same for an item in every process, and another for each function."""
    drawn = hashlib.blake2b(item.nodeid.encode(), digest_size=8).digest()
    return any(map(_is_large, _parameters(item).values())), drawn


def _is_large(value: object) -> bool:
    return isinstance(value, Path) and value.is_file() and value.stat().st_size > _LARGE
