"""The table in Markdown, results by network, and everything as JSON."""

from __future__ import annotations

import os
import platform
from typing import Any

from figures import Line, Subject, geometric_mean
from processes import OURS, THEIRS
from rows import MIB, Goal, Kind

_HEADER = (
    "| figure | beside | theirs | tsarchive | to reach | reached "
    "| reached, imports of tsarchive counted | holds |\n"
    "|---|---|---|---|---|---|---|---|"
)


def table(lines: list[Line]) -> str:
    return "\n".join([_HEADER, *map(table_line, lines)])


def table_line(line: Line) -> str:
    label = line.figure + (f": {line.goal.label}" if line.goal.label else "")
    cells = (
        label,
        line.row.peer,
        "; ".join([typical(line, THEIRS), *others(line)]),
        typical(line, OURS),
        line.goal.shown,
        compared(line.goal, line.reached),
        compared(line.goal, line.with_imports),
        line.holds,
    )
    return f"| {' | '.join(cells)} |"


def others(line: Line) -> list[str]:
    sides = line.subjects[0].sides if line.subjects else {}
    return [f"{side} {typical(line, side)}" for side in sides if side not in (OURS, THEIRS)]


def typical(line: Line, side: str) -> str:
    """Return the figure of a side: the geometric mean over networks where there are several."""
    numbers = [subject.sides[side] for subject in line.subjects]
    if not numbers:
        return "failed"
    if line.goal.part == "imports" and side == THEIRS:
        return "-"
    if min(numbers) <= 0 or len(numbers) == 1:
        return shown(line.goal, max(numbers))
    return shown(line.goal, geometric_mean(numbers))


def compared(goal: Goal, reached: float | None) -> str:
    if reached is None:
        return "-"
    return shown(goal, reached) if goal.kind is Kind.VALUE else f"{reached:.2f}"


def shown(goal: Goal, number: float) -> str:
    if goal.measure == "time":
        return f"{number * 1e3:.3g} ms" if number < 1 else f"{number:.2f} s"
    if goal.measure.endswith("of size"):
        return f"{number:.2f}"
    return f"{number / MIB:.1f} MiB"


def details(lines: list[Line]) -> str:
    """Return the results for each network, the worst ratio first, and failures."""
    parts = {}
    for line in lines:
        title = f"{line.row.name}: {line.goal.part}, {line.goal.measure}"
        rows = sorted(line.subjects, key=lambda subject: -subject.ratio)
        texts = [subject_line(line.goal, subject) for subject in rows]
        failures = [f"  failed: {text}" for text in line.failures]
        parts[title] = "\n".join([title, *texts, *failures])  # two goals may share one measure
    return "\n\n".join(parts.values())


def subject_line(goal: Goal, subject: Subject) -> str:
    sides = "   ".join(f"{side} {shown(goal, number)}" for side, number in subject.sides.items())
    return f"  {subject.name:36} {subject.ratio:6.2f}   {sides}"


def as_json(lines: list[Line], growth: dict[str, Any], clock: str) -> dict[str, Any]:
    return {
        "environment": environment(),
        "clock": clock,
        "lines": [line_as_json(line) for line in lines],
        "growth": growth,
    }


def line_as_json(line: Line) -> dict[str, Any]:
    return {
        "row": line.row.name,
        "figure": line.figure,
        "beside": line.row.peer,
        "part": line.goal.part,
        "measure": line.goal.measure,
        "kind": line.goal.kind.value,
        "limit": line.goal.limit,
        "reached": line.reached,
        "reached_with_imports": line.with_imports,
        "holds": line.holds,
        "failures": list(line.failures),
        "subjects": {subject.name: subject.sides for subject in line.subjects},
    }


def environment() -> dict[str, Any]:
    import torch

    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
