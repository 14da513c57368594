"""What is reached from given beginnings, by as many steps as it takes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

__all__ = ["closure"]

_T = TypeVar("_T", bound=Hashable)


def closure(beginnings: Iterable[_T], leads_to: Callable[[_T], Iterable[_T]]) -> set[_T]:
    """The beginnings, all that they lead to, all that this leads to, and so on."""
    reached: set[_T] = set()
    pending = list(beginnings)
    while pending:
        item = pending.pop()
        if item not in reached:
            reached.add(item)
            pending += leads_to(item)
    return reached
