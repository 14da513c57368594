"""Capabilities of stdout and stderr: styles, box characters and width."""

from __future__ import annotations

import os
import sys
from unicodedata import category, east_asian_width

import click

from tsarchive.cli.streams import own_stream

_WEIGHTS = ("bold", "dim")
_WITHOUT_STYLES = ("dumb", "unknown")
# Marks that take no place of their own; some of them are of no combining class.
_ON_THE_CHARACTER_BEFORE = ("Mn", "Me")
_AS_ASCII = str.maketrans("─│├└", "-|+`")


def has_styles(*, stderr: bool = False) -> bool:
    """Whether stdout is a terminal, or FORCE_COLOR asks to act as if it were."""
    forced = os.environ.get("FORCE_COLOR")
    stream = own_stream(stderr=stderr)
    is_terminal = stream is not None and stream.isatty() if forced is None else forced
    return bool(is_terminal) and os.environ.get("TERM", "").lower() not in _WITHOUT_STYLES


def styled(text: str, style: str, *, stderr: bool = False) -> str:
    """The text in a style such as ``bold red``, without the colour when NO_COLOR is set.

    The text as it is where no styles are shown.
    """
    if not text or not style or not has_styles(stderr=stderr):
        return text
    words = style.split()
    if os.environ.get("NO_COLOR"):
        words = [word for word in words if word in _WEIGHTS]
    if not words:
        return text
    colours = [word for word in words if word not in _WEIGHTS]
    colour = colours[0] if colours else None
    return click.style(text, colour, bold="bold" in words or None, dim="dim" in words or None)


def drawn(lines: str) -> str:
    """Lines of a box or a tree, in ASCII where stdout cannot show others."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return lines if is_unicode else lines.translate(_AS_ASCII)


def width() -> int | None:
    """The columns of the terminal, or COLUMNS; None for a file or a pipe, which has no bounds."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal():
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def cells(text: str) -> int:
    """How many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if category(char) in _ON_THE_CHARACTER_BEFORE:
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def folded(text: str, limit: int) -> list[str]:
    """Pieces of at most ``limit`` cells, broken at spaces where there are any."""
    if cells(text) <= limit:
        return [text]
    pieces: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cells(joined) <= limit:
            line = joined
            continue
        if line:
            pieces.append(line)
        *whole, line = _cut(word, limit)
        pieces += whole
    return [*pieces, line]


def _cut(word: str, limit: int) -> list[str]:
    pieces, room = [""], limit
    for char in word:
        taken = _cells_of(char)
        if taken > room and pieces[-1]:
            pieces.append("")
            room = limit
        pieces[-1] += char
        room -= taken
    return pieces
