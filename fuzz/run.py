"""Run mutated inputs through every fuzz target, and report anything but results and ArchiveErrors.

python fuzz/run.py --inputs 10_000_000 --processes 2 --seed 0
python fuzz/run.py --reproduce pickle:1234 --seed 0

The exit status is 0 without violations, 1 with some.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from child import Stretch, run_one
from layers import LAYERS, made, warm_up
from ledger import Ledger
from watch import Watch
from workers import WorkerPool

_STRETCH = 20_000
_SHARES = {
    "container": 40, "pickle": 40, "code": 9, "running": 1, "pt2": 4, "executorch": 4,
    "text": 1, "attack": 1,
}  # fmt: skip


def main() -> int:
    os.environ["TSARCHIVE_CACHE"] = "0"  # inputs are not to be remembered, nor files opened
    options = _options()
    torch.set_num_threads(1)  # a forked process would wait for threads that it does not have
    watch = Watch(options.seconds)
    if options.reproduce:
        return _reproduce(options, watch)
    ledger = Ledger(options.out, options.seed)
    started = time.monotonic()
    warm_up()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        pool = WorkerPool(options.processes, options.seed, watch, ledger, quiet=options.quiet)
        pool.run(_stretches(options.layers.split(","), options.inputs, ledger))
        left = os.listdir(empty)
        os.chdir("/")
    if left:
        ledger.violation({"layer": "all", "error": f"files were made: {left}"})
    print(ledger.summary(time.monotonic() - started))
    if options.json:
        options.json.write_text(json.dumps(ledger.as_json(), indent=1) + "\n")
    return 1 if ledger.violations else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", default=",".join(LAYERS), help=", ".join(LAYERS))
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU that one input may take")
    parser.add_argument("--out", type=_whole, help="folder of violations and state, to resume in")
    parser.add_argument("--json", type=_whole, help="file for the counts")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--reproduce", metavar="LAYER:NUMBER", help="run one input, unguarded")
    return parser.parse_args()


def _whole(path: str) -> Path:
    """Make a path absolute, since inputs run in a folder of their own."""
    return Path(path).absolute()


def _stretches(layers: list[str], inputs: int, ledger: Ledger) -> list[Stretch]:
    """Return the ranges to run, layers alternating, without those of earlier runs."""
    total = sum(_SHARES[layer] for layer in layers)
    work = []
    for layer in layers:
        stop = inputs * _SHARES[layer] // total
        starts = range(0, stop, _STRETCH)
        stretches = [Stretch(layer, start, min(stop, start + _STRETCH)) for start in starts]
        work += [((i + 1) / len(stretches), stretch) for i, stretch in enumerate(stretches)]
    return [
        stretch for _, stretch in sorted(work, key=lambda row: row[0]) if not ledger.has(stretch)
    ]


def _reproduce(options: argparse.Namespace, watch: Watch) -> int:
    """Run one input in this process; errors show their traceback."""
    layer, _, number = options.reproduce.partition(":")
    warm_up()
    made_input = made(layer, options.seed, int(number))
    if options.out:
        options.out.write_bytes(made_input.data)
    outcome, problem = run_one(layer, options.seed, int(number), watch)
    print(outcome)
    if problem is not None:
        print(problem["error"], problem["trace"], sep="\n")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
