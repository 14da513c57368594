"""The comparison table of the README: tsarchive against torch.jit on the two demo models.

    python benchmarks/compare.py [--runs 5]

Runs `tsarchive demo --json` several times and prints medians as a Markdown table. Each side loads
and runs in a process of its own with one thread, without the cache of compiled code; torch's import
is not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from measured import measured

Run = dict[str, Any]
TIMES = {
    "load": "load_seconds",
    "first call": "first_call_seconds",
    "second call": "second_call_seconds",
}


def demo() -> list[Run]:
    command = [sys.executable, "-m", "tsarchive", "demo", "--json"]
    environment = {**os.environ, "TSARCHIVE_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)["models"]


def median(runs: list[Run], side: str, key: str) -> float:
    return statistics.median(run[side][key] for run in runs)


def yes(flags: list[bool]) -> str:
    return "yes" if all(flags) else "no"


def rows(runs: list[Run]) -> list[tuple[str, str, str]]:
    def both(label: str, key: str) -> tuple[str, str, str]:
        sides = (yes([run[side][key] for run in runs]) for side in ("tsarchive", "torch_jit"))
        return (label, *sides)  # type: ignore[return-value]

    found = [
        both("outputs equal those of the original module", "outputs_equal"),
        both("save, load, save gives the same bytes", "stable"),
        (
            "torch.jit loads and runs the file",
            yes([run["torch_jit_reads_ours"] for run in runs]),
            yes([run["torch_jit"]["error"] is None for run in runs]),
        ),
    ]
    for label, key in TIMES.items():
        ours, theirs = median(runs, "tsarchive", key), median(runs, "torch_jit", key)
        found.append(
            (label, f"{ours * 1e3:.1f} ms ({ours / theirs:.2f})", f"{theirs * 1e3:.1f} ms")
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = [demo() for _ in range(parser.parse_args().runs)]
    for models in zip(*runs, strict=True):
        print(f"| {models[0]['name']} | tsarchive | torch.jit |\n|---|---|---|")
        for row in rows(list(models)):
            print(f"| {' | '.join(row)} |")
        print()
    print(measured())


if __name__ == "__main__":
    main()
