"""Text in the cells of a terminal: measured, folded and shortened, as its encoding takes it."""

from __future__ import annotations

import re
import sys
from typing import Final, TextIO
from unicodedata import category, east_asian_width

# Marks that take no place of their own; some of them are of no combining class.
_ON_THE_CHARACTER_BEFORE: Final = ("Mn", "Me")
_AS_ASCII: Final = str.maketrans("─━│├└", "-#|+`")


def encodable(text: str, stream: TextIO | None) -> str:
    """Return the text with escapes in place of characters that the encoding of the stream lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def drawn(lines: str, stream: TextIO | None = None) -> str:
    """Return lines of a box or a tree, in ASCII where stdout or the stream cannot show others."""
    is_unicode = ((stream or sys.stdout).encoding or "").lower().startswith("utf")
    return lines if is_unicode else lines.translate(_AS_ASCII)


def cells(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if category(char) in _ON_THE_CHARACTER_BEFORE:
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def folded(text: str, limit: int, *, hang: int = 0, is_whole: bool = False) -> list[str]:
    """Return pieces of at most ``limit`` cells, broken at spaces where there are any.

    All but the first have ``hang`` cells less. Words that are longer are cut, unless ``is_whole``.
    """
    if cells(text) <= limit:
        return [text]
    pieces: list[str] = []
    line, room = "", limit
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cells(joined) <= room:
            line = joined
            continue
        if line:
            pieces.append(line.rstrip(" "))
            room = limit - hang
        *cut, line = [word] if is_whole else _cut(word, room)
        pieces += cut
    return [*pieces, line]


_PUNCTUATION: Final = "/.,:;"


def _cut(word: str, limit: int) -> list[str]:
    """Return pieces of a word, which end behind punctuation that is in their second half."""
    pieces, room = [""], limit
    for char in word:
        taken = _cells_of(char)
        if taken > room and pieces[-1]:
            piece = pieces.pop()
            end = max(map(piece.rfind, _PUNCTUATION)) + 1
            end = end if 2 * end > len(piece) else len(piece)
            pieces += piece[:end], piece[end:]
            room = limit - cells(pieces[-1])
        pieces[-1] += char
        room -= taken
    return pieces


NARROWEST: Final = 8
"""No column is made narrower, however narrow the terminal is."""

# In front of a text that stands beside it.
_LABEL: Final = re.compile(r" +[a-z]+: +|[a-z ]+: {2,}")


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` cells, with dots for the end of longer ones."""
    return text if cells(text) <= limit else f"{_cut(text, max(limit - 3, 1))[0]}..."


def hanging(text: str, limit: int, lead: int = 0) -> list[str]:
    """Return lines of at most ``limit`` cells, in which words stay whole: people copy names.

    All but the first are indented: by ``lead`` cells or to the text behind a label, such as
    ``  hint:``, where either leaves room, or else by two spaces more than the first.
    """
    begin = len(text) - len(text.lstrip(" "))
    label = _LABEL.match(text)
    lead = lead or (label.end() if label else 0)
    kept, hang = (lead, 0) if begin < lead <= limit - NARROWEST else (begin, 2)
    room = max(limit - kept, NARROWEST)
    first, *rest = folded(text[kept:], room, hang=hang, is_whole=True)
    return [text[:kept] + first, *(" " * (kept + hang) + line for line in rest)]
