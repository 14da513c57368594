"""``tsarchive audit``: what can the file do, and when?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from tsarchive.describing.contents import totals_text
from tsarchive.describing.text import plural, size

from .command import FINDINGS, Command, file_argument, json_option
from .output import STYLES, finding_document, print_json, say

if TYPE_CHECKING:
    from tsarchive import AuditReport, Finding
    from tsarchive.scanning.report import OperatorUse, Place, When

_MOMENTS: Final = {
    "load": "when it is loaded",
    "hook": "in hooks, when a module is called",
    "call": "when a method is called",
    "never": "in code that nothing leads to",
}
# JSON has every place and every entry point.
_PLACES_SHOWN: Final = 3
_ENTRIES_SHOWN: Final = 4
_FINDINGS_SHOWN: Final = 20


@click.command(cls=Command)
@file_argument
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="Print a SARIF 2.1.0 document.")
@click.pass_context
def command(ctx: click.Context, file: str, *, as_json: bool, as_sarif: bool) -> None:
    """List what a file can do, and when: at load, in hooks, at a call.

    Reads the code, the pickles and the records of TorchScript archives, torch.save and
    torch.package files, torch.export archives, pickles and what else may be called a model.
    Runs nothing of the file, imports nothing that it names, and does not import torch. The
    exit code is 1 when it can do more than compute, print and draw random numbers.

    Whether the file is whole is for 'tsarchive verify'.

    \b
    Examples:
      tsarchive audit model.pt
      tsarchive audit model.pt --json
      tsarchive audit model.pt --sarif > model.sarif
    """
    import tsarchive

    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif are two forms of one document: give one.")
    report = tsarchive.audit(file)
    if as_sarif:
        from tsarchive.auditing.sarif import sarif_document

        print_json(sarif_document(file, report, tsarchive.__version__))
    elif as_json:
        print_json({"file": file, **document(report)})
    else:
        _show(file, report)
    if not report.ok:
        ctx.exit(FINDINGS)


def document(report: AuditReport) -> dict[str, Any]:
    """A report as JSON; operators that only compute are counted, without their places."""
    from dataclasses import asdict

    return {
        "ok": report.ok,
        "kind": report.kind,
        "bytes": report.size,
        "findings": [finding_document(finding) for finding in report.findings],
        "operators": [_operator_document(use) for use in report.operators],
        "entry_points": [
            {"when": entry.when.value, "function": entry.function} for entry in report.entry_points
        ],
        "pickled_names": [asdict(name) for name in report.pickled_names],
        "classes": report.classes,
        "payloads": [asdict(payload) for payload in report.payloads],
        "tensors": None if report.tensors is None else asdict(report.tensors),
        "groups": {name: asdict(group) for name, group in report.groups.items()},
    }


def _operator_document(use: OperatorUse) -> dict[str, Any]:
    is_plain = use.risk.value == "compute"
    return {
        "operator": use.operator,
        "risk": use.risk.value,
        "reason": use.reason,
        "when": [when.value for when in use.when],
        "count": len(use.places),
        "is_certain": use.is_certain,
        "places": [] if is_plain else [_place_document(place) for place in use.places],
    }


def _place_document(place: Place) -> dict[str, Any]:
    return {
        "record": place.record,
        "line": place.line,
        "function": place.function,
        "when": [when.value for when in place.when],
        "files": place.files,
    }


def _show(file: str, report: AuditReport) -> None:
    style = "bold green" if report.ok else "bold red"
    say(f"{file}: {_verdict(report)}", style)
    for line in (*_inventory(report), *_abilities(report)):
        say(line)
    shown = report.findings[:_FINDINGS_SHOWN]
    for finding in shown:
        say(_finding_line(finding), STYLES[finding.severity.value])
    if len(report.findings) > len(shown):
        say(f"and {len(report.findings) - len(shown):,} more: --json lists them")


def _verdict(report: AuditReport) -> str:
    if report.ok:
        foreign = sorted({use.operator for use in report.operators if use.risk.value == "foreign"})
        beside = f", but for operators of other libraries: {_first(foreign)}" if foreign else ""
        return f"found nothing that it can do beyond computing{beside}"
    counts = Counter(finding.severity.value for finding in report.findings)
    parts = [plural(counts[name], name) for name in ("error", "warning") if counts[name]]
    return f"{' and '.join(parts)}: {report.findings[0].message}"


def _inventory(report: AuditReport) -> Iterator[str]:
    groups = (
        f"{name} {plural(group.records, 'record')} {size(group.bytes)}"
        for name, group in report.groups.items()
    )
    yield f"{report.kind}, {size(report.size)}: {', '.join(groups) or 'no records'}"
    if report.tensors is not None:
        yield totals_text(report.tensors)
    if report.classes:
        yield f"classes bound from C++: {', '.join(report.classes)}"
    for payload in report.payloads:
        yield f"program: {payload.record or 'the file'}, {payload.format}, {size(payload.size)}"
    outside = sorted({name.name for name in report.pickled_names if name.reason is None})
    if outside:
        yield f"pickled names outside of the format: {', '.join(outside)}"


def _abilities(report: AuditReport) -> Iterator[str]:
    """For each moment what runs then, and what that can reach beside computing."""
    from tsarchive.scanning.report import When

    for when in When:
        uses = [use for use in report.operators if when in use.when]
        entries = [entry.function for entry in report.entry_points if entry.when is when]
        if not (uses or entries):
            continue
        yield (
            f"{_MOMENTS[when.value]}: {_first(entries)}" if entries else f"{_MOMENTS[when.value]}:"
        )
        beside = [use for use in uses if use.risk.value != "compute"]
        for use in beside:
            yield f"  {use.risk.value}: {use.operator} {_where(use, when)}"
        plain = len(uses) - len(beside)
        if plain:
            yield f"  compute: {plural(plain, 'operator')}"


def _first(entries: list[str]) -> str:
    more = len(entries) - _ENTRIES_SHOWN
    return ", ".join(entries[:_ENTRIES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _where(use: OperatorUse, when: When) -> str:
    places = [place for place in use.places if when in place.when]
    shown = ", ".join(map(_place, places[:_PLACES_SHOWN]))
    more = len(places) - _PLACES_SHOWN
    guess = "" if use.is_certain else " (or a method of that name)"
    return f"{shown}{f' and {more:,} more' if more > 0 else ''}{guess}"


def _place(place: Place) -> str:
    line = "" if place.line is None else f":{place.line}"
    files = f" with {' or '.join(map(repr, place.files))}" if place.files else ""
    return f"{place.record}{line}{files}"


def _finding_line(finding: Finding) -> str:
    parts = [finding.record, finding.line and f"line {finding.line}"]
    where = ", ".join(str(part) for part in parts if part)
    # Findings about abilities share one hint, which the exit code gives as well.
    hint = f". {finding.hint}" if finding.hint and finding.nature.value != "ability" else ""
    return f"{finding.severity.value}: {where}{': ' if where else ''}{finding.message}{hint}"
