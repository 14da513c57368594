"""Which versions of torch have an operator, as the registries of released wheels say.

``operators.txt`` holds a line for each operator: its name, and the first and the last of the
versions in its head line that have it. ``nox -s registry`` adds a version to it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

__all__ = ["Span", "known_operators", "versions_with"]

_FILE: Final = "operators.txt"


class Span(NamedTuple):
    """The first and the last version of torch, among those that were read, with an operator."""

    first: str
    last: str


def versions_with(name: str) -> str | None:
    """Say which versions have the operator ``name`` ("aten::add"); None where none is known."""
    _, operators = known_operators()
    span = operators.get(name.partition(".")[0])
    if span is None:
        return None
    return (
        f"torch {span.first}" if span.first == span.last else f"torch {span.first} to {span.last}"
    )


@cache
def known_operators() -> tuple[tuple[str, ...], dict[str, Span]]:
    """Return the versions that were read, oldest first, and the operators that they have."""
    head, *lines = files(__package__).joinpath(_FILE).read_text("ascii").splitlines()
    rows = map(str.split, lines)
    return tuple(head.split()[2:]), {name: Span(first, last) for name, first, last in rows}
