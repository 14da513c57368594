"""Tables that the script of the page sorts and filters, and that are readable without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from .html import Html, joined, tag

# Shorter tables need no filter.
_FILTERED_FROM: Final = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell. ``value`` is its sort key: a number, or text in place of what is shown."""

    content: str
    value: int | str | None = None
    is_code: bool = False


def table(
    name: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    keys: Sequence[str | None] = (),
) -> Html:
    """Make a table; ``name`` is unique in a page. ``keys`` name what each row opens."""
    columns = enumerate(zip_longest(headings, rows[0] if rows else ()))
    head = tag("tr", *(_heading(text, index, cell) for index, (text, cell) in columns))
    body = [_row(row, key) for row, key in zip_longest(rows, keys)]
    made = tag("table", tag("thead", head), tag("tbody", *body), id=f"table-{name}",
               data_sortable=True)  # fmt: skip
    filtering = _filter(name, len(rows)) if len(rows) >= _FILTERED_FROM else None
    return joined((filtering, tag("div", made, class_="scroll")))


def _heading(text: str, column: int, first: Cell | None) -> Html:
    """Make a heading, aligned like the cells below it."""
    button = tag("button", text, type="button", data_column=column)
    class_ = "number" if first is not None and _is_number(first) else None
    return tag("th", button, scope="col", aria_sort="none", class_=class_)


def _filter(name: str, total: int) -> Html:
    label = tag("label", "Filter ", tag("input", type="search", data_filter=f"table-{name}",
                autocomplete="off", spellcheck="false"))  # fmt: skip
    count = tag("output", f"{total:,}", id=f"count-{name}", data_count=f"table-{name}")
    return tag("p", label, " ", count, class_="tools")


def _row(row: Sequence[Cell], key: str | None) -> Html:
    first = tag("th", _content(row[0], key), scope="row", class_=_class(row[0]))
    rest = (tag("td", cell.content, class_=_class(cell), data_value=cell.value) for cell in row[1:])
    return tag("tr", first, *rest, data_opens=key)


def _content(cell: Cell, key: str | None) -> str:
    if key is None:
        return cell.content
    return tag("button", cell.content, type="button", class_="opens", aria_expanded="false")


def _class(cell: Cell) -> str | None:
    classes = ["code"] if cell.is_code else []
    if _is_number(cell):
        classes.append("number")
    return " ".join(classes) or None


def _is_number(cell: Cell) -> bool:
    return isinstance(cell.value, int) and not cell.is_code and not isinstance(cell.content, Html)
