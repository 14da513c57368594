"""The time of a first call or of a save, by part of tsarchive.

    python benchmarks/profiling.py first-call|save [NETWORK:FORM ...]

Networks are those of ``benchmarks/performance``. The work is done in fresh processes, without the
cache of compiled code; a timer of processor time interrupts each, and what then runs is counted:
time in torch, in Python's parser and compiler, or in kernels counts where it was called, by the
innermost function outside of both.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PERFORMANCE = Path(__file__).with_name("performance")
USUAL = {
    "first-call": ("mobilenet:traced", "efficientnet:scripted", "encoder:scripted"),
    "save": ("mobilenet:traced", "densenet:scripted", "encoder:scripted"),
}
SECONDS = 0.001
GENERATED = "(generated code)"
# Titles of modules by the prefix of their names below the package; the first match counts.
PARTS = {
    "archive and pickles": ("container", "pickler", "formats.base", "formats.registry"),
    "code to graphs": ("frontend", "ir.text_limits"),
    "records of code": (
        "formats.torchscript.saving",
        "formats.torchscript.code_records",
        "formats.torchscript.debug_records",
    ),
    "objects and tensors": ("formats", "run.classes", "run.objects", "run.slots", "run.modules"),
    "graphs to Python": ("run",),
    "graphs of torch adopted": ("adopt",),
    "graphs and types": ("ir",),
    "graphs to source": ("printer",),
    "operators": (GENERATED,),
    "the rest": ("",),
}  # fmt: skip


class Sampling:
    """Samples which functions of tsarchive are running inside the block."""

    def __init__(self) -> None:
        self.found: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> None:
        signal.signal(signal.SIGPROF, self._count)
        signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _count(self, number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename.startswith("<tsarchive "):
                self.found[GENERATED, ""] += 1
                return
            package, _, module = frame.f_globals.get("__name__", "").partition(".")
            if package == "tsarchive":
                self.found[module, frame.f_code.co_qualname] += 1
                return
            frame = frame.f_back


def part_of(module: str) -> str:
    return next(part for part, starts in PARTS.items() if module.startswith(starts))


def first_call(path: str, arguments: str) -> Callable[[], Any]:
    import torch

    import tsarchive

    given = tuple(torch.load(arguments))
    return lambda: tsarchive.load(path)(*given)


def save(name: str, form: str) -> Callable[[], Any]:
    import models

    import tsarchive

    module = models.NETWORKS[name].live(form)
    tsarchive.save(module, io.BytesIO())  # warm-up: imports, and caches
    return lambda: tsarchive.save(module, io.BytesIO())


def sampled(row: str, settings: list[str]) -> Counter[tuple[str, str]]:
    """Sample the work in this process."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if row == "first-call":
        warm = first_call(*settings[2:])
        warm()
        work = first_call(*settings[:2])
    else:
        work = save(*settings)
    sampling = Sampling()
    with sampling:
        work()
    return sampling.found


def in_processes(row: str, settings: list[str], count: int) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for _ in range(count):
        command = [sys.executable, __file__, row, *settings, "--in-this-process"]
        environment = {**os.environ, "TSARCHIVE_CACHE": "0"}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, text=True, env=environment
        )
        found.update({(module, name): count for module, name, count in json.loads(done.stdout)})
    return found


def settings_of(row: str, name: str, form: str, folder: Path) -> list[str]:
    import models

    if row == "save":
        return [name, form]
    made = models.make(name, form, folder)
    other = models.make("decoder" if name != "decoder" else "recurrent", "scripted", folder)
    return [archive[key] for archive in (made, other) for key in ("path", "arguments")]


def shown(title: str, found: Counter[tuple[str, str]], functions: int) -> str:
    total = found.total()
    parts: Counter[str] = Counter()
    for (module, _), count in found.items():
        parts[part_of(module)] += count
    lines = [f"| {title} | share |", "|---|---|"]
    lines += [f"| {part} | {count / total:.0%} |" for part, count in parts.most_common()]
    lines += [
        f"| `{module}.{name}` | {count / total:.1%} |"
        for (module, name), count in found.most_common(functions)
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("row", choices=USUAL)
    parser.add_argument("networks", nargs="*", metavar="NETWORK:FORM")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="show the first N")
    parser.add_argument("--processes", type=int, default=12, metavar="N")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(PERFORMANCE))
    if given.in_this_process:
        found = sampled(given.row, given.networks)
        print(json.dumps([[*key, count] for key, count in found.items()]))
        return
    with tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for one in given.networks or USUAL[given.row]:
            name, _, form = one.partition(":")
            settings = settings_of(given.row, name, form or "scripted", Path(folder))
            found = in_processes(given.row, settings, given.processes)
            print(shown(one, found, given.functions), end="\n\n")


if __name__ == "__main__":
    main()
