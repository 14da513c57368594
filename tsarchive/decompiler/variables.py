"""Assigns values to local variables, with the names of the original program where it had some."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from tsarchive.ir.graph import Value

from .live_ranges import LiveRanges, Point
from .naming import GLOBAL_NAMES, identifier

_NUMBERED = re.compile(r"(.*?[^0-9])[0-9]+")


class Variables:
    """The local variables of one function. Names of parameters stay as they are."""

    def __init__(self, live_ranges: LiveRanges, names: Iterable[str]) -> None:
        self._live_ranges = live_ranges
        self._known = frozenset(names)
        self._holders: dict[str, Value] = {}
        self.used: set[str] = set()

    def parameter(self, value: Value, name: str) -> str:
        found, number = identifier(name), 1
        while found in self._holders:
            found = f"{identifier(name)}_{number}"
            number += 1
        self.hold(found, value)
        return found

    def hold(self, name: str, value: Value) -> None:
        self._holders[name] = value
        self.used.add(name)

    def choose(
        self, candidate: str, point: Point, *, besides: Collection[str] = (), wish: str = ""
    ) -> str:
        """A variable that may take a new value at ``point``: ``wish``, or one like ``candidate``.

        It holds nothing that is needed later, and is none of ``besides``.
        """
        if wish and wish not in besides and self._is_free(wish, point):
            return wish
        base = self._base(candidate)
        found, number = base, 1
        while found in besides or found in GLOBAL_NAMES or not self._is_free(found, point):
            found = f"{base}_{number}"
            number += 1
        return found

    def new(self, candidate: str) -> str:
        """A variable that no other value of the function shares."""
        name = candidate
        while name in self.used:
            name += "_"
        self.used.add(name)
        return name

    def _base(self, candidate: str) -> str:
        """The name before it was made unique: ``x1`` where there is an ``x``, too."""
        match = _NUMBERED.fullmatch(candidate)
        known = match is not None and match[1] in self._known
        return identifier(match[1] if match and known else candidate, private=False)

    def _is_free(self, name: str, point: Point) -> bool:
        holder = self._holders.get(name)
        return holder is None or not self._live_ranges.is_needed_after(holder, point)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Assignments inside do not count after the branch."""
        outer = dict(self._holders)
        yield
        self._holders = outer
