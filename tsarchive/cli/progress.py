"""A progress bar on stderr, for commands that take a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tsarchive.cli.output import console
from tsarchive.cli.streams import guarded
from tsarchive.describing.text import visible


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Gives a function to call with what is being done; nothing is shown where no terminal is."""
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
