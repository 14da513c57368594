"""Something that is made when it is first asked for, and then shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Late"]

_T = TypeVar("_T")


class Late(Generic[_T]):
    """``made`` is None as long as nobody asked."""

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self.made: _T | None = None

    def get(self) -> _T:
        """Make it, or give what was made. Raises what making it raises."""
        if self.made is None:
            self.made = self._make()
        return self.made
