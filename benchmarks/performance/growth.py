"""Scaling of time and memory with weights, with code and with submodules."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from statistics import median
from typing import Any

from processes import OURS, SIDES, THEIRS, Bench, Found, ProbeFailed
from rows import MIB

Point = dict[str, float]
Series = dict[str, list[Point]]
MOST_RUNS = 3
STRAIGHT = 1.15  # exponents up to this count as linear or better
FLAT = 0.3  # and up to this as constant: a few milliseconds, for more layers


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity that scales, and what is measured along it.

    family: of networks, see `models.py`;
    x: the horizontal axis, ``weights`` or ``code`` of the archive, or ``size``;
    unit: of x, and its scale;
    part: the measured part of the probe;
    is_flat: whether time should be constant, rather than at most linear in x.
    """

    name: str
    title: str
    family: str
    forms: tuple[str, ...]
    probe: str
    part: str
    x: str
    unit: tuple[str, float]
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    is_flat: bool = False


CURVES: tuple[Curve, ...] = (
    Curve(
        "growth-weights", "load", "weights", ("scripted",), "load", "load", "weights",
        ("MiB of weights", MIB), tuple(4**power * MIB for power in range(6)), (MIB, 16 * MIB),
        is_flat=True,
    ),
    Curve(
        "growth-code", "load and first call", "unrolled", ("traced",), "calls", "load and first",
        "code", ("kB of code in one file", 1000), (1000, 4000, 16000, 37000, 75000), (200, 800),
    ),
    Curve(
        "growth-modules", "load and first call", "submodules", ("scripted", "traced"), "calls",
        "load and first", "size", ("submodules", 1), (100, 300, 1000, 3000, 10000), (10, 40),
    ),
)  # fmt: skip


def drawn(curve: Curve, bench: Bench, wanted: argparse.Namespace) -> dict[str, Any]:
    """Return the points of a curve for each form and side, and its exponents at the end."""
    series: Series = {}
    failures: list[str] = []
    for form in curve.forms:
        sides = list(SIDES)
        for size in curve.quick if wanted.quick else curve.sizes:
            try:
                points = measured(curve, bench, size, form, sides, wanted)
            except ProbeFailed as error:
                failures.append(f"{form}, {size}: {error}")
                break
            for side, point in points.items():
                if isinstance(point, ProbeFailed):
                    failures.append(f"{form}, {size}: {point}")
                    sides.remove(side)
                else:
                    series.setdefault(f"{side}, {form}", []).append(point)
    steep = {name: exponent(points) for name, points in series.items()}
    return {"series": series, "exponents": steep, "failures": failures}


def measured(
    curve: Curve, bench: Bench, size: int, form: str, sides: list[str], wanted: argparse.Namespace
) -> dict[str, Point | ProbeFailed]:
    """Measure one point for each side, or return its failure; the archive is removed afterwards."""
    name = f"{curve.family}:{size}"
    made = bench.archive(name, form)
    x = float(size if curve.x == "size" else made[curve.x])
    points: dict[str, Point | ProbeFailed] = {}
    for side in sides:
        try:
            points[side] = {"x": x, **point_of(curve, bench, made, side, wanted)}
        except ProbeFailed as error:
            points[side] = error
    bench.forget(name, form)
    return points


def point_of(
    curve: Curve, bench: Bench, made: Found, side: str, wanted: argparse.Namespace
) -> Point:
    settings = made | {"calls": 0, "warm": 0}
    runs = min(wanted.runs, MOST_RUNS)
    found = bench.measured(curve.probe, settings, (side,), runs)[side]
    parts = [run[curve.part] for run in found]
    return {
        "seconds": median(part[wanted.clock] for part in parts),
        "bytes": median(part["anonymous"] for part in parts),
    }


def exponent(points: list[Point]) -> float | None:
    """Return the exponent of x in the last third: 0 is constant, 1 linear, 2 quadratic."""
    if len(points) < 2:
        return None
    end = points[-3:]
    xs = [math.log(point["x"]) for point in end]
    ys = [math.log(point["seconds"]) for point in end]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    rise = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return rise / sum((a - x) ** 2 for a in xs)


def holds(curve: Curve, steep: float | None, reasons: list[str]) -> bool:
    if steep is None or any(OURS in reason for reason in reasons):
        return False
    return steep <= (FLAT if curve.is_flat else STRAIGHT)


def table(found: dict[str, Any]) -> str:
    """Return the ends of the curves, and their exponents."""
    lines = [
        "| growth | from, to | tsarchive | torch.jit | exponent at the end: tsarchive, torch.jit "
        "| to reach | holds |\n|---|---|---|---|---|---|---|"
    ]
    for curve in CURVES:
        if curve.name in found:
            lines += [table_line(curve, form, found[curve.name]) for form in curve.forms]
    return "\n".join(lines) if len(lines) > 1 else ""


def table_line(curve: Curve, form: str, found: dict[str, Any]) -> str:
    sides = {side: f"{side}, {form}" for side in SIDES}
    ours = found["series"].get(sides[OURS], [])
    theirs = found["series"].get(sides[THEIRS], [])
    exponents = [found["exponents"].get(sides[side]) for side in SIDES]
    cells = (
        f"{curve.title}, {form}",
        ends(curve, ours or theirs),
        times(ours),
        times(theirs),
        ", ".join("-" if steep is None else f"{steep:.2f}" for steep in exponents),
        "flat" if curve.is_flat else f"linear (≤ {STRAIGHT})",
        "yes" if holds(curve, exponents[0], found["failures"]) else "no",
    )
    return f"| {' | '.join(cells)} |"


def ends(curve: Curve, points: list[Point]) -> str:
    unit, scale = curve.unit
    first, last = (f"{point['x'] / scale:.4g}" for point in (points[0], points[-1]))
    return f"{first} to {last} {unit}"


def times(points: list[Point]) -> str:
    if not points:
        return "failed"
    return " to ".join(f"{point['seconds'] * 1e3:.4g} ms" for point in (points[0], points[-1]))
