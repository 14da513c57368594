"""The operators that a file calls, with their number of calls and their abilities."""

from __future__ import annotations

from typing import Final

from tsarchive.scanning.report import OperatorUse

from .bars import share_bar
from .html import Html, joined, more, tag
from .section import Section, Subject
from .tables import Cell, table

_PLAIN: Final = "compute"


def operators(subject: Subject) -> Section | None:
    """Make the section; None for files without operators."""
    uses = {use.operator: use for use in subject.audited.operators} if subject.audited else {}
    counts = subject.archive.view.operators() if subject.archive and subject.has_program else None
    if counts is None:
        counts = {name: len(use.places) for name, use in uses.items()}
    if not counts:
        return None
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ordered[: subject.rows]
    most = shown[0][1]
    rows = [_row(name, count, most, uses.get(name.partition(".")[0])) for name, count in shown]
    headings = ("operator", "calls", "what it can do") if uses else ("operator", "calls")
    body = joined((table("operators", headings, rows), more(len(rows), len(counts), "operator")))
    return Section("operators", "Operators", body, len(rows), len(counts))


def _row(name: str, count: int, most: int, use: OperatorUse | None) -> list[Cell]:
    cells = [Cell(name, is_code=True), Cell(_bar(count, most), value=count)]
    if use is not None:
        cells.append(Cell(_ability(use), value=use.risk.value))
    return cells


def _bar(count: int, most: int) -> Html:
    return joined((tag("span", f"{count:,}", class_="number"), share_bar(count, most)), " ")


def _ability(use: OperatorUse) -> Html:
    style = "risk plain" if use.risk.value == _PLAIN else "risk"
    certain = "" if use.is_certain else " (or a method of that name)"
    return joined((tag("span", use.risk.value, class_=style), f" {use.reason}{certain}"))
