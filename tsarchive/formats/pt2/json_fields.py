"""JSON as readers may take it: every field of every object, also those that stand twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tsarchive.strict_json import check_depth


class _Object(list[tuple[str, Any]]):
    """The fields of an object in their order."""


class _Place(NamedTuple):
    around: _Place | None
    step: str

    def __str__(self) -> str:
        steps = []
        place: _Place | None = self
        while place is not None:
            steps.append(place.step)
            place = place.around
        return "".join(reversed(steps)).removeprefix(".")


class JsonField(NamedTuple):
    """A field of an object; ``value`` has objects as dicts where it is asked for."""

    key: str
    value: Any
    place: object
    siblings: frozenset[str]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The texts in a list, with their places; none where it is no list."""
        is_list = isinstance(self.value, list) and not isinstance(self.value, _Object)
        items = enumerate(self.value) if is_list else ()
        return [(f"{self.place}[{n}]", item) for n, item in items if isinstance(item, str)]

    @property
    def keys(self) -> list[str]:
        """The keys of an object; none where it is none."""
        return [key for key, _ in self.value] if isinstance(self.value, _Object) else []


def fields_of(data: bytes, record: str) -> Iterator[JsonField]:
    """Every field of every object, with its place.

    Raises FormatError for what is nested too deeply, ValueError and RecursionError for what is
    not JSON.
    """
    text = data.decode()
    check_depth(text, record)
    pending: list[tuple[Any, _Place | None]] = [(json.loads(text, object_pairs_hook=_Object), None)]
    while pending:
        value, place = pending.pop()
        if isinstance(value, _Object):
            siblings = frozenset(key for key, _ in value)
            for key, inner in reversed(value):
                inside = _Place(place, f".{key}")
                yield JsonField(key, inner, inside, siblings)
                pending.append((inner, inside))
        elif isinstance(value, list):
            pending += [
                (inner, _Place(place, f"[{number}]"))
                for number, inner in enumerate(value)
                if isinstance(inner, list)
            ]
