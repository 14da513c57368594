"""``tsarchive survey``: what is in a whole folder, bucket or list of files?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

import tsarchive
from tsarchive.describing.text import plural
from tsarchive.surveying.surveys import DEFAULT_SECONDS

from .command import FINDINGS, INTERRUPTED, Command, OutputPath, json_option, out_option
from .options import Size, together
from .output import print_foreign_json, print_json, progress, say
from .survey_output import show_gate, show_summary

if TYPE_CHECKING:
    from tsarchive.surveying.gate import GateReport
    from tsarchive.surveying.results import Progress, Survey
    from tsarchive.surveying.rules import Gate
    from tsarchive.surveying.summary import Summary

_SEVERITIES: Final = ("error", "warning", "info")
_NEVER: Final = "never"
# Not all that files with these hold is known.
_UNTOLD: Final = ("refused", "failed", "crashed", "timeout")
_SECONDS_BETWEEN: Final = 0.1

_aspect_options = together(
    *(
        click.option(f"--no-{name}", name, is_flag=True, flag_value=False, default=True, help=text)
        for name, text in {
            "digest": "Leave out the SHA-256 of files.",
            "fingerprint": "Leave out fingerprints.",
            "weights": "Leave weights out of fingerprints.",
            "verify": "Do not check whether files are whole.",
            "audit": "Do not list what files can do.",
            "compat": "Leave out which torch loads and runs files.",
        }.items()
    )
)


@click.command(cls=Command)
@click.argument("roots", nargs=-1, type=click.Path(), metavar="[ROOT]...")
@out_option(
    "The folder of the dataset.",
    OutputPath("It is the folder of the dataset, such as --out survey."),
    required=True,
    metavar="DIR",
)
@click.option(
    "--from",
    "lists",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="LIST",
    help="Take roots from a text file, one a line, # before comments; '-' is standard input.",
)
@click.option(
    "--forget",
    "forgotten",
    multiple=True,
    metavar="ROOT",
    help="Drop the rows of a folder, bucket or single file that was surveyed before.",
)
@click.option("--all", "all_files", is_flag=True, help="Read files of every suffix.")
@_aspect_options
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Read by so many processes, one for each processor by default; 0 does without Dask.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Read by the workers of this Dask scheduler.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=DEFAULT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="End what takes longer for one file; 0 is no limit.",
)
@click.option(
    "--limit-memory", type=Size(), help="End what takes more memory for one file, such as 4GiB."
)
@click.option("--retry", is_flag=True, help="Read again what crashed or took too long before.")
@click.option(
    "--format",
    type=click.Choice(["parquet", "jsonl"]),
    help="The format of tables: parquet where pyarrow is installed.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*_SEVERITIES, _NEVER]),
    help="The exit code is 1 where a finding is as severe: error by default, never with --gate.",
)
@click.option(
    "--gate",
    "policy",
    type=click.Path(),
    metavar="POLICY",
    help="Check the files by the rules in a TOML file; the exit code is 1 where one is violated.",
)
@click.option(
    "--sarif", "as_sarif", is_flag=True, help="Print what violates --gate as SARIF 2.1.0."
)
@click.option("--page", type=OutputPath(), metavar="FILE", help="Write an HTML page about it.")
@json_option
def command(
    roots: tuple[str, ...],
    *,
    out: str,
    lists: tuple[str, ...],
    forgotten: tuple[str, ...],
    timeout: float,
    limit_memory: int | None,
    fail_on: str | None,
    policy: str | None,
    page: str | None,
    as_json: bool,
    as_sarif: bool,
    **given: Any,
) -> int:
    """Survey all files of folders, buckets and lists.

    Tells of each file what it is, its digest and fingerprint, what 'verify' and 'audit' find, which
    operators it needs, which torch wrote it, loads it and runs it. Writes one row for each file and
    one for each finding, as Parquet or JSON lines. Runs nothing of the files, and does not import
    torch.

    A file that ends or hangs the process which reads it has a row that says so, and the survey goes
    on. Run again with the same DIR, it reads only files that are new or have changed, and keeps the
    rows of other roots; without any ROOT it reads none, and tells of the survey that DIR has.

    The exit code is 1 where a file violates the rules of --gate that are more than notes, where a
    finding is as severe as --fail-on, or where a file could not be read or is damaged, unless that
    is never; 2 when a root, DIR or the policy cannot be used, or a gate has no file to check.

    \b
    Examples:
      tsarchive survey models/ --out survey
      tsarchive survey s3://bucket/models --out survey --no-weights
      tsarchive survey --from urls.txt --out survey --workers 8 --timeout 60
      tsarchive survey --out survey --forget models/old
      tsarchive survey models/ --out survey --gate policy.toml --sarif > survey.sarif
      tsarchive survey --out survey --page survey.html
    """
    if as_sarif and (as_json or policy is None):
        raise click.UsageError("--sarif needs --gate, and excludes --json.")
    asked = None if policy is None else _gate(policy, given)
    if forgotten:
        _found(out).forget(*forgotten)
    if roots or lists:
        limits = {"seconds": timeout or None, "memory": limit_memory}
        found = _surveyed(roots, out, lists=lists, **limits, **given)
    else:
        found = _found(out)
    summary, gate = found.summary(), None if asked is None else found.check(asked)
    if page is not None:
        _write_page(found, summary, gate, page)
    is_fine = _is_fine(summary, gate, fail_on or ("error" if gate is None else _NEVER))
    if as_sarif and gate is not None:
        _print_sarif(gate)
    elif as_json:
        print_json(_document(found, summary, gate, page, is_fine=is_fine))
    else:
        _show(found, summary, gate, page)
    return 0 if is_fine else FINDINGS


def _surveyed(roots: tuple[str, ...], out: str, **given: Any) -> Survey:
    try:
        with progress(None) as step:
            return tsarchive.survey(roots, out, step=_Shown(step), **given)
    except KeyboardInterrupt:
        told = f"stopped: {out} keeps what was read, and the same command goes on"
        click.echo(told, err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _gate(policy: str, aspects: Mapping[str, Any]) -> Gate:
    """Return the gate of a policy, before files are read that it could not be asked about."""
    from tsarchive.surveying.gate import require_asked
    from tsarchive.surveying.rules import Gate

    gate = Gate.read(policy)
    require_asked(gate, aspects)
    return gate


def _found(out: str) -> Survey:
    """Return the survey that a folder has."""
    from tsarchive.surveying.results import Survey

    try:
        return Survey.of(out)
    except FileNotFoundError:
        message = f"{out} has no survey yet: give ROOT..., or --from with a list."
        raise click.UsageError(message) from None


def _is_fine(summary: Summary, gate: GateReport | None, fail_on: str) -> bool:
    if gate is not None and not gate.ok:
        return False
    if fail_on == _NEVER:
        return True
    failing = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    has_untold = any(summary.statuses.get(status) for status in _UNTOLD)
    return not has_untold and not any(summary.severities.get(name) for name in failing)


def _write_page(found: Survey, summary: Summary, gate: GateReport | None, path: str) -> None:
    from tsarchive.surveying.page import page

    page(summary, found.name, path, gate=gate)


def _print_sarif(gate: GateReport) -> None:
    from tsarchive.surveying.gate import sarif_of

    print_foreign_json(sarif_of(gate, tsarchive.__version__))


class _Shown:
    """Shows progress with the rate, and the time that is left."""

    def __init__(self, step: Callable[[str], None]) -> None:
        self._step = step
        self._begun: float | None = None
        self._next = 0.0

    def __call__(self, now: Progress) -> None:
        moment = time.monotonic()
        if now.is_listed and self._begun is None:
            self._begun = moment
        if moment >= self._next:
            self._next = moment + _SECONDS_BETWEEN
            self._step(_progress_text(now, moment - (self._begun or moment)))


def _progress_text(now: Progress, seconds: float) -> str:
    if not now.is_listed:
        return f"{plural(now.found, 'file')} found"
    text = f"{now.unchanged + now.done:,} of {plural(now.found, 'file')}"
    if not now.done or not seconds:
        return text
    rate = now.done / seconds
    return f"{text}, {rate:.1f}/s, {timedelta(seconds=round(now.left / rate))} left"


def _document(
    found: Survey, summary: Summary, gate: GateReport | None, page: str | None, *, is_fine: bool
) -> dict[str, Any]:
    now = found.progress
    return {
        "out": str(found.dataset.folder),
        "ok": is_fine,
        "found": now.found,
        "unchanged": now.unchanged,
        "read": now.done,
        "files": summary.statuses,
        "findings": {name: summary.severities.get(name, 0) for name in _SEVERITIES},
        "summary": summary,
        "gate": None if gate is None else _gate_document(gate),
        "page": page,
    }


def _gate_document(gate: GateReport) -> dict[str, Any]:
    facts = "ok", "checked", "violated", "rules", "violations"
    return {name: getattr(gate, name) for name in facts}


def _show(found: Survey, summary: Summary, gate: GateReport | None, page: str | None) -> None:
    now = found.progress
    if now.is_listed:
        unchanged = f", {now.unchanged:,} of them unchanged since the last run" * bool(
            now.unchanged
        )
        say(f"{plural(now.found, 'file')} found{unchanged}")
    show_summary(summary)
    say(f"dataset: {found.dataset.folder} ({found.dataset.index.format})")
    if page is not None:
        say(f"page: {page}")
    if gate is not None:
        show_gate(gate)
