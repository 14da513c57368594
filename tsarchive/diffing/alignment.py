"""Alignment of two sequences by their keys: which item of one is which of the other."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

# Sequences whose lengths multiply to more are not compared item by item, which takes that long.
_MOST_PAIRS: Final = 250_000
# From here on the longest equal run may lie anywhere in code that repeats itself.
_MANY_PAIRS: Final = 2_500
# In long sequences so many items are looked for that one side alone has.
_MOST_EDITS: Final = 64


class Span(NamedTuple):
    """A range of both sequences, from ``before`` and ``after`` up to their ends."""

    before: int
    before_end: int
    after: int
    after_end: int

    @property
    def is_open(self) -> bool:
        """Whether either sequence has anything in the range."""
        return self.before < self.before_end or self.after < self.after_end

    @property
    def is_shared(self) -> bool:
        """Whether both sequences have something in the range."""
        return self.before < self.before_end and self.after < self.after_end


Pair = tuple[int, int]
Keys = tuple[Sequence[Hashable], Sequence[Hashable]]


def aligned(tiers: Sequence[Keys], *, in_place: Keys | None = None) -> list[Pair]:
    """Return pairs of positions, increasing on both sides.

    Each tier has a key for each item of both sequences. Items with equal keys of the first tier are
    paired first; those of later tiers pair what is between. What the first tier tells apart by
    more than the item itself is no measure of long ranges, which wait for the second. Where all
    keys of ``in_place`` are equal, items are paired one by one.
    """
    before, after = tiers[0]
    if in_place is not None and [*in_place[0]] == [*in_place[1]]:
        return [(index, index) for index in range(len(before))]
    pairs: list[Pair] = []
    for tier, (own, other) in enumerate(tiers):
        found = [
            pair
            for span in spans_between(pairs, len(before), len(after))
            if span.is_shared
            for pair in _matched(own, other, span, has_edits=tier > 0)
        ]
        pairs = sorted(pairs + found)
    return pairs


def spans_between(pairs: Sequence[Pair], before: int, after: int) -> Iterator[Span]:
    """Yield what lies before, between and behind pairs; ranges may be empty."""
    last = (-1, -1)
    for pair in (*pairs, (before, after)):
        yield Span(last[0] + 1, pair[0], last[1] + 1, pair[1])
        last = pair


def _matched(
    before: Sequence[Hashable], after: Sequence[Hashable], whole: Span, *, has_edits: bool
) -> list[Pair]:
    """Pair equal keys of a range. What occurs once on both sides splits it, as in patience diff."""
    found: list[Pair] = []
    waiting = [whole]
    while waiting:
        span, ends = _trimmed(before, after, waiting.pop())
        found += ends
        if not span.is_shared:
            continue
        anchors = _anchors(before, after, span)
        if anchors:
            found += anchors
            waiting += _inside(span, anchors)
        else:
            found += _by_items(before, after, span, has_edits=has_edits)
    return found


def _trimmed(
    before: Sequence[Hashable], after: Sequence[Hashable], span: Span
) -> tuple[Span, list[Pair]]:
    """Return what is left without equal beginnings and ends, and the pairs of these."""
    b, b_end, a, a_end = span
    found: list[Pair] = []
    while b < b_end and a < a_end and before[b] == after[a]:
        found.append((b, a))
        b, a = b + 1, a + 1
    while b < b_end and a < a_end and before[b_end - 1] == after[a_end - 1]:
        b_end, a_end = b_end - 1, a_end - 1
        found.append((b_end, a_end))
    return Span(b, b_end, a, a_end), found


def _anchors(before: Sequence[Hashable], after: Sequence[Hashable], span: Span) -> list[Pair]:
    """Return the longest increasing pairs of keys that occur once on each side."""
    counts = Counter(before[span.before : span.before_end])
    others = Counter(after[span.after : span.after_end])
    at = {
        after[place]: place
        for place in range(span.after, span.after_end)
        if others[after[place]] == counts.get(after[place], 0) == 1
    }
    rows = range(span.before, span.before_end)
    return _increasing([(row, at[before[row]]) for row in rows if before[row] in at])


def _increasing(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the longest subsequence whose second numbers increase."""
    ends: list[int] = []
    tops: list[int] = []
    came_from: list[int] = []
    for index, (_, value) in enumerate(pairs):
        place = bisect_left(ends, value)
        ends[place : place + 1] = [value]
        tops[place : place + 1] = [index]
        came_from.append(tops[place - 1] if place else -1)
    found: list[Pair] = []
    index = tops[-1] if tops else -1
    while index >= 0:
        found.append(pairs[index])
        index = came_from[index]
    return found[::-1]


