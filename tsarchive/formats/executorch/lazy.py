"""A value that is computed on first use and then shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Lazy(Generic[_T]):
    """A lazily computed value. ``made`` is None until it is first requested."""

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self.made: _T | None = None

    def get(self) -> _T:
        """Return the value, computing it on first use. Raises what that raises."""
        if self.made is None:
            self.made = self._make()
        return self.made
