"""The table of speed and memory: tsarchive against torch.jit, and how both scale.

    python benchmarks/performance [--quick] [--rows NAME,...] [--networks PATTERN,...] [--runs 5]
        [--clock wall|cpu] [--json FILE] [--pictures DIR] [--details]

Makes its models (and takes those of torchvision where that is installed), measures every row in
fresh processes that take turns, with one thread, and prints the table. Figures are medians over
processes. torch's import is never counted; that of tsarchive's own modules has a row and a column
of its own. `--clock cpu` counts seconds of the processor: for machines that do other work as well.
Memory is read from /proc, so this needs Linux. Files of up to 1 GB go to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# The folder above has what all benchmarks share.
sys.path.append(str(Path(__file__).parents[1]))

import drawing
import growth
import report
from figures import Line, lines_of
from measured import measured
from processes import Bench
from rows import QUICK, ROWS, Sizes

NAMES = (*(row.name for row in ROWS), *(curve.name for curve in growth.CURVES))
PICTURES = Path(__file__).parents[2] / "docs" / "performance"
OPTIONAL = {
    "torchvision": "its networks are not measured",
    "safetensors": "it is not measured",
    "executorch": "its programs are not measured",
    "matplotlib": "no pictures are drawn",
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default=",".join(NAMES), help="of " + ", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="small sizes, one run: a trial")
    parser.add_argument("--networks", default="*", help="patterns of names, for a part of them")
    parser.add_argument("--runs", type=int, help="processes of each side, by default 5")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--seconds", type=float, default=300, help="the longest of one process")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help=f"by default {PICTURES}")
    parser.add_argument("--folder", type=Path, help="where temporary files go")
    parser.add_argument("--details", action="store_true", help="list every network as well")
    found = parser.parse_args()
    found.rows = found.rows.split(",")
    if unknown := set(found.rows) - set(NAMES):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    if found.runs is None:
        found.runs = 1 if found.quick else 5
    return found


def tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(bench: Bench, wanted: argparse.Namespace) -> tuple[list[Line], dict[str, Any]]:
    """Measure rows and curves alternately; results are written after each, since all take long."""
    sizes = QUICK if wanted.quick else Sizes(patterns=tuple(wanted.networks.split(",")))
    lines: list[Line] = []
    curves: dict[str, Any] = {}
    for row in (row for row in ROWS if row.name in wanted.rows):
        tell(f"row {row.name}")
        lines += lines_of(row, bench, sizes, wanted.clock)
        write(lines, curves, wanted)
    for curve in (curve for curve in growth.CURVES if curve.name in wanted.rows):
        curves[curve.name] = growth.drawn(curve, bench, wanted)
        write(lines, curves, wanted)
    return lines, curves


def write(lines: list[Line], curves: dict[str, Any], wanted: argparse.Namespace) -> None:
    if wanted.json:
        found = report.as_json(lines, curves, wanted.clock)
        wanted.json.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    wanted = options()
    for package, consequence in OPTIONAL.items():
        if find_spec(package) is None:
            tell(f"{package} is not installed: {consequence}")
    with tempfile.TemporaryDirectory(dir=wanted.folder) as folder:
        bench = Bench(Path(folder), wanted.runs, wanted.seconds, tell)
        lines, curves = measure(bench, wanted)
    print(report.table(lines))
    print("\n" + growth.table(curves))
    print(f"\n{measured()}")
    if wanted.details:
        print("\n" + report.details(lines))
    if find_spec("matplotlib") and curves and (wanted.pictures or not wanted.quick):
        drawing.draw(curves, wanted.pictures or PICTURES)


if __name__ == "__main__":
    main()
