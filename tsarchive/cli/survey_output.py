"""What a survey has found and whether it passes a gate, in text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tsarchive.describing.text import listed, plural, size
from tsarchive.describing.written import spans

from .output import STYLES, say, show, table

if TYPE_CHECKING:
    from tsarchive.surveying.gate import GateReport
    from tsarchive.surveying.grouping import Count, Top, Twins
    from tsarchive.surveying.summary import Summary

_ROWS: Final = 10
_VIOLATIONS: Final = 20


def show_summary(summary: Summary) -> None:
    """Print what the files of a survey have in common, and what is wrong with them."""
    statuses = ", ".join(f"{count:,} {status}" for status, count in summary.statuses.items())
    say(f"{plural(summary.files, 'file')}, {size(summary.nbytes)}: {statuses or 'none'}", "bold")
    _show_kinds(summary)
    for line in _lines(summary):
        say(line)
    _show_rules(summary)
    _show_troubles(summary)


def _show_kinds(summary: Summary) -> None:
    shown = table("kind", "status", "files", "size", right=("files", "size"))
    for kind in summary.kinds[:_ROWS]:
        shown.add_row(kind.kind or "unknown", kind.status, f"{kind.files:,}", size(kind.nbytes))
    if summary.kinds:
        show(shown.lines())


def _lines(summary: Summary) -> Iterator[str]:
    yield f"same bytes:  {_twins(summary.by_sha256)}"
    yield f"same model:  {_twins(summary.by_model)}"
    for name, found in (("operators", summary.operators), ("effects", summary.effects),
                        ("libraries", summary.libraries)):  # fmt: skip
        if found.total:
            yield f"{f'{name}:':12} {_counts(found)}"
    if summary.loadable:
        loadable = plural(summary.loadable, "file")
        releases = spans(summary.loads_all)
        told = f"all of them by {releases}" if releases else "none loads all of them"
        yield f"torch:       {loadable} that some release loads; {told}"
    if summary.writers:
        most = sorted(summary.writers, key=lambda writer: -writer.files)
        writers = [f"{writer} ({writer.files:,})" for writer in most]
        yield f"written by:  torch {listed(writers, _ROWS)}"


def _twins(twins: Twins) -> str:
    if not twins.files:
        return "no two files"
    groups = plural(twins.largest.total, "group")
    return f"{twins.files:,} files in {groups}; one of each would save {size(twins.saved_nbytes)}"


def _counts(found: Top[Count]) -> str:
    told = [f"{count.name} {count.files:,}" for count in found.items[:_ROWS]]
    left = found.total - len(told)
    return ", ".join(told) + (f" and {left:,} more" if left else "")


def _show_rules(summary: Summary) -> None:
    counts = ("files", "findings")
    shown = table("rule", "severity", "by", *counts, right=counts, whole=("rule",))
    rules = summary.rules.items[:_ROWS]
    for rule in rules:
        shown.add_row(rule.rule, rule.severity, rule.verb, f"{rule.files:,}", f"{rule.findings:,}")
    if rules:
        show(shown.lines())
    _say_left(summary.rules.total - len(rules), "rule")


def _show_troubles(summary: Summary) -> None:
    troubles = summary.troubles.items[:_ROWS]
    for trouble in troubles:
        counts = ((trouble.errors, "error"), (trouble.warnings, "warning"))
        told = [plural(count, name) for count, name in counts if count]
        what = "; ".join(filter(None, (", ".join(told), trouble.problem)))
        say(f"{trouble.place}: {trouble.status}{f': {what}' if what else ''}")
    _say_left(summary.troubles.total - len(troubles), "file")


def _say_left(left: int, noun: str) -> None:
    if left > 0:
        say(f"and {plural(left, f'more {noun}')}: --json and --page have more")


def show_gate(report: GateReport) -> None:
    """Print whether a survey passes a gate, and what violates which rules."""
    told = "passes" if report.ok else "fails"
    counts = f"{plural(report.checked, 'file')}, {plural(len(report.rules), 'rule')}"
    style = "bold green" if report.ok else "bold red"
    say(f"gate {told}: {counts}, {plural(report.violated, 'violation')}", style)
    for rule in report.rules:
        if rule.violated or rule.exempt:
            exempt = f", {rule.exempt:,} exempt" if rule.exempt else ""
            say(f"  {rule.name}: violated by {plural(rule.violated, 'file')}{exempt}")
    for violation in report.violations[:_VIOLATIONS]:
        hint = f". {violation.hint}" if violation.hint else ""
        severity = violation.severity.value
        told = f"{severity}: {violation.place}: {violation.rule}: {violation.message}{hint}"
        say(told, STYLES[severity])
    _say_left(report.violated - len(report.violations[:_VIOLATIONS]), "violation")
