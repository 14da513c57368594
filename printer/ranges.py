"""Where code came from: sources, ranges in them, and text that remembers the range of each part.

Records are made by the rules of torch's printer: writing text adds a record at the current byte
offset when the range differs from that of the last record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(eq=False, frozen=True, slots=True)
class Source:
    """A piece of user source. Compared by identity: adopters intern sources that are one."""

    text: str
    filename: str | None
    first_line: int


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes ``begin`` to ``end`` of a source. Nodes without a place have None instead."""

    source: Source
    begin: int
    end: int


class TaggedRange(NamedTuple):
    """From byte ``offset`` of the printed text on, text belongs to ``range``."""

    offset: int
    range: Range | None


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


class TaggedText:
    """Text under construction, with range records."""

    __slots__ = ("length", "parts", "records")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.records: list[TaggedRange] = []
        self.length = 0

    def write(self, text: str, range_: Range | None) -> None:
        if not text:
            return
        if not self.records or self.records[-1].range != range_:
            self.records.append(TaggedRange(self.length, range_))
        self.parts.append(text)
        self.length += byte_length(text)

    def append(self, other: TaggedText) -> None:
        for offset, range_ in other.records:
            if not self.records or self.records[-1].range != range_:
                self.records.append(TaggedRange(self.length + offset, range_))
        self.parts.extend(other.parts)
        self.length += other.length

    def __str__(self) -> str:
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""
