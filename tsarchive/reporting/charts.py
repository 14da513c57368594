"""Charts that a page draws without its script. Each part of one tells its figures in a title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from .html import Html, joined, tag

_COLOURS: Final = 8
_STRIP: Final = 1000
_WIDTH: Final = 720
_HEIGHT: Final = 150
_TOP: Final = 16
_BELOW: Final = 20
_LABELS: Final = 12
_ROW: Final = 18
_MARGIN: Final = 72
_EDGE: Final = 24


class Share(NamedTuple):
    """A part of a whole; ``told`` stands behind its name in the legend."""

    name: str
    amount: int
    told: str


def strip(label: str, shares: Sequence[Share]) -> Html:
    """Draw shares beside each other as one bar, with a legend; the largest comes first."""
    shares = sorted(shares, key=lambda share: -share.amount)
    total = sum(share.amount for share in shares) or 1
    parts: list[Html] = []
    start = 0.0
    for number, share in enumerate(shares):
        width = _STRIP * share.amount / total
        title = tag("title", f"{share.name}: {share.told}")
        parts.append(
            tag("rect", title, x=round(start, 2), y=0, width=round(width, 2), height=20,
                class_=f"part c{number % _COLOURS}")
        )  # fmt: skip
        start += width
    told = f"{label}, as the list below tells"
    bar = tag("svg", *parts, viewBox=f"0 0 {_STRIP} 20", preserveAspectRatio="none",
              class_="bytes", role="img", aria_label=told)  # fmt: skip
    return joined((bar, tag("ul", *_legend(shares, total), class_="legend")))


def _legend(shares: Sequence[Share], total: int) -> Iterator[Html]:
    for number, share in enumerate(shares):
        key = tag("span", class_=f"key c{number % _COLOURS}")
        told = f" {share.told}, {100 * share.amount / total:.1f} %"
        yield tag("li", key, tag("b", share.name), told)


class Column(NamedTuple):
    """A column of a chart: what stands below it, its height, and its title."""

    name: str
    value: int
    told: str


def columns(label: str, shown: Sequence[Column]) -> Html:
    """Draw one column for each value, of as many as fit beside each other."""
    most = max((column.value for column in shown), default=0)
    step = (_WIDTH - _EDGE) / max(len(shown), 1)
    bars = [_column(column, _EDGE + n * step, step, most) for n, column in enumerate(shown)]
    highest = next((n for n, column in enumerate(shown) if column.value == most), 0)
    figure = tag("text", f"{most:,}", x=round(_EDGE + (highest + 0.5) * step, 1), y=_TOP - 4)
    base = tag("line", x1=_EDGE, x2=_WIDTH, y1=_TOP + _HEIGHT, y2=_TOP + _HEIGHT)
    ticks = _ticks([column.name for column in shown], _EDGE, step, _TOP + _HEIGHT)
    return _chart(label, _TOP + _HEIGHT + _BELOW, (*bars, figure, base, *ticks))


def _column(column: Column, x: float, step: float, most: int) -> Html:
    height = max(_HEIGHT * column.value / most, 1) if column.value else 0
    width = max(step - 2, 1)
    return tag("rect", tag("title", column.told), x=round(x + 1, 1), width=round(width, 1),
               y=round(_TOP + _HEIGHT - height, 1), height=round(height, 1))  # fmt: skip


class Range(NamedTuple):
    """A bar from one place of an axis to another, both included, with a figure before it."""

    first: int
    last: int
    figure: str
    told: str


def ranges(label: str, axis: Sequence[str], shown: Sequence[Range]) -> Html:
    """Draw ranges of an axis below each other."""
    step = (_WIDTH - _MARGIN) / max(len(axis), 1)
    below = len(shown) * _ROW
    bars = [_range(found, index * _ROW, step) for index, found in enumerate(shown)]
    base = tag("line", x1=_MARGIN, x2=_WIDTH, y1=below, y2=below)
    ticks = _ticks(axis, _MARGIN, step, below)
    return _chart(label, below + _BELOW, (*bars, base, *ticks))


def _range(found: Range, y: int, step: float) -> Html:
    width = (found.last + 1 - found.first) * step
    bar = tag("rect", tag("title", found.told), x=round(_MARGIN + found.first * step + 1, 1),
              width=round(width - 2, 1), y=y + 2, height=_ROW - 4)  # fmt: skip
    figure = tag("text", found.figure, x=_MARGIN - 8, y=y + _ROW - 5, class_="left")
    return joined((figure, bar))


def _ticks(names: Sequence[str], left: int, step: float, below: int) -> Iterator[Html]:
    """Draw the names below an axis, or every so many of them that they do not touch."""
    every = -(-len(names) // _LABELS)
    for index in range(0, len(names), every or 1):
        yield tag("text", names[index], x=round(left + (index + 0.5) * step, 1), y=below + 15)


def _chart(label: str, height: int, parts: Sequence[Html]) -> Html:
    return tag("svg", *parts, viewBox=f"0 0 {_WIDTH} {height}", class_="histogram", role="img",
               aria_label=label)  # fmt: skip
