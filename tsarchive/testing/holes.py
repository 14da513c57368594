"""Forms: pieces of source with typed holes, such as ``(<int> + len(<str>))``.

| hole | stands for |
|---|---|
| ``<int>`` | an expression of the type |
| ``<int|i:str>`` | an expression that may use the variable ``i`` of the second type as well |
| ``<.int>`` | a variable of the type |
| ``<=int>`` | a variable of the type that may be assigned |
| ``<+int>`` | a new variable of the type |
| ``<.int:v>``, then ``<:v>`` | a variable, and the same variable again |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_HOLE = re.compile(
    r"<(?P<marker>[.=+]?)(?P<type>[A-Za-z][\w\[\], .]*)?(?::(?P<label>\w+))?"
    r"(?:\|(?P<name>\w+):(?P<extra>[\w\[\], ]+))?>"
)


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a form; ``type`` is empty where a label is used again."""

    marker: str
    type: str
    label: str
    extra: tuple[str, str] | None

    @property
    def needs_variable(self) -> bool:
        return self.marker in (".", "=") and self.type != ""


@cache
def parts(form: str) -> tuple[str | Hole, ...]:
    """Split a form into plain text and holes, in order."""
    found: list[str | Hole] = []
    end = 0
    for match in _HOLE.finditer(form):
        found += [form[end : match.start()], _hole(match)]
        end = match.end()
    return (*found, form[end:])


def _hole(match: re.Match[str]) -> Hole:
    extra = (match["name"], match["extra"]) if match["name"] else None
    return Hole(match["marker"], match["type"] or "", match["label"] or "", extra)


def holes(form: str) -> tuple[Hole, ...]:
    return tuple(part for part in parts(form) if isinstance(part, Hole))
