"""Values as small tables: in HTML of escaped text, without script or style, and in plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice
from typing import Final

MOST_ROWS: Final = 50
MOST_LINES: Final = 20
_LONGEST: Final = 300
_WIDEST: Final = 40  # of a column that others are aligned after


def table(
    title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = (), total: int | None = None
) -> str:
    """Return a table with at most ``MOST_ROWS`` rows; where ``total`` is more, it says so.

    A cell is None where nothing is known.
    """
    shown = [*islice(rows, MOST_ROWS)]
    more = [] if total is None or total <= len(shown) else [(f"and {total - len(shown):,} more",)]
    body = "".join(_row("td", cells) for cells in [*shown, *more])
    return (
        f"<table><caption>{_text(title)}</caption>{_row('th', head) if head else ''}{body}</table>"
    )


def lines(rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the first ``MOST_LINES`` rows as text in columns, and how many are left out."""
    shown = [[*map(_cell, row)] for row in rows[:MOST_LINES]]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()
    if len(rows) > len(shown):
        yield f"and {len(rows) - len(shown):,} more"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(value: object) -> str:
    return escape(_cell(value))


def _cell(value: object) -> str:
    text = "" if value is None else printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def printable(text: str) -> str:
    """Return a text in one line, with escapes for what would control a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
