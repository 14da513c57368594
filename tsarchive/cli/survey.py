"""``tsarchive survey``: what is in a whole folder, bucket or list of files?"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

import tsarchive
from tsarchive.describing.text import plural
from tsarchive.surveying.surveys import DEFAULT_SECONDS

from .command import FINDINGS, Command, OutputPath, json_option
from .options import Size, together
from .output import STYLES, print_json, progress, say

if TYPE_CHECKING:
    from tsarchive.surveying.dataset import Dataset
    from tsarchive.surveying.surveys import Progress

# The columns that count findings, by their severity, the gravest first.
_SEVERITIES: Final = {"error": "errors", "warning": "warnings", "info": "notes"}
_COLUMNS: Final = frozenset(_SEVERITIES.values())
_NEVER: Final = "never"
# Of files with these nothing is known but that.
_UNTOLD: Final = ("failed", "crashed", "timeout")
_UNTOLD_SHOWN: Final = 20
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
@click.option(
    "-o",
    "--out",
    required=True,
    type=OutputPath(),
    metavar="DIR",
    help="The folder of the dataset.",
)
@click.option(
    "--from",
    "lists",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="LIST",
    help="Take roots from a text file, one a line; '-' is standard input.",
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
    default="error",
    show_default=True,
    help="The exit code is 1 where a finding is as severe.",
)
@json_option
def command(
    roots: tuple[str, ...],
    *,
    out: str,
    lists: tuple[str, ...],
    timeout: float,
    limit_memory: int | None,
    fail_on: str,
    as_json: bool,
    **given: Any,
) -> int:
    """Survey all files of folders, buckets and lists.

    Tells of each file what it is, its digest and fingerprint, what 'verify' and 'audit' find, which
    operators it needs, which torch wrote it, loads it and runs it. Writes one row for each file and
    one for each finding, as Parquet or JSON lines. Runs nothing of the files, and does not import
    torch.

    A file that ends or hangs the process which reads it has a row that says so, and the survey goes
    on. Run again with the same DIR, it reads only files that are new or have changed.

    The exit code is 1 where a finding is as severe as --fail-on, or a file could not be read; 2
    when a root or DIR cannot be used.

    \b
    Examples:
      tsarchive survey models/ --out survey
      tsarchive survey s3://bucket/models --out survey --no-weights
      tsarchive survey --from urls.txt --out survey --workers 8 --timeout 60
    """
    if not roots and not lists:
        raise click.UsageError("Missing argument 'ROOT...', or --from with a list.")
    with progress(None) as step:
        found = tsarchive.survey(
            roots,
            out,
            lists=lists,
            seconds=timeout or None,
            memory=limit_memory,
            step=_Shown(step),
            **given,
        )
    totals = _totals(found.dataset)
    failing = [*_SEVERITIES][: [*_SEVERITIES, _NEVER].index(fail_on) + 1]
    is_fine = fail_on == _NEVER or not any(
        totals[key] for key in (*_UNTOLD, *(_SEVERITIES[name] for name in failing))
    )
    if as_json:
        print_json(_document(out, found.progress, totals, is_fine=is_fine))
    else:
        _show(found.dataset, found.progress, totals)
    return 0 if is_fine else FINDINGS


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


def _totals(dataset: Dataset) -> Counter[str]:
    """Count files by status, and findings by the columns that count them."""
    totals: Counter[str] = Counter()
    for row in dataset.files():
        totals[row.status] += 1
        for column in _SEVERITIES.values():
            totals[column] += getattr(row, column)
    return totals


def _document(out: str, now: Progress, totals: Counter[str], *, is_fine: bool) -> dict[str, Any]:
    findings = {name: totals[column] for name, column in _SEVERITIES.items()}
    files = {name: count for name, count in totals.items() if name not in _COLUMNS}
    return {
        "out": out,
        "ok": is_fine,
        "found": now.found,
        "unchanged": now.unchanged,
        "read": now.done,
        "files": files,
        "findings": findings,
    }


def _show(dataset: Dataset, now: Progress, totals: Counter[str]) -> None:
    unchanged = f", {now.unchanged:,} of them unchanged since the last run" if now.unchanged else ""
    say(f"{plural(now.found, 'file')} found{unchanged}")
    statuses = ((name, count) for name, count in totals.most_common() if name not in _COLUMNS)
    for name, count in statuses:
        say(f"  {name:9} {count:,}", "bold red" if name in _UNTOLD else "")
    for name, column in _SEVERITIES.items():
        say(f"  {column:9} {totals[column]:,}", STYLES[name] if totals[column] else "")
    untold = (row for row in dataset.files() if row.status in _UNTOLD)
    for row in islice(untold, _UNTOLD_SHOWN):
        say(f"{row.root}{row.root and '/'}{row.path}: {row.status}: {row.problem}", "bold red")
    more = sum(totals[name] for name in _UNTOLD) - _UNTOLD_SHOWN
    if more > 0:
        say(f"and {plural(more, 'more file')} without an answer: the dataset lists them")
    say(f"dataset: {dataset.folder} ({dataset.index.format})")
