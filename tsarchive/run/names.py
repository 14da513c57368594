"""Names in generated Python source. Nothing else of an archive reaches that source as code."""

from __future__ import annotations

import keyword
from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Final

from tsarchive.ir.names import to_identifier

_LONGEST: Final = 60


@lru_cache(maxsize=4096)
def _base(candidate: str) -> str:
    base = to_identifier(candidate)[:_LONGEST].strip("_")
    return f"v{base}" if not base or base[0].isdigit() else base


class LocalNames:
    """Makes identifiers unique within one generated source."""

    def __init__(self) -> None:
        self._used: set[str] = set(keyword.kwlist)
        self._next: defaultdict[str, int] = defaultdict(lambda: 1)

    def unique(self, candidate: str) -> str:
        """A new identifier like ``candidate``, which may be any text.

        It does not start with an underscore: names that do may mean something to Python.
        """
        base = name = _base(candidate[:_LONGEST])
        while name in self._used:
            name = f"{base}_{self._next[base]}"
            self._next[base] += 1
        self._used.add(name)
        return name


class Globals:
    """The objects that a generated source refers to, by name."""

    def __init__(self, names: LocalNames) -> None:
        self.values: dict[str, Any] = {}
        self._names = names
        self._known: dict[int, str] = {}
        self._made: dict[Hashable, str] = {}

    def name(self, candidate: str, value: Any) -> str:
        """The name of ``value``; the same object gets one name."""
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = self._names.unique(candidate)
            self.values[found] = value
        return found

    def made(self, key: Hashable, candidate: str, make: Callable[[], Any]) -> str:
        """The name of the result of ``make``, which is called once for each ``key``."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self.name(candidate, make())
        return found
