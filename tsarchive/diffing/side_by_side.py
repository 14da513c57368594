"""Two texts of a function side by side, names of variables and of mangling aside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from keyword import iskeyword
from typing import Final, NamedTuple

from tsarchive.diffing.alignment import aligned, spans_between
from tsarchive.diffing.report import SideBySide
from tsarchive.diffing.routines import source_of
from tsarchive.formats.contents import Place, Routine

_CONTEXT: Final = 3
# A name that is no part of a longer one, is not called, and is no keyword of a call.
_VARIABLE: Final = re.compile(r"(?<![\w.\"'])([A-Za-z_]\w*)(?![\w\"'(.]|=[^=])")
_LITERAL: Final = re.compile(r"""\b\d[\w.+-]*|"[^"]*"|'[^']*'|\b(?:True|False|None)\b""")
_MANGLED: Final = re.compile(r"___torch_mangle_\d+\.")


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

    Lines of these numbers differ, however alike their texts are.
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
        for row in zip_longest(left, right):
            yield _Row(*row, False)
        if pair is not None:
            line, other = own[pair[0]], others[pair[1]]
            is_same = keys[0][pair[0]] == keys[1][pair[1]]
            is_same = is_same and line.line not in before and other.line not in after
            yield _Row(line, other, is_same)


def _key(text: str) -> str:
    return _VARIABLE.sub(_anonymous, _MANGLED.sub("", text))


def _without_literals(key: str) -> str:
    return _LITERAL.sub("", key)


def _anonymous(match: re.Match[str]) -> str:
    return match[0] if iskeyword(match[0]) else "_"


def _shown(rows: Iterator[_Row]) -> Iterator[SideBySide]:
    """Yield rows with the lines of the user where they are others than in the row before."""
    last = [None, None]
    for before, after, is_same in rows:
        found = [source_of(before), source_of(after)]
        shown = [None if own == other else own for own, other in zip(found, last, strict=True)]
        last = [own or other for own, other in zip(found, last, strict=True)]
        texts = (place and place.text for place in (before, after))
        yield SideBySide(*texts, is_same, (shown[0], shown[1]))
