"""Where in bytes a pickle may start: where a reader would begin, and where it looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .budgets import Budget
from .pickle_opcodes import OPCODES

_NAME: Final = rb"[A-Za-z_][\w.]*"
_LONGEST_MODULE: Final = 200
# Opcodes that can follow a global before which there is nothing.
_AFTER_GLOBAL: Final = {
    code
    for code, opcode in OPCODES.items()
    if opcode.pops <= 1 and not opcode.has_mark and not opcode.name.endswith("GET")
}
# A pickle begins with its protocol, or names a global before long: in two lines, or in two texts.
# To look for two lines from every byte on would take the square of the time. The end of the first
# line is looked for instead; it is the end of a name no longer than names of modules are.
_MEMO: Final = rb"(?:\x94|q.|r.{4})?"
_TEXTS: Final = rb"|".join(
    text + _NAME + _MEMO + rb"(?:\x8c.|X..\0\0)[A-Za-z_]" for text in (rb"\x8c.", rb"X..\0\0")
)
_LIKELY = re.compile(rb"\x80[\x02-\x05]|\n" + _NAME + rb"\n|" + _TEXTS, re.DOTALL)
_FIRST_LINE = re.compile(rb"[ci](?=" + _NAME + rb"\Z)")
# What may stand before a name: the mark of a list of arguments, or a container.
_OPENING = re.compile(rb"[(\]}]")
_NEAR: Final = 512
_MOST_OPENINGS: Final = 16

_ARRAY: Final = b"\x93NUMPY"
_LENGTHS: Final = {b"\x01": slice(8, 10), b"\x02": slice(8, 12), b"\x03": slice(8, 12)}


def array_starts(data: bytes) -> list[int]:
    """Where the data of a NumPy file begin: a pickle, where they are objects."""
    length = _LENGTHS.get(data[6:7]) if data.startswith(_ARRAY) else None
    return [] if length is None else [length.stop + int.from_bytes(data[length], "little")]


def likely_starts(data: bytes, start: int, budget: Budget) -> Iterator[int]:
    """Where pickles may start from ``start`` on, about in order."""
    position = tried = start
    while (match := _LIKELY.search(data, position)) is not None:
        position = match.start() + 1
        budget.spend(1)
        if budget.is_spent:
            return
        found = _of_lines(data, start, match) if match[0][:1] == b"\n" else [match.start()]
        if found:
            yield from (place for place in found if _stands_alone(data, place, match.end()))
            yield from _openings(data, max(tried, found[-1] - _NEAR), found[-1])
            tried = found[-1]


def _of_lines(data: bytes, start: int, match: re.Match[bytes]) -> list[int]:
    """Where opcodes may stand that take the rest of the line before the match for a module."""
    end = match.start()
    begin = max(start, end - _LONGEST_MODULE)
    begin = max(begin, data.rfind(b"\n", begin, end) + 1)
    return [begin + line.start() for line in _FIRST_LINE.finditer(data[begin:end])]


def _stands_alone(data: bytes, place: int, end: int) -> bool:
    """Whether a pickle may begin here, with nothing on its stack; ``end`` is that of a name."""
    code = data[place : place + 1]
    return code != b"i" and (code != b"c" or data[end : end + 1] in _AFTER_GLOBAL)


def _openings(data: bytes, start: int, end: int) -> list[int]:
    """Where something opens, the nearest first."""
    found = [start + opening.start() for opening in _OPENING.finditer(data[start:end])]
    return found[: -_MOST_OPENINGS - 1 : -1]
