"""The comparison table of the README: tsarchive against torch.jit on the two demo models.

    python benchmarks/compare.py [--runs 5] [--write README.md]

Runs `tsarchive demo --json` several times and prints medians as a Markdown table, or writes it
between two comments of a page. Each side loads and runs in a process of its own with one thread,
without the cache of compiled code; torch's import is not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

from measured import measured, put, table

Run = dict[str, Any]
TIMES = {
    "load and first call": ("load_seconds", "first_call_seconds"),
    "a later call": ("second_call_seconds",),
}
SIDES = ("tsarchive", "torch_jit")


def demo() -> list[Run]:
    command = [sys.executable, "-m", "tsarchive", "demo", "--json"]
    environment = {**os.environ, "TSARCHIVE_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)["models"]


def seconds(runs: list[Run], side: str, keys: tuple[str, ...]) -> float:
    return statistics.median(sum(run[side][key] for key in keys) for run in runs)


def timed(runs: list[Run]) -> list[tuple[str, str, str]]:
    """Return the rows of one model."""
    found = []
    for label, keys in TIMES.items():
        ours, theirs = (seconds(runs, side, keys) for side in SIDES)
        times = f"{ours * 1e3:.0f} ms ({ours / theirs:.2f})", f"{theirs * 1e3:.0f} ms"
        found.append((f"{runs[0]['name']}: {label}", *times))
    return found


def held(runs: list[Run], label: str, key: str) -> tuple[str, str, str]:
    """Return a row that says whether something is so in all runs of all models."""
    ours, theirs = ("yes" if all(run[side][key] for run in runs) else "no" for side in SIDES)
    return label, ours, theirs


def compared(runs: int) -> str:
    """Return the table, and what it depends on."""
    models = [demo() for _ in range(runs)]
    rows = [
        held([*chain(*models)], "save, load, save gives the same bytes", "stable"),
        *(row for each in zip(*models, strict=True) for row in timed(list(each))),
    ]
    columns = ("", "tsarchive", "torch.jit")
    written = table(columns, (dict(zip(columns, row, strict=True)) for row in rows))
    return f"{written}\n\n{measured()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the page that has the table")
    options = parser.parse_args()
    text = compared(options.runs)
    if options.write:
        put(text, options.write, "comparison")
    else:
        print(text)


if __name__ == "__main__":
    main()
