"""``tsarchive compat``: which torch loads and runs the file?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

import tsarchive
from tsarchive.describing.text import plural

from .command import FINDINGS, Command, file_argument, json_option
from .options import remote_limit_options
from .output import print_json, progress_of, say, show, table

if TYPE_CHECKING:
    from tsarchive import CompatReport
    from tsarchive.formats.compatibility import Reason, Row, Tie

_REASONS_SHOWN: Final = 12
_TIES_SHOWN: Final = 20
_LINE: Final = "\n"
# One version, or two with - between them.
_VERSIONS: Final = re.compile(r"[^\s-]+( *- *[^\s-]+)?")


@click.command(cls=Command)
@file_argument
@click.option(
    "--torch",
    "versions",
    metavar="VERSIONS",
    help="Tell of these alone, such as 1.13,2.9 or 2.4-2.9.",
)
@remote_limit_options
@json_option
def command(file: str, *, versions: str | None, as_json: bool) -> int:
    """Tell which torch loads and runs a file.

    Compares the format, the operators with their arguments, the classes and the language of the
    code with what each release of torch has, and shows the first line that stands in the way.
    Needs none of these releases, does not import torch, and runs nothing of the file. What ties
    code to one place are devices, sizes that tracing recorded, random numbers and paths.

    The exit code is 0 when all versions of --torch load the file, or any version where none
    is given; 1 when not; 2 when the file cannot be read.

    \b
    Examples:
      tsarchive compat model.pt
      tsarchive compat model.pt --torch 1.13,2.9
      tsarchive compat model.pt --json
    """
    asked = None if versions is None else _asked(versions)
    with progress_of(*() if as_json else (file,)) as step:
        step(f"reading {file}")
        report = tsarchive.compat(file, asked)
    if as_json:
        print_json({"file": file, "ok": report.ok, **_document(report)})
    else:
        _show(file, report)
        if asked is None and report.kind == "torchscript" and not all(r.loads for r in report.rows):
            say("hint: with --torch it tells whether convert --for-torch can write the file anew")
    return 0 if report.ok else FINDINGS


def _asked(versions: str) -> list[str]:
    asked = [version.strip() for version in versions.split(",") if version.strip()]
    if not asked or not all(map(_VERSIONS.fullmatch, asked)):
        message = "--torch takes versions with commas between them, or from one to another with -"
        raise click.UsageError(f"{message}, such as 1.13,2.9 or 2.4-2.9.")
    return [version for each in asked for version in _range(*each.partition("-")[::2])]


def _range(first: str, last: str) -> list[str]:
    from tsarchive.operators.registry import listed_versions
    from tsarchive.operators.releases import release_named

    if not last:
        return [first]
    known, ends = listed_versions(), (release_named(first.strip()), release_named(last.strip()))
    if ends[0] > ends[1]:
        raise click.UsageError(f"--torch {first}-{last}: the first version is the later one.")
    places = [known.index(end.name) for end in ends]
    return [*known[places[0] : places[1] + 1]]


def _document(report: CompatReport) -> dict[str, Any]:
    from dataclasses import asdict

    found: dict[str, Any] = _with_sources(asdict(report))
    return found


def _with_sources(value: Any) -> Any:
    """Return a document in which lines of user source are objects."""
    from tsarchive.ir.source_ranges import Location

    match value:
        case Location(file, line, text):
            return {"file": file, "line": line, "text": text}
        case dict():
            return {name: _with_sources(item) for name, item in value.items()}
        case list() | tuple():
            return [_with_sources(item) for item in value]
    return value


def _show(file: str, report: CompatReport) -> None:
    facts = "".join(f", {what} {version}" for what, version in report.facts.items())
    say(f"{file}: {report.kind}{facts}")
    _show_rows("torch", report.rows)
    is_runtime = any(" " in row.torch for row in report.mobile)
    _show_rows("runtime" if is_runtime else "interpreter", report.mobile)
    _show_plans(report.rows)
    _show_reasons((*report.rows, *report.mobile))
    for reason in report.libtorch:
        say(f"libtorch: {reason.text}")
        say(f"  hint:  {reason.hint}")
    if report.kept_meanings:
        say(f"older meaning kept: {', '.join(report.kept_meanings)}")
    _show_ties(report.ties)
    for note in report.notes:
        say(f"note: {note}")


def _show_rows(heading: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    shown = table(heading, "loads", "runs", "why")
    for _, group in groupby(rows, _verdict):
        alike = [*group]
        first = alike[0]
        answers = _loads(first), "yes" if first.runs else "no"
        shown.add_row(_span(alike), *answers, _why(first.reasons))
    show(shown.lines())


def _loads(row: Row) -> str:
    if row.needs:
        return f"with {', '.join(row.needs)}"
    return "yes" if row.loads else "no"


def _verdict(row: Row) -> tuple[Any, ...]:
    """Return what rows that are shown as one have in common."""
    reasons = [(reason.kind, reason.text) for reason in row.reasons[:1]]
    return row.loads, row.runs, row.needs, reasons


def _span(rows: Sequence[Row]) -> str:
    from tsarchive.describing.written import spans

    return spans(row.torch for row in rows)


def _why(reasons: Sequence[Reason]) -> str:
    if not reasons:
        return ""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"


def _show_reasons(rows: Iterable[Row]) -> None:
    """Show each reason once, with its line and all releases that have it, oldest first."""
    found: dict[tuple[str, str, str], tuple[Reason, list[Row]]] = {}
    for row in rows:
        for reason in row.reasons:
            key = reason.kind, reason.text, reason.about
            found.setdefault(key, (reason, []))[1].append(row)
    for reason, having in [*found.values()][:_REASONS_SHOWN]:
        where = _span(having)
        since = f" (first in {reason.since})" if reason.since else ""
        say(
            f"{where if ' ' in having[0].torch else f'torch {where}'}: {reason.text}{since}", "bold"
        )
        _show_place(reason)
        if reason.hint:
            say(f"  hint:  {reason.hint}")
    if len(found) > _REASONS_SHOWN:
        say(f"and {plural(len(found) - _REASONS_SHOWN, 'more reason')}: --json has all")


def _show_plans(rows: Sequence[Row]) -> None:
    """Show what a conversion for each release that was asked for would do."""
    for row in rows:
        if row.plan is None:
            continue
        head = f"convert --for-torch {row.torch}"
        if not row.plan.works:
            say(f"{head} refuses: {row.plan.refusals[0].partition(_LINE)[0]}")
            continue
        count = sum(calls.count for calls in row.plan.rewritten)
        what = f"{plural(count, 'call')} written otherwise" if count else "nothing to rewrite"
        left = f", leaves out {', '.join(row.plan.left_out)}" if row.plan.left_out else ""
        say(f"{head} works: {what}{left}")


def _show_place(found: Reason | Tie) -> None:
    if found.record:
        line = f", line {found.line}" if found.line else ""
        times = f", in {plural(found.places, 'place')}" if found.places > 1 else ""
        say(f"  where: {found.record}{line}{times}")
    if found.code:
        say(f"  code:  {found.code}")
    if found.source is not None:
        say(f"  from:  {found.source}")


def _show_ties(ties: Sequence[Tie]) -> None:
    for tie in ties[:_TIES_SHOWN]:
        say(f"{tie.kind}: {tie.text}", "bold")
        _show_place(tie)
        say(f"  remedy: {tie.remedy}")
    if len(ties) > _TIES_SHOWN:
        say(f"and {plural(len(ties) - _TIES_SHOWN, 'more tie')}: --json has all")
