"""Elements of a page: escaped HTML, tables, bars, sections, and limits on how much is shown.

HTML has a type of its own, so that text of the file enters a page only escaped. Tables are sorted
and filtered by the script of the page, and readable without it.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, TypeVar

from tsarchive.archive import Archive
from tsarchive.auditing import AuditReport
from tsarchive.compatibility import CompatReport
from tsarchive.describing.text import visible
from tsarchive.findings import Finding
from tsarchive.formats.executorch.content import Program
from tsarchive.formats.executorch.view import ExecutorchView
from tsarchive.leaving.plan import LeavingPlan
from tsarchive.verifying import VerifyReport

_Made = TypeVar("_Made")

ROWS: Final = 2_000
"""The default number of modules, of tensors, of operators, of records, of findings and of planned
values.
"""

LINES_PER_ROW: Final = 5
"""Lines of code, and of user source, per row."""

MAX_TEXT: Final = 400
"""Characters of one name."""

MAX_FACT: Final = 4_000
"""Characters of one fact or message, which may list many names."""

MAX_LINE: Final = 1_000
"""Characters of one line of code."""


_VOID: Final = frozenset({"br", "col", "input", "meta", "rect", "line", "path"})
_WITHOUT_END: Final = frozenset({"br", "col", "input", "meta"})


class Html(str):
    """A piece of a page. A plain string is none, and is escaped wherever it is passed."""

    __slots__ = ()


def text(value: str, most: int = MAX_TEXT) -> Html:
    """Escape text of the file, including whatever a browser would act on.

    Control characters, marks that change the direction of text, and anything else without a glyph
    are written as Python escapes.
    """
    return Html(html.escape(visible(clipped(value, most), keep=""), quote=True))


def clipped(value: str, most: int = MAX_TEXT) -> str:
    """Return the first ``most`` characters, and how many more there are."""
    left = len(value) - most
    return value if left <= 0 else f"{value[:most]}… {left:,} more letters"


def joined(parts: Iterable[str | None], between: str = "") -> Html:
    """Concatenate pieces; plain strings are escaped."""
    return Html(between.join(_piece(part) for part in parts if part is not None))


def tag(name: str, /, *content: str | None, **attributes: str | int | float | bool | None) -> Html:
    """Make an element.

    ``class_`` is the attribute ``class``, ``data_of`` is ``data-of``; None and False omit an
    attribute, True writes its name alone.
    """
    opened = f"<{name}{''.join(_attribute(*pair) for pair in attributes.items())}"
    if name in _WITHOUT_END:
        return Html(f"{opened}>")
    if name in _VOID and not content:
        return Html(f"{opened}/>")
    return Html(f"{opened}>{joined(content)}</{name}>")


def fact_list(lines: Iterable[tuple[str, str]]) -> Html:
    """List labels and values; a value without a label continues the one before."""
    rows: list[Html] = []
    for label, value in lines:
        if label:
            rows.append(tag("dt", label))
        rows.append(tag("dd", text(value, MAX_FACT)))
    return tag("dl", *rows, class_="facts")


def more(shown: int, total: int, noun: str, behind: str = "") -> Html | None:
    """Return ``and 9,500 more modules``, None where all are shown; ``behind`` is appended."""
    left = total - shown
    told = f"and {left:,} more {noun}{'' if left == 1 else 's'}{behind}"
    return tag("p", told, class_="more") if left > 0 else None


def _piece(part: str) -> str:
    return part if isinstance(part, Html) else text(part)


def _attribute(name: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    shown = value if isinstance(value, Html) else text(str(value))
    return f' {written}="{shown}"'


_LENGTH = 100


def counted_bar(part: int, most: int) -> Html:
    """Write a number, and draw it as a share of the largest beside it."""
    return joined((tag("span", f"{part:,}", class_="number"), share_bar(part, most)), " ")


def share_bar(part: int, whole: int) -> Html:
    """Draw ``part`` of ``whole`` as a bar; the number itself stands beside it."""
    length = round(_LENGTH * part / max(whole, 1), 2)
    filled = tag("rect", width=length, height=8, class_="filled")
    return tag("svg", filled, viewBox=f"0 0 {_LENGTH} 8", preserveAspectRatio="none",
               class_="bar", aria_hidden="true")  # fmt: skip


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
    scrolled = tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=name)
    if len(rows) < _FILTERED_FROM:
        return scrolled
    label = tag("label", "Filter ", tag("input", type="search", data_filter=f"table-{name}",
                autocomplete="off", spellcheck="false"))  # fmt: skip
    count = tag("output", f"{len(rows):,}", id=f"count-{name}", data_count=f"table-{name}")
    return joined((tag("p", label, " ", count, class_="tools"), scrolled))


def _heading(text: str, column: int, first: Cell | None) -> Html:
    """Make a heading, aligned like the cells below it."""
    button = tag("button", text, type="button", data_column=column)
    class_ = "number" if first is not None and _is_number(first) else None
    return tag("th", button, scope="col", aria_sort="none", class_=class_)


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


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page that shows ``shown`` of ``total`` things.

    ``data`` is for the script of the page: JSON values.
    """

    name: str
    title: str
    body: Html
    shown: int
    total: int
    data: object = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The file that a page is about.

    ``archive`` is None where it cannot be opened; ``verified`` and ``audited`` where this was not
    requested. ``rows`` limits how much of each kind is shown, ``histograms`` is a pattern for the
    names of tensors whose values are counted. ``plan`` tells the ways out of its format, and
    ``compatibility`` what the torch that is installed does with it.
    """

    name: str
    nbytes: int
    archive: Archive | None
    verified: VerifyReport | None
    audited: AuditReport | None
    rows: int
    histograms: str | None
    plan: LeavingPlan | None = None
    compatibility: CompatReport | None = None
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, make: Callable[[Subject], _Made]) -> _Made:
        """Return what a function makes of the file, made once for all sections that ask for it."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

    @property
    def kind(self) -> str | None:
        """The :attr:`tsarchive.Archive.kind`, or that of the audit for an unreadable file."""
        if self.archive is not None:
            return self.archive.kind
        return None if self.audited is None else self.audited.kind

    @property
    def has_program(self) -> bool:
        """True if it has modules and tensors that can be listed; data files have entries."""
        return self.archive is not None and self.archive.view.has_modules

    @property
    def has_tensors(self) -> bool:
        """True if tensors can be listed, also those beside compiled code."""
        return self.archive is not None and self.archive.view.has_tensors

    @property
    def executorch_program(self) -> Program | None:
        """The program of a file of ExecuTorch, also in a bundle."""
        view = None if self.archive is None else self.archive.view
        return view.program if isinstance(view, ExecutorchView) else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of verify and audit without duplicates, worst first."""
        found: dict[Finding, None] = {}
        for report in (self.verified, self.audited):
            found.update(dict.fromkeys(() if report is None else report.findings))
        return tuple(sorted(found, key=lambda finding: -finding.severity.rank))
