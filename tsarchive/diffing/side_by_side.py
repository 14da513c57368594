"""Two texts of a function side by side, names of variables and of mangling aside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from keyword import iskeyword
from typing import Final, NamedTuple

from tsarchive.diffing.alignment import aligned, spans_between
from tsarchive.diffing.report import SideBySide, SourceLine
from tsarchive.diffing.routines import source_of
from tsarchive.formats.contents import Place, Routine
from tsarchive.ir.names import unmangled_text

_CONTEXT: Final = 3
# A name that is no part of a longer one, is not called, and is no keyword of a call.
# So is the number of a value of ExecuTorch.
_VARIABLE: Final = re.compile(r"(?<![\w.\"'])([A-Za-z_]\w*|%\d+)(?![\w\"'(.]|=[^=])")
_LITERAL: Final = re.compile(r"""\b\d[\w.+-]*|"[^"]*"|'[^']*'|\b(?:True|False|None)\b""")


class _Row(NamedTuple):
    before: Place | None
    after: Place | None
    is_same: bool


def side_by_side(
    before: Routine | None,
    after: Routine | None,
    changed_before: frozenset[int] = frozenset(),
    changed_after: frozenset[int] = frozenset(),
) -> Sequence[SideBySide]:
    """Return the lines that differ, each with a few around it.

    Lines of these numbers differ, however alike their texts are, and no others: names of what is
    made on the way say nothing. Without numbers the texts tell.
    """
    own, others = ([*routine.lines()] if routine else [] for routine in (before, after))
    rows = [*_rows(own, others, changed_before, changed_after)]
    near = {
        index + offset
        for index, row in enumerate(rows)
        if not row.is_same
        for offset in range(-_CONTEXT, _CONTEXT + 1)
    }
    return [*_shown(row for index, row in enumerate(rows) if index in near)]


def _rows(
    own: Sequence[Place], others: Sequence[Place], before: frozenset[int], after: frozenset[int]
) -> Iterator[_Row]:
    keys = [[_key(place.text) for place in places] for places in (own, others)]
    loose = [[*map(_without_literals, side)] for side in keys]
    pairs = aligned([(keys[0], keys[1]), (loose[0], loose[1])])
    for gap, pair in zip(spans_between(pairs, len(own), len(others)), [*pairs, None], strict=True):
        left = own[gap.before : gap.before_end]
        right = others[gap.after : gap.after_end]
        for one, its in zip_longest(left, right):
            yield _Row(one, its, not _is_among(one, before, its, after))
        if pair is not None:
            line, other = own[pair[0]], others[pair[1]]
            is_same = keys[0][pair[0]] == keys[1][pair[1]] or bool(before or after)
            is_named = (before or after) and _is_among(line, before, other, after)
            yield _Row(line, other, is_same and not is_named)


def _is_among(
    one: Place | None, before: frozenset[int], other: Place | None, after: frozenset[int]
) -> bool:
    """Whether either line has one of the numbers; where there are none, all do."""
    if not before and not after:
        return True
    sides = (one, before), (other, after)
    return any(place is not None and place.line in lines for place, lines in sides)


def _key(text: str) -> str:
    return _VARIABLE.sub(_anonymous, unmangled_text(text))


def _without_literals(key: str) -> str:
    return _LITERAL.sub("", key)


def _anonymous(match: re.Match[str]) -> str:
    return match[0] if iskeyword(match[0]) else "_"


def _shown(rows: Iterator[_Row]) -> Iterator[SideBySide]:
    """Yield rows with the lines of the user where they are others than in the row before."""
    last: list[SourceLine | None] = [None, None]
    for before, after, is_same in rows:
        found = source_of(before), source_of(after)
        own, other = (
            None if line == known else line for line, known in zip(found, last, strict=True)
        )
        last = [line or known for line, known in zip(found, last, strict=True)]
        yield SideBySide(_text(before), _text(after), is_same, (own, other))


def _text(place: Place | None) -> str | None:
    return None if place is None else unmangled_text(place.text)
