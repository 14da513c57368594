"""Conversion of inert pickle values to other values, which keeps identity and bounds nesting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from tsarchive.errors import PickleError

# Deeper than any model; only a file made to exhaust the stack has more.
MAX_DEPTH = 200


class Conversion:
    """Converts the values of the pickle ``record``, each once however often it is referenced."""

    builders: ClassVar[dict[type, Callable[[Any, Any], Any]]]
    """Methods that convert values, by type; values of other types stay as they are."""

    def __init__(self, record: str) -> None:
        self.record = record
        self._built: dict[int, Any] = {}
        self._depth = 0

    def value(self, value: Any) -> Any:
        """Return the converted value. Raises PickleError where values are nested too deeply."""
        build = self.builders.get(type(value))
        if build is None:
            return value
        if id(value) not in self._built:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise self.error("values are nested too deeply", limit=MAX_DEPTH)
            try:
                self._built[id(value)] = build(self, value)
            except RecursionError:
                raise self.error("values are nested too deeply") from None
            self._depth -= 1
        return self._built[id(value)]

    def error(self, message: str, limit: int | None = None) -> PickleError:
        return PickleError(message, record=self.record, limit=limit)

    def list_of(self, value: Iterable[Any]) -> list[Any]:
        # C calls, such as from `map`, count twice towards recursion in Python 3.12.
        found = []
        for item in value:
            found.append(self.value(item))
        return found

    def tuple_of(self, value: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.list_of(value))
