"""Typed access to the fields of protobuf messages in JSON form.

The rules are protobuf's: names are in camelCase or as declared, integers may be strings, a null or
absent field has its default, unknown fields are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from tsarchive.errors import FormatError
from tsarchive.strict_json import parse_object

Read = TypeVar("Read")

_INTEGER = re.compile(r"-?\d{1,19}")
_SNAKE = re.compile(r"[A-Z]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 60


class Fields:
    """The fields of one message; ``path`` is its path in ``record``."""

    def __init__(self, values: dict[str, Any], path: str, record: str) -> None:
        self._values = values
        self.path = path
        self.record = record

    @classmethod
    def parse(cls, text: bytes, record: str) -> Fields:
        """Parse the outermost message. Raises FormatError for anything but a JSON object."""
        return cls(parse_object(text, record), "", record)

    def error(self, name: str, message: str) -> FormatError:
        return FormatError(f"{self.path}{name} {message}", record=self.record)

    def has(self, name: str) -> bool:
        return self._get(name) is not None

    def integer(self, name: str, default: int = 0) -> int:
        value = self._get(name)
        return default if value is None else self._integer(name, value)

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(self._integer(name, value) for value in self._list(name))

    def number(self, name: str) -> float:
        value = self._get(name)
        if value is None:
            return 0.0
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if math.isnan(found):
            raise self.error(name, f"is {_shown(value)}, not a number")
        return found

    def text(self, name: str) -> str:
        found = self._typed(name, str, "", "a string")
        if _SURROGATE.search(found):
            raise self.error(name, "has half a surrogate pair")
        return found

    def flag(self, name: str) -> bool:
        return self._typed(name, bool, False, "true or false")

    def message(self, name: str) -> Fields:
        """Return a nested message; an empty one when it is absent."""
        values = self._typed(name, dict, {}, "an object")
        return Fields(values, f"{self.path}{name}.", self.record)

    def messages(self, name: str) -> list[Fields]:
        found = []
        for index, values in enumerate(self._list(name)):
            if not isinstance(values, dict):
                raise self.error(f"{name}[{index}]", f"is {_shown(values)}, not an object")
            found.append(Fields(values, f"{self.path}{name}[{index}].", self.record))
        return found

    def choice(self, name: str, choices: Callable[[Any], Read | None], what: str) -> Read:
        """Return a field of an enumeration; ``choices`` maps a name or number to its meaning."""
        value = self._get(name)
        found = choices(value) if isinstance(value, str | int) else None
        if found is None:
            raise self.error(name, f"is {_shown(value)}, which is no {what}")
        return found

    def _get(self, name: str) -> Any:
        value = self._values.get(name)
        if value is None:
            declared = _SNAKE.sub(lambda match: f"_{match[0].lower()}", name)
            value = self._values.get(declared)
        return value

    def _typed(self, name: str, type_: type[Read], default: Read, what: str) -> Read:
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, type_):
            raise self.error(name, f"is {_shown(value)}, not {what}")
        return value

    def _list(self, name: str) -> list[Any]:
        return self._typed(name, list, [], "a list")

    def _integer(self, name: str, value: Any) -> int:
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise self.error(name, f"is {_shown(value)}, not an integer of 64 bits")
        return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