def _inside(span: Span, pairs: Sequence[Pair]) -> Iterator[Span]:
    """Yield what lies between pairs inside of a range."""
    b, a = span.before, span.after
    for pair in (*pairs, (span.before_end, span.after_end)):
        inner = Span(b, pair[0], a, pair[1])
        if inner.is_shared:
            yield inner
        b, a = pair[0] + 1, pair[1] + 1


def _by_items(
    before: Sequence[Hashable], after: Sequence[Hashable], span: Span, *, has_edits: bool
) -> Iterator[Pair]:
    """Pair items in place where most are equal so, else longest equal runs; in long ranges those of
    the shortest edit, if that is short."""
    own, other = before[span.before : span.before_end], after[span.after : span.after_end]
    found = _in_place(own, other)
    count = len(own) * len(other)
    if not found and count > _MANY_PAIRS and has_edits:
        found = _by_edits(own, other)
    if not found and count <= (_MOST_PAIRS if has_edits else _MANY_PAIRS):
        found = _by_runs(own, other)
    for b, a in found:
        yield span.before + b, span.after + a


def _by_runs(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Pair]:
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return [(b + offset, a + offset) for b, a, size in blocks for offset in range(size)]


def _in_place(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Pair]:
    """Return the positions that are equal where most are; none otherwise."""
    if len(before) != len(after):
        return []
    rows = enumerate(zip(before, after, strict=True))
    found = [(place, place) for place, (own, other) in rows if own == other]
    return found if len(found) * 2 > len(before) else []


def _by_edits(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Pair]:
    """Return the pairs that the fewest removals and additions leave, by the algorithm of Myers;
    none where more than a few are needed."""
    ends: dict[int, int] = {}
    trace: list[dict[int, int]] = []
    for edits in range(_MOST_EDITS + 1):
        trace.append(dict(ends))
        for diagonal in range(-edits, edits + 1, 2):
            b = _next_end(ends, diagonal, edits)
            a = b - diagonal
            while b < len(before) and 0 <= a < len(after) and before[b] == after[a]:
                b, a = b + 1, a + 1
            ends[diagonal] = b
            if (b, a) == (len(before), len(after)):
                return _traced(trace, len(before), len(after))
    return []


def _is_added(ends: Mapping[int, int], diagonal: int, edits: int) -> bool:
    """Return whether the last of so many edits that leads to a diagonal is an addition."""
    if abs(diagonal) == edits:
        return diagonal < 0
    return ends[diagonal - 1] < ends[diagonal + 1]


def _next_end(ends: Mapping[int, int], diagonal: int, edits: int) -> int:
    """Return how far before reaches on a diagonal after another edit."""
    if not edits:
        return 0
    is_added = _is_added(ends, diagonal, edits)
    return ends[diagonal + 1] if is_added else ends[diagonal - 1] + 1


def _traced(trace: Sequence[Mapping[int, int]], b: int, a: int) -> list[Pair]:
    """Return the pairs on the way back from the ends of both sequences."""
    found: list[Pair] = []
    for edits, ends in reversed([*enumerate(trace)]):
        diagonal = b - a
        start = _next_end(ends, diagonal, edits)
        while b > start:
            b, a = b - 1, a - 1
            found.append((b, a))
        if edits:
            b, a = (b, a - 1) if _is_added(ends, diagonal, edits) else (b - 1, a)
    return found[::-1]
