"""Computation of the table's figures from measurements: medians, ratios, means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Any

from processes import OURS, THEIRS, Bench, ProbeFailed, Readings
from rows import ONCE_IN_A_PROCESS, Goal, Kind, Row, Sizes


@dataclass(frozen=True, slots=True)
class Subject:
    """The measurements on one network: a number for each side, ours with imports as well."""

    name: str
    sides: dict[str, float]
    with_imports: float

    @property
    def ratio(self) -> float:
        return self._beside(self.sides[OURS])

    @property
    def ratio_with_imports(self) -> float:
        return self._beside(self.with_imports)

    def _beside(self, ours: float) -> float:
        theirs = self.sides[THEIRS]
        return ours / theirs if theirs > 0 else math.inf  # memory may not have grown at all


@dataclass(frozen=True, slots=True)
class Line:
    """One goal of one row, and its result.

    figure: the name of the row, with the sizes that were measured;
    with_imports: the same including the imports of tsarchive's modules, or None;
    failures: why subjects are missing.
    """

    row: Row
    goal: Goal
    figure: str
    subjects: tuple[Subject, ...]
    failures: tuple[str, ...]
    reached: float | None
    with_imports: float | None

    @property
    def holds(self) -> str:
        """Return yes or no as a word; a dash where nothing is promised."""
        if self.goal.limit is None:
            return "-"
        if self.failures or self.reached is None or self.reached > self.goal.limit:
            return "no"
        needs_imports = self.with_imports is not None and self.with_imports > self.goal.limit
        return "yes, imports aside" if needs_imports else "yes"


def lines_of(row: Row, bench: Bench, sizes: Sizes, clock: str) -> list[Line]:
    """Measure a row; it has no lines where nothing could be measured."""
    readings: dict[str, Readings] = {}
    failures: list[str] = []
    subjects = row.subjects(bench, sizes)
    for name, form in subjects:
        label = f"{name.partition(':')[0]} {form}"
        try:
            made = bench.archive(name, form)
            if row.code[0] <= made["code"] < row.code[1]:
                settings = row.settings_for(made, sizes)
                readings[label] = bench.measured(row.probe, settings, row.sides())
        except ProbeFailed as error:
            failures.append(f"{label}: {error}")
    figure = sizes.named(row.figure)
    goals = row.goals if subjects else ()
    return [line_of(row, goal, figure, readings, tuple(failures), clock) for goal in goals]


def line_of(
    row: Row,
    goal: Goal,
    figure: str,
    readings: dict[str, Readings],
    failures: tuple[str, ...],
    clock: str,
) -> Line:
    subjects = tuple(subject_of(name, goal, found, clock) for name, found in readings.items())
    has_imports = goal.measure == "time" and goal.part in ONCE_IN_A_PROCESS
    counted = subjects if has_imports else ()
    return Line(
        row,
        goal,
        figure,
        subjects,
        failures,
        reached(goal.kind, [(subject.sides[OURS], subject.ratio) for subject in subjects]),
        reached(goal.kind, [(s.with_imports, s.ratio_with_imports) for s in counted]),
    )


def subject_of(name: str, goal: Goal, found: Readings, clock: str) -> Subject:
    sides = {side: median(number(run, goal, clock) for run in runs) for side, runs in found.items()}
    imports = median(run["imports"][clock] if "imports" in run else 0.0 for run in found[OURS])
    return Subject(name, sides, sides[OURS] + imports)


def number(run: dict[str, Any], goal: Goal, clock: str) -> float:
    part = run[goal.part]
    return part[clock] if goal.measure == "time" else part[goal.measure]


def reached(kind: Kind, pairs: list[tuple[float, float]]) -> float | None:
    """Return a line's figure from each subject's (our value, ratio); None without any."""
    if not pairs:
        return None
    if kind is Kind.VALUE:
        return max(value for value, _ in pairs)
    ratios = [ratio for _, ratio in pairs]
    return max(ratios) if kind is Kind.WORST else geometric_mean(ratios)


def geometric_mean(numbers: list[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))
