"""What notebooks show of values: small tables in HTML, of escaped text, without script or style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Final

MOST_ROWS: Final = 50
_LONGEST: Final = 300


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


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
