"""The origin of code: sources, ranges in them, and text that remembers who wrote each part."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

# A line of a Python stack: what is recorded for nodes of traced graphs.
_STACK_FRAME = r"(\S.*)\((\d{1,9})\): \S+$"


@dataclass(eq=False, slots=True)
class Source:
    """A piece of user source. Compared by identity: adopters intern sources that are one.

    ``is_read`` is True where torch has it from a file. Nothing changes a source; it is not frozen
    because a save makes thousands, and each would take four times as long.
    """

    text: str
    filename: str | None
    first_line: int
    is_read: bool = False


class Range(NamedTuple):
    """Bytes ``begin`` to ``end`` of a source. Nodes without a place have None instead."""

    source: Source
    begin: int
    end: int

    @property
    def location(self) -> Location | None:
        """The line on which the range begins; None for the place of nothing."""
        source = self.source
        if not source.text:
            return None
        _, starts = _lines_of(source)
        return _location(source, bisect_right(starts, self.begin) - 1)


# Many ranges of one function are asked one after the other.
@lru_cache(maxsize=8)
def _lines_of(source: Source) -> tuple[Sequence[str], Sequence[int]]:
    """Return the lines of a source, and the byte at which each begins."""
    lines = source.text.split("\n")
    return lines, [0, *accumulate(byte_length(line) + 1 for line in lines[:-1])]


@lru_cache(maxsize=64)
def _location(source: Source, before: int) -> Location:
    """Return the line of a source that has so many ``before`` it."""
    lines, _ = _lines_of(source)
    stack = re.match(_STACK_FRAME, lines[before])
    if stack is not None:
        return Location(stack[1], int(stack[2]), "")
    return Location(source.filename or "", source.first_line + before, lines[before].strip())


class Location(NamedTuple):
    """A line of user source: the file as it was named when the code was compiled ("" where that
    is not known), the 1-based number, and the text without indentation.

    Of traced code only the Python stack was recorded: the text is "".
    """

    filename: str
    line: int
    text: str

    def __str__(self) -> str:
        where = f"{self.filename or '<unknown>'}:{self.line}"
        return f"{where}: {self.text}" if self.text else where


class TaggedRange(NamedTuple):
    """From byte ``offset`` of the printed text on, text belongs to ``range``."""

    offset: int
    range: Range | None


class Mark(NamedTuple):
    """At ``offset`` stands the byte that becomes the place of ``node`` when the text is read back.

    ``literal`` is the text of a constant: equal literals of one function become one node.
    ``is_text`` is False where reading back makes the node without any text: a default argument.
    A function or block as ``node`` marks where its body begins, None where it ends.
    """

    offset: int
    node: Any
    literal: str | None = None
    is_text: bool = True


# Without the function around the constructor, which takes as long again: archives have many.
new_range: Callable[[tuple[Source, int, int]], Range] = partial(tuple.__new__, Range)
new_record: Callable[[tuple[int, Range | None]], TaggedRange] = partial(tuple.__new__, TaggedRange)
new_mark: Callable[[tuple[int, Any, str | None, bool]], Mark] = partial(tuple.__new__, Mark)


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


_NOBODY: Final = object()


class TaggedText:
    """Text under construction. ``owners`` says from which offset on which node wrote the text.

    An owner is a graph node, or None for text that stands for no node.
    """

    __slots__ = ("length", "marks", "owners", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.owners: list[tuple[int, Any]] = []
        self.marks: list[Mark] = []
        self.length = 0

    def write(self, text: str, owner: Any) -> None:
        if not text:
            return
        owners = self.owners
        if not owners or owners[-1][1] is not owner:
            owners.append((self.length, owner))
        self.parts.append(text)
        self.length += len(text) if text.isascii() else byte_length(text)

    def append(self, other: TaggedText) -> None:
        owners, shift = self.owners, self.length
        last = owners[-1][1] if owners else _NOBODY
        for offset, owner in other.owners:
            if owner is not last:
                owners.append((shift + offset, owner))
                last = owner
        if other.marks:
            self.marks += [
                new_mark((shift + offset, node, literal, is_text))
                for offset, node, literal, is_text in other.marks
            ]
        self.parts += other.parts
        self.length += other.length

    def owned_by(self, owner: Any) -> TaggedText:
        """Return the same text, all of it written by ``owner``."""
        text = TaggedText()
        text.write(str(self), owner)
        text.marks = self.marks
        return text

    def mark(
        self, offset: int, node: Any, literal: str | None = None, *, is_text: bool = True
    ) -> None:
        self.marks.append(new_mark((offset, node, literal, is_text)))

    def __str__(self) -> str:
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""


def range_records(
    owners: Iterable[tuple[int, Any]], range_of: Callable[[Any], Range | None]
) -> list[TaggedRange]:
    """Return a record for each change of the range, as torch's printer makes them.

    ``range_of`` gives None for the owner None.
    """
    found: list[TaggedRange] = []
    last: object = _NOBODY
    for offset, owner in owners:
        range_ = range_of(owner)
        if range_ is not last and range_ != last:
            found.append(new_record((offset, range_)))
            last = range_
    return found
