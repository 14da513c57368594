"""Parsing of the highlighted text in which torch shows a source range.

No binding exposes the numbers of a range. torch names file and line, and shows the lines of the
range with up to two lines before and after; below each line of the range is a line of ``~``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tsarchive.ir.source_ranges import Source, byte_length

_HEADER = re.compile(r'  File "(.*?)", line (\d+)\n', re.DOTALL)
_SERIALIZED = re.compile(r'Serialized   File "(.*)", line \d+\n', re.DOTALL)
_CONTEXT = 2
_HERE = " <--- HERE"
_MARK = re.compile(f" *~+(?:{_HERE})?")


@dataclass(frozen=True, slots=True)
class Highlight:
    """A parsed highlight.

    ``line`` is the number of the first marked line, ``shown`` all lines with the marks.
    ``code_file`` names the code record from which torch loaded the range, if it did. A range that
    is the whole of its source has no file; its source is ``text``. The file is empty where the
    source has none: the number of the line is then unknown.
    """

    text: str
    code_file: str | None = None
    file: str | None = None
    line: int = 0
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Marked:
    """The lines without marks, and the range in them: columns in bytes of two of the lines.

    The number of lines after the range depends on its end, even where that is not marked.
    """

    lines: tuple[str, ...]
    first: int
    begin_column: int
    last: int
    end_column: int


def read_highlight(shown: str) -> Highlight:
    serialized = _SERIALIZED.search(shown)
    text = shown[: serialized.start()] if serialized else shown
    code_file = serialized[1] if serialized else None
    header = _HEADER.match(text)
    if header is None and _HERE not in text:
        return Highlight(text, code_file)
    file, line, start = (header[1], int(header[2]), header.end()) if header else ("", 0, 0)
    lines = text[start:].removesuffix("\n").split("\n")
    return Highlight(text, code_file, file, line, tuple(lines))


def read_marks(highlight: Highlight, lines_before: int | None = None) -> Marked | None:
    """Return the marked range, provided that ``lines_before`` lines can precede it.

    The number is known when the source is: lines of the source may look like marks.
    """
    if lines_before is None:
        found = (_marks(highlight.shown, before) for before in range(_CONTEXT + 1))
        return next((marked for marked in found if marked is not None), None)
    return _marks(highlight.shown, min(lines_before, _CONTEXT))


def agrees(marked: Marked, lines: Sequence[str], first: int) -> bool:
    """Return whether a source has these lines, with the range beginning at line ``first``."""
    start = first - marked.first
    return start >= 0 and marked.lines == tuple(lines[start : start + len(marked.lines)])


def _marks(shown: Sequence[str], before: int) -> Marked | None:
    lines = list(shown[:before])
    marks: list[tuple[int, str]] = []
    position = before
    while position < len(shown):
        lines.append(shown[position])
        mark = shown[position + 1] if position + 1 < len(shown) else ""
        position += 1
        if _marks_line(mark, lines[-1], is_first=not marks):
            marks.append((len(lines) - 1, mark))
            position += 1
            if mark.endswith(_HERE):
                break
        elif not marks or lines[-1].strip(" "):
            break  # only blank lines of a range have no marks
    if not marks:
        return None
    lines += shown[position:]
    return _between(tuple(lines), marks[0], marks[-1])


def _marks_line(mark: str, line: str, *, is_first: bool) -> bool:
    """Return whether ``mark`` is the mark of ``line``: lines of a source may look like marks."""
    if not _MARK.fullmatch(mark) or byte_length(line) < len(mark.removesuffix(_HERE)):
        return False
    indent = len(line) - len(line.lstrip(" "))
    begin = mark.index("~")
    return begin >= indent if is_first else begin == indent


def _between(lines: tuple[str, ...], opening: tuple[int, str], closing: tuple[int, str]) -> Marked:
    end_column = len(closing[1].removesuffix(_HERE))
    return Marked(lines, opening[0], opening[1].index("~"), closing[0], end_column)


class View:
    """Known lines of one source by number. Lines that no range shows are assumed to be empty."""

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
        """Return the source as far as it is known; nothing may be added afterwards."""
        first, last = min(self._lines), max(self._lines)
        text = "\n".join(self._lines.get(number, "") for number in range(first, last + 1))
        # Sources without a file are graph patterns, which end with a bracket.
        return Source(text + "\n" * bool(self._file), self._file, first)


class Views:
    """Partially known sources, by what identifies them: a file and an owner."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, ...], list[View]] = {}

    def add(self, key: tuple[str, ...], first: int, lines: Sequence[str]) -> View:
        """Add lines to their source; the first item of ``key`` is its file."""
        views = self._views.setdefault(key, [])
        fitting = [view for view in views if not view.conflicts(first, lines)]
        fitting.sort(key=lambda view: not view.overlaps(first, lines))
        view = fitting[0] if fitting else View(key[0])
        if not fitting:
            views.append(view)
        view.add(first, lines)
        return view
