"""Where output goes: a console for people, one JSON document for programs."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns named in ``right`` are aligned to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def show(content: Any) -> None:
    """Print a table, a tree or text to stdout; where that is no terminal, lines are not padded."""
    out = console()
    if out.is_terminal:
        out.print(content)
        return
    with out.capture() as captured:
        out.print(content)
    click.echo("\n".join(line.rstrip(" ") for line in captured.get().split("\n")), nl=False)


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
