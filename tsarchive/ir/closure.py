"""The closure of a set under a relation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

__all__ = ["closure"]

_T = TypeVar("_T", bound=Hashable)


def closure(beginnings: Iterable[_T], leads_to: Callable[[_T], Iterable[_T]]) -> set[_T]:
    """Return the beginnings and everything that is reached from them, in any number of steps."""
    reached: set[_T] = set()
    pending = list(beginnings)
    while pending:
        item = pending.pop()
        if item not in reached:
            reached.add(item)
            pending += leads_to(item)
    return reached
