"""Sources that can only be seen in parts: what torch shows around each range is put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from .ranges import Source


class View:
    """Lines of one source by their numbers. Lines that no range shows are taken to be empty."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines: dict[int, str] = {}

    def conflicts(self, first: int, lines: Sequence[str]) -> bool:
        return any(self._lines.get(n, line) != line for n, line in enumerate(lines, first))

    def overlaps(self, first: int, lines: Sequence[str]) -> bool:
        return any(number in self._lines for number in range(first, first + len(lines)))

    def add(self, first: int, lines: Sequence[str]) -> None:
        self._lines.update(enumerate(lines, first))

    @cached_property
    def source(self) -> Source:
        """The source as far as it was seen; nothing is added any more."""
        first, last = min(self._lines), max(self._lines)
        text = "\n".join(self._lines.get(number, "") for number in range(first, last + 1))
        # Source without a file is a pattern of graphs, which ends with a bracket.
        return Source(text + "\n" * bool(self._file), self._file, first)


class Views:
    """The sources seen in parts, by what they must have in common: a file and an owner."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, ...], list[View]] = {}

    def add(self, key: tuple[str, ...], first: int, lines: Sequence[str]) -> View:
        """Add lines to the source that they are taken from; ``key`` begins with its file."""
        views = self._views.setdefault(key, [])
        fitting = [view for view in views if not view.conflicts(first, lines)]
        fitting.sort(key=lambda view: not view.overlaps(first, lines))
        view = fitting[0] if fitting else View(key[0])
        if not fitting:
            views.append(view)
        view.add(first, lines)
        return view
