"""The results of ``tsarchive demo`` as a document and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tsarchive.cli.jitter import difference_document, difference_lines
from tsarchive.cli.output import console, table
from tsarchive.cli.text import duration, visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tsarchive.cli.trial import Side, Trial

_MEASURES = ("bytes", "records", "load", "first call", "second call")
_VERDICTS = ("equal outputs", "stable bytes")


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
    for line in _remarks(trials):
        out.print(line)
    good = all(trial.ok for trial in trials)
    verdict = "tsarchive: nothing differs" if good else "tsarchive: there are differences"
    out.print(verdict, style="bold green" if good else "bold red")


def _table(trials: list[Trial]) -> Table:
    made = table("model", "with", *_MEASURES, *_VERDICTS, right=_MEASURES)
    for trial in trials:
        made.add_row(visible(trial.name), "tsarchive", *_cells(trial.tsarchive))
        made.add_row("", "torch.jit", *_cells(trial.torch_jit), end_section=True)
    return made


def _cells(side: Side) -> Iterator[str | Text]:
    yield f"{side.bytes:,}"
    yield f"{side.records:,}"
    for seconds in (side.load_seconds, side.first_call_seconds, side.second_call_seconds):
        yield "-" if seconds is None else duration(seconds)
    yield _verdict(side.outputs_equal, _apart(side))
    yield _verdict(side.stable)


def _apart(side: Side) -> str:
    apart = side.max_difference
    return "no: other shapes" if apart is None else f"no: up to {apart:.3g} apart"


def _verdict(value: bool | None, otherwise: str = "no") -> Text:
    from rich.text import Text

    if value is None:
        return Text("-", style="dim")
    return Text("yes", style="green") if value else Text(otherwise, style="red")


def _remarks(trials: list[Trial]) -> Iterator[str]:
    for trial in trials:
        if trial.torch_jit_reads_ours is not None:
            equal = "equal" if trial.torch_jit_reads_ours else "NO equal"
            yield f"{visible(trial.name)}: torch.jit runs what tsarchive saved, {equal} outputs"
        for name, side in (("tsarchive", trial.tsarchive), ("torch.jit", trial.torch_jit)):
            yield from _side_remarks(f"{visible(trial.name)}: {name}", side)


def _side_remarks(label: str, side: Side) -> Iterator[str]:
    if side.error is not None:
        yield f"{label} failed: {visible(side.error['message'])}"
    if side.stable is False:
        yield f"{label}: saving what was loaded changes the bytes"
        if side.first_difference is not None:
            yield from (f"  {line}" for line in difference_lines(side.first_difference))
