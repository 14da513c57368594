"""Where functions of torch.nn stand in the sources of each torch. Debug records name such places.

Each line of ``torch_sources.txt`` has a file in the folder of torch, a function in it, and behind
each release its places: ``912+18+3`` is a function that begins in line 912, decorators included,
with a body that begins 18 lines further and has 3 lines more. Functions of one name in one file
have a place each. ``fixtures/torch_sources.py`` reads them from the sources of the releases.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final, NamedTuple

from .registry import table_text

_TABLE: Final = "torch_sources.txt"


class Line(NamedTuple):
    """A line of ``torch/<file>``: the first of a function, or one in the body of it."""

    file: str
    function: str
    number: int
    is_first: bool


class _Place(NamedTuple):
    first: int
    body: int
    end: int

    def has(self, line: Line) -> bool:
        if line.is_first:
            return line.number == self.first
        return self.body <= line.number <= self.end


def is_function(file: str, function: str) -> bool:
    """Return whether the table has a function of ``torch/<file>``."""
    return bool(_places(file, function))


@lru_cache(512)  # archives give the lines
def releases_with(line: Line) -> frozenset[str]:
    """Return the releases, such as "2.9", in which a line stands where it is said to."""
    found = _places(line.file, line.function)
    return frozenset(r for r, places in found.items() if any(one.has(line) for one in places))


@lru_cache(512)  # archives give the names
def _places(file: str, function: str) -> dict[str, list[_Place]]:
    text, head = _text(), f"{file} {function} "
    start = 0 if text.startswith(head) else text.find(f"\n{head}") + 1
    if not start and not text.startswith(head):
        return {}
    cells = text[start + len(head) : text.index("\n", start)].split(" ")
    by_release = (cell.split("=") for cell in cells)
    return {release: [*map(_place, places.split(","))] for release, places in by_release}


@cache
def _text() -> str:
    return table_text(_TABLE)


def _place(text: str) -> _Place:
    first, to_body, more = map(int, text.split("+"))
    return _Place(first, first + to_body, first + to_body + more)
