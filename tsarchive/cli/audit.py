"""``tsarchive audit``: what can the file do, and when?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

import tsarchive
from tsarchive.describing.contents import totals_text
from tsarchive.describing.text import listed, plural, size

from .command import FINDINGS, Command, json_option
from .many import Found, files_argument, is_folder, jsonl_option, look_at
from .options import remote_limit_options
from .output import STYLES, print_foreign_json, say

if TYPE_CHECKING:
    from tsarchive import AuditReport, Finding
    from tsarchive.scanning.report import OperatorUse, Place, When
    from tsarchive.steps import Step

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
@files_argument
@remote_limit_options
@json_option
@jsonl_option
@click.option("--sarif", "as_sarif", is_flag=True, help="Print a SARIF 2.1.0 document.")
@click.option(
    "--weights/--no-weights",
    default=None,
    help="Read the data of tensors as well; by default that of files on this machine.",
)
def command(
    files: tuple[str, ...], *, as_json: bool, as_lines: bool, as_sarif: bool, weights: bool | None
) -> int:
    """List what a file can do, and when.

    Some code runs when a file is loaded, some in hooks, some when a model is called. Reads the
    code, the pickles and the records of TorchScript archives, torch.save and torch.package files,
    torch.export archives, pickles and what else may be called a model. Runs nothing of the file,
    imports nothing that it names, and does not import torch. The exit code is 1 when it can do
    more than compute, print and draw random numbers.

    Whether the file is whole is for 'tsarchive verify'. With --no-weights, as by default of files
    elsewhere, pickles and programs are not looked for in the data of tensors; a finding says so.

    \b
    Examples:
      tsarchive audit model.pt
      tsarchive audit model.pt --json
      tsarchive audit model.pt --sarif > model.sarif
      tsarchive audit models --jsonl
    """
    if as_sarif:
        return _print_sarif(files, weights, is_alone=not (as_json or as_lines))

    def look(file: str, step: Step) -> Found:
        report = tsarchive.audit(file, weights=weights, step=step)
        return Found(
            lambda: {"file": file, **document(report)},
            lambda: _show(file, report),
            0 if report.ok else FINDINGS,
        )

    return look_at(files, look, as_json=as_json, as_lines=as_lines)


def _print_sarif(files: Sequence[str], weights: bool | None, *, is_alone: bool) -> int:
    from tsarchive.auditing.sarif import sarif_document

    if not is_alone:
        raise click.UsageError("--json and --sarif are two forms of one document: give one.")
    if len(files) > 1 or is_folder(files[0]):
        raise click.UsageError("--sarif tells of one file; 'tsarchive survey --sarif' of many.")
    report = tsarchive.audit(files[0], weights=weights)
    print_foreign_json(sarif_document(files[0], report, tsarchive.__version__))
    return 0 if report.ok else FINDINGS


def document(report: AuditReport) -> dict[str, Any]:
    """Return a report as JSON; operators that only compute are counted, without their places."""
    return {
        "ok": report.ok,
        "kind": report.kind,
        "nbytes": report.nbytes,
        "findings": report.findings,
        "operators": [_operator_document(use) for use in report.operators],
        "entry_points": report.entry_points,
        "pickled_names": report.pickled_names,
        "classes": report.classes,
        "payloads": report.payloads,
        "tensors": report.tensors,
        "groups": report.groups,
    }


def _operator_document(use: OperatorUse) -> dict[str, Any]:
    return {
        "operator": use.operator,
        "risk": use.risk,
        "reason": use.reason,
        "when": use.when,
        "count": len(use.places),
        "is_certain": use.is_certain,
        "places": () if use.risk.value == "compute" else use.places,
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
        found = "found nothing that it can do beyond computing"
        if not foreign:
            return found
        return f"{found}, but for operators of other libraries: {listed(foreign, _ENTRIES_SHOWN)}"
    counts = Counter(finding.severity.value for finding in report.findings)
    parts = [plural(counts[name], name) for name in ("error", "warning") if counts[name]]
    return f"{' and '.join(parts)}: {report.findings[0].message}"


def _inventory(report: AuditReport) -> Iterator[str]:
    groups = (
        f"{name} {plural(group.records, 'record')} {size(group.nbytes)}"
        for name, group in report.groups.items()
    )
    yield f"{report.kind}, {size(report.nbytes)}: {', '.join(groups) or 'no records'}"
    if report.tensors is not None:
        yield totals_text(report.tensors)
    if report.classes:
        yield f"classes bound from C++: {', '.join(report.classes)}"
    for payload in report.payloads:
        yield f"program: {payload.record or 'the file'}, {payload.format}, {size(payload.nbytes)}"
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
        yield f"{_MOMENTS[when.value]}: {listed(entries, _ENTRIES_SHOWN)}".rstrip(" ")
        beside = [use for use in uses if use.risk.value != "compute"]
        for use in beside:
            yield f"  {use.risk.value}: {use.operator} {_where(use, when)}"
        plain = len(uses) - len(beside)
        if plain:
            yield f"  compute: {plural(plain, 'operator')}"


def _where(use: OperatorUse, when: When) -> str:
    places = [place for place in use.places if when in place.when]
    guess = "" if use.is_certain else " (or a method of that name)"
    return listed([_place(place) for place in places], _PLACES_SHOWN) + guess


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
