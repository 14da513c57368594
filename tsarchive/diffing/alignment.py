"""Alignment of two sequences by their keys: which item of one is which of the other."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

# Sequences whose lengths multiply to more are not compared item by item, which takes that long.
_MOST_PAIRS: Final = 250_000


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
    paired first; those of later tiers pair what is between. Where all keys of ``in_place`` are
    equal, items are paired one by one.
    """
    before, after = tiers[0]
    if in_place is not None and [*in_place[0]] == [*in_place[1]]:
        return [(index, index) for index in range(len(before))]
    pairs: list[Pair] = []
    for own, other in tiers:
        found = [
            pair
            for span in spans_between(pairs, len(before), len(after))
            if span.is_shared
            for pair in _matched(own, other, span)
        ]
        pairs = sorted(pairs + found)
    return pairs


def spans_between(pairs: Sequence[Pair], before: int, after: int) -> Iterator[Span]:
    """Yield what lies before, between and behind pairs; ranges may be empty."""
    last = (-1, -1)
    for pair in (*pairs, (before, after)):
        yield Span(last[0] + 1, pair[0], last[1] + 1, pair[1])
        last = pair


def _matched(before: Sequence[Hashable], after: Sequence[Hashable], whole: Span) -> list[Pair]:
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
            found += _by_items(before, after, span)
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


def _by_items(before: Sequence[Hashable], after: Sequence[Hashable], span: Span) -> Iterator[Pair]:
    """Pair longest equal runs; in ranges too long for that nothing is paired."""
    own, other = before[span.before : span.before_end], after[span.after : span.after_end]
    if len(own) * len(other) > _MOST_PAIRS:
        return
    matcher = SequenceMatcher(None, own, other, autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            yield span.before + block.a + offset, span.after + block.b + offset
