"""Sections of a page about two files: what changed from one to the other, in lists and in code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, NamedTuple

from tsarchive.analyses.encoding import Plain
from tsarchive.archive import Archive
from tsarchive.describing.contents import TensorInfo, fact_lines
from tsarchive.describing.text import plural, size
from tsarchive.diffing.report import (
    Change,
    DiffReport,
    MethodChange,
    OperatorUse,
    SideBySide,
    ValueDifference,
)
from tsarchive.formats.registry import format_named, title_of
from tsarchive.ir.names import closest

from .html import (
    LINES_PER_ROW,
    MAX_FACT,
    Cell,
    Html,
    Section,
    joined,
    more,
    table,
    tag,
    text,
)
from .side_by_side import block, marked

_SAME: Final = "These are the same model."
_PARTLY: Final = "No difference was found in what can be compared of them:"
MODULE: Final = "module"
"""The kind of changes that tell of a whole module."""
_EXTRA_FILE: Final = "extra file"
_FILE: Final = "file"


class Side(NamedTuple):
    """One of two files."""

    name: str
    nbytes: int
    archive: Archive

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensors by name, where they can be listed."""
        return self.archive.tensors if self.archive.view.has_tensors else {}

    @property
    def facts(self) -> dict[str, str]:
        """The facts of ``tsarchive info`` by label."""
        found = format_named(self.archive.kind).describe(self.archive, self.name, self.nbytes)
        facts: dict[str, str] = {}
        label = ""
        for name, value in fact_lines(found):
            label = name or label
            facts[label] = f"{facts[label]}\n{value}" if label in facts else value
        return facts


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two files, and how they differ.

    ``rows`` limits how much of each kind is shown; ``histograms`` is a pattern for the names of
    tensors whose changes are counted.
    """

    report: DiffReport
    before: Side
    after: Side
    rows: int
    histograms: str

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both files."""
        return self.before, self.after

    @property
    def moved(self) -> dict[str, str]:
        """The paths before of modules that were renamed or moved, by those after."""
        moves = (change for change in self.report.changes if change.kind == MODULE)
        return {str(m.after): str(m.before) for m in moves if m.before and m.after}

    def name_before(self, name: str) -> str:
        """Return what is called so after by its name before."""
        moved = self.moved
        path = closest(name, moved)
        return moved[path] + name.removeprefix(path) if path else name


def header(compared: Comparison) -> Html:
    """Return the head of the page: what is compared with what, and the result in a few words."""
    before, after = compared.sides
    heading = tag("h1", before.name, tag("span", " → ", class_="arrow"), after.name)
    files = (f"{title_of(s.archive.kind)}, {size(s.nbytes)}" for s in compared.sides)
    told = joined((" → ".join(dict.fromkeys(files)), *_badges(compared.report)), " ")
    return joined((heading, tag("p", told)))


def _badges(report: DiffReport) -> Iterator[Html]:
    if report.same:
        yield tag("b", "same model", class_="badge good")
    elif report.changes:
        yield tag("a", plural(len(report.changes), "change"), href="#changes",
                  class_="badge warning")  # fmt: skip


def overview(compared: Comparison) -> Section:
    """Make the section: the result, and the facts of both files."""
    report = compared.report
    body = joined((tag("p", _verdict(report)), _facts(compared)))
    return Section("overview", "Overview", body, 1, 1)


def _verdict(report: DiffReport) -> str:
    if not report.changes:
        parts = " and ".join(report.compared)
        if not report.not_compared:
            return f"{_SAME} Compared were {parts}."
        return f"{_PARTLY} {parts or 'nothing'}."
    counts = Counter(change.kind for change in report.changes)
    told = (f"{kind} ({count:,})" if count > 1 else kind for kind, count in counts.most_common())
    return f"What changed: {', '.join(told)}."


def _facts(compared: Comparison) -> Html:
    before, after = (side.facts for side in compared.sides)
    rows = [_fact_row(label, before.get(label, ""), after.get(label, ""))
            for label in dict.fromkeys((*before, *after)) if label != _FILE]  # fmt: skip
    head = tag("tr", *(tag("th", name, scope="col") for name in ("", "before", "after")))
    made = tag("table", tag("thead", head), tag("tbody", *rows), class_="both")
    return tag("div", made, class_="scroll")


def _fact_row(label: str, before: str, after: str) -> Html:
    # A file that says nothing of it, as one of another format, does not differ in it.
    style = "differs" if before and after and before != after else None
    values = (tag("td", _several(value), class_=style) for value in (before, after))
    return tag("tr", tag("th", label, scope="row", class_="dim"), *values)


def _several(value: str) -> Html:
    """Return a fact of one or several lines."""
    return joined((text(line, MAX_FACT) for line in value.split("\n")), Html("<br>"))


def changes(compared: Comparison) -> Section | None:
    """Make the list of all changes; None where there are none."""
    return _listing("changes", "Changes", compared.report.changes, compared.rows)


