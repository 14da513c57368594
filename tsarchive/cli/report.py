"""``tsarchive report``: a file, or what changed between two, as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import tsarchive
from tsarchive.describing.text import plural, size

from .command import FINDINGS, Command, FilePath, file_argument, json_option, out_option
from .output import print_json, progress, say

if TYPE_CHECKING:
    from tsarchive.reporting import Page

_ALL = "*"


@click.command(cls=Command)
@file_argument
@out_option("The page to write.", required=True)
@click.option(
    "--against", metavar="OTHER", type=FilePath(), help="Show what changed from FILE to OTHER."
)
@click.option(
    "--histograms",
    metavar="[GLOB]",
    is_flag=False,
    flag_value=_ALL,
    help="Read tensors and draw how their values are spread: those whose names fit, or all. "
    "With --against, changes of values are drawn: of all tensors, or those whose names fit.",
)
@click.option("--no-findings", is_flag=True, help="Do not verify and audit, which reads the file.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show N modules, tensors, operators and records at most (2000).",
)
@json_option
def command(
    file: str,
    *,
    out: str,
    against: str | None,
    histograms: str | None,
    no_findings: bool,
    rows: int | None,
    as_json: bool,
) -> int:
    """Write one HTML page about a file.

    The page needs no network and no other file. It shows the facts of the file, what verify and
    audit find, the tree of modules, operators, code with the lines of user source that it came
    from, tensors, and the memory plan of programs of ExecuTorch over time. Runs nothing of the
    file, and does not import torch. The exit code is 1 when any finding is more than a note; the
    page is written all the same. A page of before is replaced.

    With --against it shows what changed from one file to another: modules and code side by side,
    tensors with histograms of their changes, operators, extra files, packing. The exit code is 1
    when the models differ.

    \b
    Examples:
      tsarchive report model.pt -o report.html
      tsarchive report model.pt -o report.html --histograms='*.weight'
      tsarchive report model.pte -o report.html --json
      tsarchive report before.pt --against after.pt -o changes.html
    """
    from tsarchive.reporting.html import ROWS

    if no_findings and against is not None:
        raise click.UsageError("--no-findings has no effect with --against, which shows none.")
    with progress(_steps(against)) as step:
        made = tsarchive.report(
            file,
            out,
            against=against,
            histograms=histograms,
            findings=not no_findings,
            rows=rows or ROWS,
            step=step,
        )
    if as_json:
        print_json(
            {
                "file": file,
                "against": against,
                "out": made.out,
                "nbytes": made.nbytes,
                "kind": made.kind,
                "ok": made.ok,
                "sections": made.sections,
            }
        )
    else:
        _show(made, _FINDINGS if against is None else _CHANGES)
    return FINDINGS if made.ok is False else 0


def _steps(against: str | None) -> int:
    if against is None:
        from tsarchive.reporting import STEPS
    else:
        from tsarchive.reporting.against import STEPS
    return len(STEPS)


_FINDINGS = "there are findings that are more than notes: see the page"
_CHANGES = "the models differ: see the page"


def _show(made: Page, trouble: str) -> None:
    names = ", ".join(section.name for section in made.sections)
    say(f"{made.out or ''}: {size(made.nbytes)}, {plural(len(made.sections), 'section')}")
    say(names, "dim")
    if made.ok is False:
        say(trouble, "yellow")
