"""Comments that lead back to the lines of the original program.

A syntax tree has no comments: a marker statement stands for one until the text is written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tsarchive.ir.graph import Node
from tsarchive.ir.source_ranges import Range

_MARKER = "comment_number_"
_MARKED = re.compile(rf"( *){_MARKER}([0-9]+)")
_NUMBER = "comment_number"
_LONGEST = 96
_SEPARATORS = re.compile(r"[/\\]")


class Comments:
    """Makes a comment where the original line changes. ``full_paths`` keeps folders."""

    def __init__(self, *, full_paths: bool = False) -> None:
        self.all: list[Comment] = []
        self._full_paths = full_paths
        self._last: Comment | None = None

    def before(self, node: Node) -> ast.stmt | None:
        """The marker for the line that ``node`` comes from, None where it was told already."""
        comment = _described(node.range, full_paths=self._full_paths)
        if comment is None or comment == self._last:
            return None
        self._last = comment
        self.all.append(comment)
        marker = ast.Name(_MARKER, ast.Load())
        setattr(marker, _NUMBER, len(self.all) - 1)
        return ast.Expr(marker)

    @contextmanager
    def nested(self) -> Iterator[None]:
        yield
        self._last = None

    def start(self) -> None:
        self._last = None


class Comment(NamedTuple):
    """A line of the original program: ``file:line``, and its text."""

    where: str
    text: str

    def beside(self, line: str) -> str:
        """The comment before a line of Python, which does not say the same twice."""
        is_same = line.strip().rstrip(":") == self.text
        return f"# {self.where}" if is_same or not self.text else f"# {self.where}: {self.text}"


def _described(range_: Range | None, *, full_paths: bool) -> Comment | None:
    location = None if range_ is None else range_.location
    if location is None or not location.filename:
        return None
    name = location.filename
    if not full_paths:
        name = _SEPARATORS.split(name)[-1]
    text = _printable(location.text).rstrip(": ")
    return Comment(f"{_printable(name)}:{location.line}", text)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def is_marker(node: ast.Name) -> bool:
    return hasattr(node, _NUMBER)


def without_markers(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements that are no comments."""
    return [
        statement
        for statement in body
        if not (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Name)
            and is_marker(statement.value)
        )
    ]


def marker_name(marker: ast.Name) -> str:
    return f"{_MARKER}{getattr(marker, _NUMBER)}"


def with_comments(text: str, comments: Sequence[Comment]) -> str:
    """The text with comments in the place of their markers."""
    lines = text.split("\n")
    following = [*lines[1:], ""]
    return "\n".join(_line(*pair, comments) for pair in zip(lines, following, strict=True))


def _line(line: str, following: str, comments: Sequence[Comment]) -> str:
    match = _MARKED.fullmatch(line)
    if match is None:
        return line
    indent, number = match.groups()
    shown = f"{indent}{comments[int(number)].beside(following)}"
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