def packing(compared: Comparison) -> Section | None:
    """Make the list of what differs beside the model; None where nothing does."""
    return _listing("packing", "Packing", compared.report.packing, compared.rows)


def extra_files(compared: Comparison) -> Section | None:
    """Make the list of extra files that differ, texts side by side; None where none does."""
    found = [change for change in compared.report.changes if change.kind == _EXTRA_FILE]
    listing = _listing("extra", "Extra files", found, compared.rows)
    if listing is None:
        return None
    texts = (_lines(change) for change in found[: compared.rows])
    drawn = (block(text, compared.rows, is_open=False)[0] for text in texts if text is not None)
    return replace(listing, body=joined((listing.body, *drawn)))


def _lines(change: Change) -> MethodChange | None:
    """Return the lines of a text that is there on both sides, if it has several."""
    before, after = (
        text.splitlines() if isinstance(text, str) else [] for text in (change.before, change.after)
    )
    if not (before and after) or max(len(before), len(after)) == 1:
        return None
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    rows = [
        SideBySide(*pair, kind == "equal")
        for kind, start, end, other, other_end in steps
        for pair in zip_longest(before[start:end], after[other:other_end])
    ]
    return MethodChange(change.where, rows)


_LISTED: Final = ("what", "where", "before", "after", "user source")


def _listing(name: str, title: str, found: Sequence[Change], most: int) -> Section | None:
    if not found:
        return None
    rows = [_change_row(change) for change in found[:most]]
    has_source = any(any(change.source) for change in found[:most])
    headings = _LISTED if has_source else _LISTED[:-1]
    body = joined((table(name, headings, [row[: len(headings)] for row in rows]),
                   more(len(rows), len(found), "change")))  # fmt: skip
    return Section(name, title, body, len(rows), len(found))


def _change_row(change: Change) -> list[Cell]:
    before, after = _shown(change.before), _shown(change.after)
    if change.values is not None:  # digests stand there, which tell less
        before, after = "", _distance(change.values)
    is_pair = bool(before and after) and change.values is None
    pair = marked(before, after) if is_pair else (before, after)
    sources = dict.fromkeys(str(source) for source in change.source if source is not None)
    return [
        Cell(change.kind),
        Cell(change.where or ("(root)" if change.part else ""), is_code=True),
        Cell(pair[0], value=before, is_code=True),
        Cell(pair[1], value=after, is_code=True),
        Cell(" → ".join(sources), is_code=True),
    ]


def _distance(found: ValueDifference) -> str:
    told = f"{found.differing:,} of {plural(found.elements, 'element')}"
    return f"{told}, {found.special or f'by {found.max_absolute:.3g} at most'}"


def _shown(value: Plain) -> str:
    """Return a value as people write it; nothing for one that is not there."""
    if value is None:
        return ""
    return value.replace("\n", " ⏎ ") if isinstance(value, str) else repr(value)


_OPEN_METHODS: Final = 8


def code(compared: Comparison) -> Section | None:
    """Make the methods that differ, side by side; None where none does."""
    methods = compared.report.methods
    if not methods:
        return None
    left = most = compared.rows * LINES_PER_ROW
    blocks: list[Html] = []
    for method in methods:
        drawn, shown = block(method, left, is_open=len(blocks) < _OPEN_METHODS)
        left -= shown
        blocks.append(drawn)
    box = tag("input", type="checkbox", id="show-origins", checked=True)
    tools = tag("p", tag("label", box, " lines of user source"), class_="tools")
    total = sum(len(method.rows) for method in methods)
    return Section("code", "Code", joined((tools, *blocks)), most - left, total)


def operators(compared: Comparison) -> Section | None:
    """Make the operators that only one side uses; None where there are none."""
    report = compared.report
    found = [(use, "gained") for use in report.operators_gained]
    found += [(use, "lost") for use in report.operators_lost]
    if not found:
        return None
    rows = [_operator_row(use, told) for use, told in found[: compared.rows]]
    headings = ("operator", "is", "what it can do", "first used by", "user source")
    body = joined((table("operators", headings, rows), more(len(rows), len(found), "operator")))
    return Section("operators", "Operators", body, len(rows), len(found))


def _operator_row(use: OperatorUse, told: str) -> list[Cell]:
    style = "good" if told == "lost" else "info" if use.is_allowed else "bad"
    risk = use.risk or "computes"
    refused = "" if use.is_allowed else ", refused by the default policy"
    shown = joined((tag("span", risk, class_="risk" if use.risk else "risk plain"), refused))
    return [
        Cell(use.operator, is_code=True),
        Cell(tag("b", told, class_=f"badge {style}"), value=told),
        Cell(shown, value=risk),
        Cell(use.where or "(root)", is_code=True),
        Cell(str(use.source) if use.source else "", is_code=True),
    ]
