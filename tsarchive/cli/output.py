"""Where output goes: a console for people, one JSON document for programs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from tsarchive.cli.streams import encodable, guarded, own_stream
from tsarchive.cli.tables import Column, Table
from tsarchive.cli.terminal import styled
from tsarchive.describing.text import visible

if TYPE_CHECKING:
    from rich.console import Console

    from tsarchive import Finding


# Wide enough that no table is cut when the output is a file or a pipe.
_UNBOUNDED = 10_000


def console(*, stderr: bool = False) -> Console:
    """A console that colours on a terminal only, and never when NO_COLOR is set.

    Text is printed as it is: square brackets and emoji names have no meaning, and what a file
    says is escaped by the caller.
    """
    from rich.console import Console

    stream = own_stream(stderr=stderr)
    fixed = (stream is not None and stream.isatty()) or "COLUMNS" in os.environ
    return Console(
        file=stream,
        width=None if fixed else _UNBOUNDED,
        markup=False,
        emoji=False,
        highlight=False,
    )


def table(*headings: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns named in ``right`` are aligned to the right.

    Those named in ``whole`` are never folded, however narrow the terminal is.
    """
    return Table(
        [
            Column(heading, is_right=heading in right, is_whole=heading in whole)
            for heading in headings
        ]
    )


def show(lines: Iterable[str]) -> None:
    """Print lines, which have their styles already, to stdout."""
    _print("".join(f"{line}\n" for line in lines))


def say(text: str, style: str = "", *, stderr: bool = False, keep: str = "") -> None:
    """Print a line in a style such as ``bold red``, where styles are shown.

    What of the text is not printable, such as escapes from a file, is shown as escapes, but for
    the characters to ``keep``.
    """
    _print(styled(visible(text, keep=keep), style, stderr=stderr) + "\n", stderr=stderr)


def print_source(source: bytes) -> None:
    """Print bytes as they are to stdout, whatever its encoding is."""
    click.echo(source, file=own_stream(), nl=False)


def _print(text: str, *, stderr: bool = False) -> None:
    stream = own_stream(stderr=stderr)
    click.echo(encodable(text, stream), file=stream, nl=False, err=stderr, color=True)


def print_json(document: Any) -> None:
    """Print a document in which NaN and infinities, which JSON lacks, are strings."""
    import json

    _print(json.dumps(_finite(document), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


STYLES: Final = {"info": "cyan", "warning": "yellow", "error": "bold red"}
"""The colour of each severity."""


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding as JSON; parts that it does not have are null."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "nature": finding.nature.value,
        "message": finding.message,
        "record": finding.record,
        "offset": finding.offset,
        "line": finding.line,
        "hint": finding.hint,
    }


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step; without a terminal it does nothing."""
    if not sys.stderr.isatty():
        yield lambda description: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    err = console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}", markup=False))
    shown = Progress(*columns, console=err, transient=True, redirect_stdout=False)
    with shown as bar, guarded():
        task = bar.add_task("", total=steps)
        started = -1

        def step(description: str) -> None:
            nonlocal started
            started += 1
            bar.update(task, completed=started, description=visible(description, keep=""))

        yield step
