"""The short suite and the long one: which items of the long suite stand for all in the short.

The short suite keeps every test function that is quick. Of one with many items it keeps a sample:
as many as the root of their number, drawn by their names, those of large files last, and one more
for each value of a parameter that has few values and would be missing.
``@pytest.mark.sample(count)`` says how many where items are slow, ``@pytest.mark.whole`` keeps all,
for tables in which each row is a bug of its own. A slow function that has no items to choose from
is marked ``@pytest.mark.long("test_name")``, which names the function of the same file, or of
``"tests/other.py::test_name"``, that stands for it.
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
    "examples",
    "function_of",
    "is_long",
    "kept",
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
    functions = defaultdict(list)
    for item in items:
        functions[function_of(item)].append(item)
    return {item for group in functions.values() for item in _kept_of(group)}


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


def _kept_of(items: list[pytest.Item]) -> list[pytest.Item]:
    first = items[0]
    if first.get_closest_marker("long"):
        return []
    if first.get_closest_marker("whole"):
        return items
    wanted = first.get_closest_marker("sample")
    if wanted is not None:
        return sorted(items, key=_lot)[: wanted.args[0]]
    return items if len(items) <= _FEW else _sample(sorted(items, key=_lot))


def _sample(items: list[pytest.Item]) -> list[pytest.Item]:
    count = math.isqrt(len(items)) + 1
    chosen, others = items[:count], items[count:]
    seen = {value for item in chosen for value in _indices(item).items()}
    short = _short_parameters(items)
    for item in others:
        missing = {(name, at) for name, at in _indices(item).items() if name in short} - seen
        if missing:
            chosen.append(item)
            seen |= missing
    return chosen


def _short_parameters(items: list[pytest.Item]) -> set[str]:
    values = defaultdict(set)
    for item in items:
        for name, at in _indices(item).items():
            values[name].add(at)
    return {name for name, found in values.items() if len(found) <= _FEW}


def _indices(item: pytest.Item) -> Mapping[str, int]:
    callspec: Any = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.indices


def _values(item: pytest.Item) -> Iterable[object]:
    callspec: Any = getattr(item, "callspec", None)
    return () if callspec is None else callspec.params.values()


def _lot(item: pytest.Item) -> tuple[bool, bytes]:
    """The same for an item in every process, and another for each function."""
    drawn = hashlib.blake2b(item.nodeid.encode(), digest_size=8).digest()
    return any(map(_is_large, _values(item))), drawn


def _is_large(value: object) -> bool:
    return isinstance(value, Path) and value.is_file() and value.stat().st_size > _LARGE
