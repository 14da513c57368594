"""Findings of verify and audit, and the names in a file's pickles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tsarchive.auditing import AuditReport
from tsarchive.findings import Finding
from tsarchive.scanning.report import PickledName
from tsarchive.verifying import VerifyReport

from .code import line_anchors
from .html import MAX_FACT, Cell, Html, joined, more, table, tag, text
from .section import Section, Subject

_MEANINGS: Final[Mapping[str, str]] = {
    "sound": "The file is whole, and what it claims to be.",
    "unusual": "The file is whole, and no writer of archives makes all of it so.",
    "another kind": "The file is of another kind.",
    "broken": "The file is damaged or incomplete.",
    "inconsistent": "The file contradicts itself: it is damaged or forged.",
    "hostile": "The file was made to deceive or to attack.",
}
_NOTHING: Final = "Nothing was found that it can do beyond computing."


def findings(subject: Subject) -> Section | None:
    """Make the section; None where the file was not checked."""
    if subject.verified is None or subject.audited is None:
        return None
    found = subject.findings
    shown = found[: subject.rows]
    anchors = line_anchors(subject)
    items = (_item(finding, anchors) for finding in shown)
    body = joined(
        (
            tag("p", verdict(subject.verified), " ", _abilities(subject.audited)),
            tag("ul", *items, class_="findings") if shown else None,
            more(len(shown), len(found), "finding"),
        )
    )
    return Section("findings", "Findings", body, len(shown), len(found))


def verdict(verified: VerifyReport) -> Html:
    """Return the result of verifying as a word and a sentence."""
    style = "good" if verified.ok else "bad"
    word = tag("b", verified.verdict, class_=f"badge {style}")
    return joined((word, " ", _MEANINGS[verified.verdict]))


def _abilities(audited: AuditReport) -> str:
    counts = Counter(finding.severity.value for finding in audited.findings)
    told = [f"{counts[name]:,} {name}" for name in ("error", "warning") if counts[name]]
    return f"What it can do, and holds: {', '.join(told)}." if told else _NOTHING


def _item(finding: Finding, anchors: Mapping[str, tuple[str, int]]) -> Html:
    severity = finding.severity.value
    heading = (
        tag("b", severity, class_=f"badge {severity}"),
        " ",
        tag("span", text(finding.message, MAX_FACT)),
    )
    nature = joined((tag("code", finding.rule), f" {finding.nature.value}"))
    details = joined((nature, *_where(finding, anchors)), ", ")
    hint = tag("p", text(finding.hint, MAX_FACT), class_="hint") if finding.hint else None
    return tag("li", tag("p", *heading), tag("p", details, class_="dim"), hint)


def _where(finding: Finding, anchors: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    if finding.record is not None:
        yield joined(("record ", tag("code", finding.record)))
    if finding.line is not None:
        anchor, lines = anchors.get(finding.record or "", ("", 0))
        is_shown = 1 <= finding.line <= lines
        shown = f"line {finding.line}"
        yield tag("a", shown, href=f"#{anchor}-L{finding.line}") if is_shown else shown
    if finding.offset is not None:
        yield f"offset {finding.offset:,}"


def pickled_names(subject: Subject) -> Section | None:
    """Make the section; None where no pickle names anything."""
    names = () if subject.audited is None else subject.audited.pickled_names
    if not names:
        return None
    ordered = sorted(names, key=lambda name: (name.reason is not None, name.name))
    shown = ordered[: subject.rows]
    headings = ("name", "record", "used", "why it is harmless")
    rows = [_name_row(name) for name in shown]
    body = joined((table("pickled", headings, rows), more(len(rows), len(names), "name")))
    return Section("pickled", "Pickled names", body, len(rows), len(names))


def _name_row(name: PickledName) -> list[Cell]:
    reason = name.reason or tag("b", "outside of the format", class_="badge warning")
    return [
        Cell(name.name, is_code=True),
        Cell(name.record or "the file", is_code=True),
        Cell("called" if name.is_called else "named"),
        Cell(reason, value=name.reason or ""),
    ]
