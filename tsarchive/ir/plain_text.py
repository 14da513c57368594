"""Text that is so plain that no scan of its tokens could refuse it.

That is nearly all text that torch prints: lines of ASCII with short numbers, and strings and
brackets that end. A compiled expression finds how far it goes; :mod:`.caps` scans the rest.
"""

from __future__ import annotations

import re
from typing import Final

_DEEPEST: Final = 4
# What needs no look at its neighbours: words and signs, but for brackets, quotes and `#;?$`\`.
_SIGNS: Final = r"\w .,:=+\-*/<>&|^%~@!"
_QUOTED: Final = r"""(?:"[^"\\\n]*(?:\\.[^"\\\n]*)*"(?!")|'[^'\\\n]*(?:\\.[^'\\\n]*)*'(?!'))"""
# Letters in front would change its meaning.
_STRING: Final = rf"(?<!\w){_QUOTED}"
_EXPONENT: Final = r"(?:e[-+]?[0-9]{1,3})?(?![\w.])"
# Strings, and what may be wrong: a quote that begins none (to look for the end of each takes long),
# and numbers that may be malformed or long, by their first digit or a point before it.
_DOUBTFUL: Final = re.compile(
    rf"{_QUOTED}|(?P<doubt>[\"']|[0-9](?<![\w.].)(?![0-9]{{0,30}}(?:\.[0-9]{{0,40}})?{_EXPONENT})"
    rf"|\.[0-9](?![0-9]{{0,40}}{_EXPONENT}))",
    re.ASCII | re.DOTALL,
)


def _bracketed(levels: int) -> str:
    """Anything in brackets, of which ``levels`` more may nest; only there do lines go on."""
    inside = _sequence(_bracketed(levels - 1) if levels else None, rf"[{_SIGNS}\n]*")
    return rf"[(\[{{]{inside}[)\]}}]"


def _sequence(bracketed: str | None, signs: str) -> str:
    parts = _STRING if bracketed is None else f"{_STRING}|{bracketed}"
    return f"{signs}(?:(?:{parts}){signs})*"


_LINES: Final = re.compile(
    rf"(?:{_sequence(_bracketed(_DEEPEST - 1), f'[{_SIGNS}]*')}\n)+", re.ASCII | re.DOTALL
)


def plain_end(text: str, longest: int) -> int:
    """Return how far the text is plain; a line begins there.

    No line before has more than ``longest`` characters, those of brackets that it opens included.
    """
    limit = _first_doubtful(text)
    position = 0
    while found := _LINES.match(text, position, min(limit, position + longest)):
        position = found.end()
    return position


def _first_doubtful(text: str) -> int:
    for match in _DOUBTFUL.finditer(text):
        if match["doubt"]:
            return match.start()
    return len(text)
