"""Where output goes: a console for people, one JSON document for programs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tsarchive.cli.tables import Column, Table
from tsarchive.cli.terminal import encodable, styled

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough that no table is cut when the output is a file or a pipe.
_UNBOUNDED = 10_000


def console(*, stderr: bool = False) -> Console:
    """A console that colours on a terminal only, and never when NO_COLOR is set.

    Text is printed as it is: square brackets and emoji names have no meaning.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    fixed = stream.isatty() or "COLUMNS" in os.environ
    return Console(
        stderr=stderr,
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
    text = "".join(f"{line}\n" for line in lines)
    click.echo(encodable(text), nl=False, color=True)


def say(text: str, style: str = "", *, stderr: bool = False) -> None:
    """Print text in a style such as ``bold red``, where styles are shown."""
    shown = encodable(styled(text, style, stderr=stderr), stderr=stderr)
    click.echo(shown, err=stderr, color=True)


def print_json(document: Any) -> None:
    """Print a document in which NaN and infinities, which JSON lacks, are strings."""
    import json

    click.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
