"""Syntax highlighting of Python as archives hold it, and of similar listings."""

from __future__ import annotations

import re
from keyword import kwlist
from typing import Final

from .html import Html, clipped, joined, tag, text

# Each alternative takes at least one letter and never backtracks: time is linear in the line.
_TOKENS: Final = re.compile(
    r"""
      (?P<comment> \#.* )
    | (?P<string> (?:\b[rbfuRBFU]{1,2})? (?: "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? ) )
    | (?P<number> \b\d[\w.]* )
    | (?P<value> %\d+ )
    | (?P<operator> [A-Za-z_]\w*::[\w.]+ )
    | (?P<word> [A-Za-z_]\w* )
    """,
    re.VERBOSE,
)
_CLASSES: Final = {
    "comment": "tc", "string": "ts", "number": "tn", "value": "tv", "operator": "to",
}  # fmt: skip
_CONSTANTS: Final = frozenset({"False", "None", "True"})
_KEYWORDS: Final = frozenset(kwlist) - _CONSTANTS
_DEFINING: Final = frozenset({"class", "def"})


def highlight_line(line: str, most: int) -> Html:
    """Highlight a line of source, of which at most ``most`` characters are shown."""
    line = clipped(line, most)
    parts: list[Html] = []
    end, before = 0, ""
    for found in _TOKENS.finditer(line):
        parts.append(_escaped(line[end : found.start()]))
        class_ = _class_of(found, before)
        token = _escaped(found[0])
        parts.append(tag("span", token, class_=class_) if class_ else token)
        end, before = found.end(), found[0]
    parts.append(_escaped(line[end:]))
    return joined(parts)


def _class_of(token: re.Match[str], before: str) -> str | None:
    kind = token.lastgroup or ""
    if kind != "word":
        return _CLASSES[kind]
    if token[0] in _KEYWORDS:
        return "tk"
    if token[0] in _CONSTANTS:
        return "tn"
    return "td" if before in _DEFINING else None


def _escaped(piece: str) -> Html:
    return text(piece, len(piece))
