"""The results of ``tsarchive demo`` as a document and as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tsarchive.cli.jitter import difference_document, difference_lines
from tsarchive.cli.output import console
from tsarchive.describing.text import duration, visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tsarchive.cli.trial import Side, Trial


def document(trial: Trial) -> dict[str, Any]:
    """One model as JSON."""
    return {
        "name": trial.name,
        "tsarchive": _side_document(trial.tsarchive),
        "torch_jit": _side_document(trial.torch_jit),
        "torch_jit_reads_ours": trial.torch_jit_reads_ours,
        "ok": trial.ok,
    }


def _side_document(side: Side) -> dict[str, Any]:
    difference = side.first_difference
    return {
        **asdict(side),
        "first_difference": None if difference is None else difference_document(difference),
    }


def show(trials: list[Trial]) -> None:
    """Print the table and, below it, what differs."""
    out = console()
    out.print(_table(trials))
    out.print()
    for line in _remarks(trials):
        out.print(line, soft_wrap=True)
    for trial in trials:
        out.print(_conclusion(trial), style="bold green" if trial.ok else "bold red")


def _conclusion(trial: Trial) -> str:
    equal = {
        True: "outputs are equal to the bit",
        False: "OUTPUTS DIFFER",
        None: "outputs were not compared",
    }[trial.tsarchive.outputs_equal]
    stable = "saved bytes are stable" if trial.tsarchive.stable else "SAVED BYTES CHANGE"
    return f"{visible(trial.name)}: tsarchive: {equal}, {stable}"


def _table(trials: list[Trial]) -> Table:
    sides = [
        (f"{visible(trial.name)}\n{by}", side)
        for trial in trials
        for by, side in (("tsarchive", trial.tsarchive), ("torch.jit", trial.torch_jit))
    ]
    headers = [header for header, _ in sides]
    from rich import box
    from rich.table import Table

    made = Table("", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in headers:
        made.add_column(header, justify="right", overflow="fold")
    for label, cell in _ROWS:
        made.add_row(label, *(cell(side) for _, side in sides))
    return made


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _outputs(side: Side) -> Text:
    apart = side.max_difference
    return _verdict(
        side.outputs_equal,
        "no: other shapes" if apart is None else f"no: up to {apart:.3g} apart",
    )


def _verdict(value: bool | None, otherwise: str = "no") -> Text:
    from rich.text import Text

    if value is None:
        return Text("-", style="dim")
    return Text("yes", style="green") if value else Text(otherwise, style="red")


_ROWS: tuple[tuple[str, Callable[[Side], str | Text]], ...] = (
    ("bytes", lambda side: f"{side.bytes:,}"),
    ("records", lambda side: f"{side.records:,}"),
    ("load", lambda side: _time(side.load_seconds)),
    ("first call", lambda side: _time(side.first_call_seconds)),
    ("second call", lambda side: _time(side.second_call_seconds)),
    ("equal outputs", _outputs),
    ("stable bytes", lambda side: _verdict(side.stable)),
)


def _remarks(trials: list[Trial]) -> Iterator[str]:
    for trial in trials:
        name = visible(trial.name)
        if trial.torch_jit_reads_ours is not None:
            equal = "equal" if trial.torch_jit_reads_ours else "NO equal"
            yield f"{name}: torch.jit runs what tsarchive saved, with {equal} outputs"
        yield from _side_remarks(f"{name}: tsarchive", trial.tsarchive)
        yield from _side_remarks(f"{name}: torch.jit", trial.torch_jit)


def _side_remarks(label: str, side: Side) -> Iterator[str]:
    if side.error is not None:
        yield f"{label} failed: {visible(side.error['message'])}"
    if side.stable is False:
        yield f"{label}: saving what was loaded changes the bytes"
        if side.first_difference is not None:
            yield from (f"  {line}" for line in difference_lines(side.first_difference))
