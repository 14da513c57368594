"""The page about a survey: what its rows tell together, with charts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tsarchive.describing.text import plural, size
from tsarchive.describing.written import all_releases, spans
from tsarchive.findings import Severity
from tsarchive.formats.registry import title_of
from tsarchive.operators.risks import Risk, row_of
from tsarchive.reporting.charts import Column, Range, Share, columns, ranges, strip
from tsarchive.reporting.document import Made, Row, made_sections
from tsarchive.reporting.html import (
    MAX_FACT,
    Cell,
    Html,
    Section,
    counted_bar,
    fact_list,
    joined,
    more,
    table,
    tag,
    text,
)
from tsarchive.reporting.page import Page, page_of
from tsarchive.steps import no_step

from .gate import GateReport, RuleResult, Violation
from .grouping import Count, Place, Top, TwinGroup, Twins
from .rows import Status
from .summary import LARGEST, RuleCount, Summary, Trouble

_WRITERS_SHOWN: Final = 24
# What states are but "read", in words for a legend.
_STATUSES: Final = {
    "foreign": "no model files",
    "refused": "damaged, or against the rules of their format",
    "failed": "could not be had",
    "crashed": "ended the process that read them",
    "timeout": "took too long",
}


@dataclass(frozen=True, slots=True)
class _Subject:
    summary: Summary
    gate: GateReport | None


def page(
    summary: Summary,
    name: str,
    out: str | os.PathLike[str] | None = None,
    *,
    gate: GateReport | None = None,
) -> Page:
    """Make one HTML page about a survey called ``name``, and write it to ``out`` if given.

    The page is a single file that loads nothing. It shows as many names, groups and files as the
    summary lists, and how many more there are. With ``gate`` it begins with what violates the rules
    of that. ``out`` is replaced only when the page is complete; raises OSError when it cannot be
    written.
    """
    made = made_sections(_SECTIONS, _Subject(summary, gate), no_step)
    return page_of(
        Made(name, "survey", _header(summary, name, gate), made, _is_ok(summary, gate)), out
    )


def _is_ok(summary: Summary, gate: GateReport | None) -> bool:
    return not summary.troubles.total and (gate is None or gate.ok)


def _header(summary: Summary, name: str, gate: GateReport | None) -> Html:
    told = f"Survey of {plural(summary.files, 'file')}, {size(summary.nbytes)}"
    return joined((tag("h1", name), tag("p", joined((told, *_badges(summary, gate)), " "))))


def _badges(summary: Summary, gate: GateReport | None) -> Iterator[Html]:
    if gate is not None:
        style, told = ("good", "passes") if gate.ok else ("bad", plural(gate.violated, "violation"))
        yield tag("a", told, href="#gate", class_=f"badge {style}")
    for severity in (Severity.ERROR, Severity.WARNING):
        if number := summary.severities.get(severity.value):
            told = plural(number, severity.value)
            yield tag("a", told, href="#findings", class_=f"badge {severity.value}")


def _overview(subject: _Subject) -> Section:
    summary = subject.summary
    shares = [
        Share(status, files, ", ".join(filter(None, (f"{files:,}", _STATUSES.get(status)))))
        for status, files in summary.statuses.items()
    ]
    body = joined((strip("Files by status", shares), fact_list(_facts(summary))))
    return Section("overview", "Overview", body, 1, 1)


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "files", f"{summary.files:,}"
    yield "bytes", f"{size(summary.nbytes)} ({summary.nbytes:,})"
    for label, twins in (("same bytes", summary.by_sha256), ("same model", summary.by_model)):
        yield label, _saving(twins)
    yield "operators", f"{summary.operators.total:,}"
    if summary.loadable:
        yield "some torch loads", plural(summary.loadable, "file")
        yield "all of these by", spans(summary.loads_all) or "no release"
    graver = (f"{count:,} {severity}" for severity, count in summary.severities.items())
    yield "findings", ", ".join(graver) or "none"


def _saving(twins: Twins) -> str:
    if not twins.files:
        return "no two files"
    groups = plural(twins.largest.total, "group")
    saved = size(twins.saved_nbytes)
    return f"{twins.files:,} files in {groups}: one of each would save {saved}"


def _gate(subject: _Subject) -> Section | None:
    gate = subject.gate
    if gate is None:
        return None
    word, style = ("passes", "good") if gate.ok else ("fails", "bad")
    told = f" {plural(gate.checked, 'file')} checked by {plural(len(gate.rules), 'rule')}."
    headings = ("rule", "severity", "violated by", "exempt", "what it says")
    rules = table("gate-rules", headings, [_rule_result_row(rule) for rule in gate.rules])
    verdict = tag("p", tag("b", word, class_=f"badge {style}"), told)
    shown = gate.violations[:LARGEST]
    listed = (*_violations(shown), more(len(shown), gate.violated, "violation"))
    return Section("gate", "Gate", joined((verdict, rules, *listed)), len(shown), gate.violated)


def _rule_result_row(rule: RuleResult) -> list[Cell]:
    return [
        Cell(rule.name, is_code=True),
        _severity(rule.severity),
        Cell(f"{rule.violated:,}", value=rule.violated),
        Cell(f"{rule.exempt:,}", value=rule.exempt),
        _told(rule.message),
    ]


def _violations(shown: Sequence[Violation]) -> Iterator[Html]:
    if not shown:
        return
    rows = [
        [_place(v.place), _severity(v.severity), Cell(v.rule, is_code=True), _told(v.message)]
        for v in shown
    ]
    yield tag("h3", "Violations")
    yield table("violations", ("file", "severity", "rule", "what it is"), rows)


def _findings(subject: _Subject) -> Section | None:
    rules = subject.summary.rules
    if not rules.total:
        return None
    most = max(rule.files for rule in rules.items)
    headings = ("rule", "severity", "of", "nature", "files", "findings")
    rows = [_rule_row(rule, most) for rule in rules.items]
    body = joined((table("findings", headings, rows), more(len(rows), rules.total, "rule")))
    return Section("findings", "Findings", body, len(rows), rules.total)


def _rule_row(rule: RuleCount, most: int) -> list[Cell]:
    return [
        Cell(rule.rule, is_code=True),
        _severity(rule.severity),
        Cell(rule.verb),
        Cell(rule.nature),
        Cell(counted_bar(rule.files, most), value=rule.files),
        Cell(f"{rule.findings:,}", value=rule.findings),
    ]


def _severity(name: str) -> Cell:
    severity = Severity(name)
    badge = tag("b", severity.value, class_=f"badge {severity.value}")
    return Cell(badge, value=-severity.rank)


def _troubles(subject: _Subject) -> Section | None:
    troubles = subject.summary.troubles
    if not troubles.total:
        return None
    headings = ("file", "status", "errors", "warnings", "problem")
    rows = [_trouble_row(trouble) for trouble in troubles.items]
    body = joined((table("files", headings, rows), more(len(rows), troubles.total, "file")))
    return Section("files", "Files to look at", body, len(rows), troubles.total)


def _trouble_row(trouble: Trouble) -> list[Cell]:
    return [
        _place(trouble.place),
        Cell(_status(trouble.status), value=trouble.status),
        Cell(f"{trouble.errors:,}", value=trouble.errors),
        Cell(f"{trouble.warnings:,}", value=trouble.warnings),
        _told(trouble.problem),
    ]


def _status(status: Status) -> Html:
    style = "info" if status in ("read", "foreign") else "warning" if status == "refused" else "bad"
    return tag("b", status, class_=f"badge {style}")


def _place(place: Place) -> Cell:
    return Cell(tag("span", place.path, title=place.root), value=place.path, is_code=True)


def _told(message: str) -> Cell:
    return Cell(text(message, MAX_FACT), value=message[:MAX_FACT])


def _kinds(subject: _Subject) -> Section | None:
    summary = subject.summary
    if not summary.files:
        return None
    shares = [
        Share(title_of(kind.kind) if kind.kind else "unknown", kind.nbytes, size(kind.nbytes))
        for kind in summary.kinds
    ]
    most = max(kind.files for kind in summary.kinds)
    rows = [
        [
            Cell(kind.kind or "unknown"),
            Cell(kind.status),
            Cell(counted_bar(kind.files, most), value=kind.files),
            Cell(f"{kind.nbytes:,}", value=kind.nbytes),
        ]
        for kind in summary.kinds
    ]
    sizes = tag("h3", "Sizes of files"), _sizes(summary)
    listed = table("kinds", ("kind", "status", "files", "bytes"), rows)
    body = joined((strip("Bytes by kind", _together(shares)), listed, *sizes))
    return Section("kinds", "Kinds and sizes", body, len(rows), len(rows))


def _together(shares: Iterable[Share]) -> list[Share]:
    """Return one share for each name."""
    found: dict[str, int] = {}
    for share in shares:
        found[share.name] = found.get(share.name, 0) + share.amount
    return [Share(name, amount, size(amount)) for name, amount in found.items()]


def _sizes(summary: Summary) -> Html:
    counts = {found.nbytes: found.files for found in summary.sizes}
    shown = [
        Column(size(start), counts.get(start, 0), _size_range(start, counts.get(start, 0)))
        for start in _doublings(counts)
    ]
    return tag("figure", columns("Files by size, in steps of twice the size", shown))


def _doublings(starts: Iterable[int]) -> Iterator[int]:
    """Yield all sizes from the smallest of ``starts`` to the largest, each twice the one before."""
    ordered = sorted(starts)
    for start in ordered[:1]:
        while start <= ordered[-1]:
            yield start
            start = 2 * start or 1


def _size_range(start: int, files: int) -> str:
    told = f"from {size(start)} to less than {size(2 * start)}" if start else "empty"
    return f"{told}: {plural(files, 'file')}"


def _twins(subject: _Subject) -> Section | None:
    summary = subject.summary
    parts = [
        part
        for name, title, twins in (
            ("models", "The same model", summary.by_model),
            ("bytes", "The same bytes", summary.by_sha256),
        )
        for part in _groups(name, title, twins)
    ]
    total = summary.by_model.largest.total + summary.by_sha256.largest.total
    shown = len(summary.by_model.largest.items) + len(summary.by_sha256.largest.items)
    return Section("twins", "Twins", joined(parts), shown, total) if total else None


def _groups(name: str, title: str, twins: Twins) -> Iterator[Html | None]:
    if not twins.files:
        return
    groups = twins.largest.items
    most = max(group.saved_nbytes for group in groups)
    headings = ("digest", "files", "saved bytes", "first of them")
    yield tag("h3", title)
    yield tag("p", f"{_saving(twins)}.", class_="dim")
    yield table(f"twins-{name}", headings, [_group_row(group, most) for group in groups])
    yield more(len(groups), twins.largest.total, "group", ", none of which saves more")


def _group_row(group: TwinGroup, most: int) -> list[Cell]:
    places = [tag("span", place.path, title=place.root) for place in group.places]
    left = group.files - len(places)
    tail = f" and {left:,} more" if left else None
    return [
        Cell(tag("span", _short(group.digest), title=group.digest), is_code=True),
        Cell(f"{group.files:,}", value=group.files),
        Cell(counted_bar(group.saved_nbytes, most), value=group.saved_nbytes),
        Cell(joined((joined(places, ", "), tail)), value=group.places[0].path, is_code=True),
    ]


def _short(digest: str) -> str:
    """Return enough of a digest to tell it from others; its scheme stays."""
    scheme, mark, value = digest.rpartition(":")
    return f"{scheme}{mark}{value[:12]}"


def _operators(subject: _Subject) -> Section | None:
    found = subject.summary.operators
    if not found.total:
        return None
    most = found.items[0].files
    rows = [_operator_row(count, most) for count in found.items]
    listed = table("operators", ("operator", "files", "what it can do"), rows)
    body = joined((listed, more(len(rows), found.total, "operator", ", in no more files each")))
    return Section("operators", "Operators", body, len(rows), found.total)


def _operator_row(count: Count, most: int) -> list[Cell]:
    row = row_of(count.name)
    style = "risk plain" if row.risk is Risk.COMPUTE else "risk"
    told = joined((tag("span", row.risk.value, class_=style), f" {row.reason}"))
    return [
        Cell(count.name, is_code=True),
        Cell(counted_bar(count.files, most), value=count.files),
        Cell(told, value=row.risk.value),
    ]


def _torch(subject: _Subject) -> Section | None:
    summary = subject.summary
    if not (summary.releases or summary.writers):
        return None
    body = joined((*_loading(summary), *_writing(summary)))
    return Section("torch", "Releases of torch", body, 1, 1)


def _loading(summary: Summary) -> Iterator[Html]:
    if not summary.releases:
        return
    of_all = f"of {plural(summary.loadable, 'file')} that any release loads"
    shown = [
        Column(r.torch, r.loads, f"torch {r.torch} loads {r.loads:,} {of_all}, and runs {r.runs:,}")
        for r in summary.releases
    ]
    rows = [
        [
            Cell(r.torch),
            Cell(counted_bar(r.loads, summary.loadable), value=r.loads),
            Cell(f"{r.runs:,}", value=r.runs),
        ]
        for r in summary.releases
    ]
    yield tag("h3", "Files that each release loads")
    yield tag("figure", columns(f"Files that each release of torch loads, {of_all}", shown))
    listed = table("releases", ("torch", "loads", "runs"), rows)
    yield tag("details", tag("summary", "as a table"), listed)


def _writing(summary: Summary) -> Iterator[Html | None]:
    if not summary.writers:
        return
    axis = all_releases()
    known = [w for w in summary.writers if w.first in axis and w.last in axis]
    largest = sorted(sorted(known, key=lambda w: -w.files)[:_WRITERS_SHOWN], key=known.index)
    shown = [
        Range(axis.index(w.first), axis.index(w.last), f"{w.files:,}",
              f"torch {w}: {plural(w.files, 'file')}")
        for w in largest
    ]  # fmt: skip
    label = "Numbers of files, and the releases one of which has written each of them"
    yield tag("h3", "Releases that have written them")
    yield tag("figure", tag("figcaption", f"{label}.", class_="dim"), ranges(label, axis, shown))
    yield more(len(shown), len(summary.writers), "range", ", of fewer files each")


def _contents(subject: _Subject) -> Section | None:
    summary = subject.summary
    named = (
        ("effects", "what code reaches beyond tensors", "effect", summary.effects),
        ("libraries", "libraries that they need", "name", summary.libraries),
        ("dtypes", "dtypes of tensors", "dtype", summary.dtypes),
        ("devices", "devices of tensors", "device", summary.devices),
    )
    parts = [part for row in named for part in _counts(*row)]
    lists = [found for *_, found in named]
    shown, total = sum(len(found.items) for found in lists), sum(found.total for found in lists)
    return Section("contents", "What files hold", joined(parts), shown, total) if total else None


def _counts(name: str, title: str, noun: str, found: Top[Count]) -> Iterator[Html | None]:
    if not found.total:
        return
    most = found.items[0].files
    rows = [
        [
            Cell(count.name, is_code=True),
            Cell(counted_bar(count.files, most), value=count.files),
            Cell(f"{count.nbytes:,}", value=count.nbytes),
        ]
        for count in found.items
    ]
    yield tag("h3", title.capitalize())
    yield table(name, (noun, "files", "their bytes"), rows)
    yield more(len(rows), found.total, noun)


# In page order.
_SECTIONS: Final[Sequence[Row[_Subject]]] = (
    ("overview", "Overview", _overview),
    ("gate", "Gate", _gate),
    ("kinds", "Kinds and sizes", _kinds),
    ("findings", "Findings", _findings),
    ("files", "Files to look at", _troubles),
    ("twins", "Twins", _twins),
    ("torch", "Releases of torch", _torch),
    ("contents", "What files hold", _contents),
    ("operators", "Operators", _operators),
)
