"""The number of modules of a collection that are saved exactly as torch does, or run the same.

    python benchmarks/fidelity.py [--run] [--first MODULE] [--json FILE] [--seconds 60] MODULES...

Each of MODULES is importable: a package (all modules below it are searched) or a module. Prints,
for each row of the format's records, how many modules obey it, and the first difference of each
module that does not. `--first` names a module to import before them, one that defines missing
operators, say. With `--run`, archives that torch saves are run by both sides. The modules run in
a process of their own, which is started anew after a crash or a module that takes more than the
given time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TextIO

import fidelity_rows
import running_rows
from fidelity_modules import Unimportable, subjects
from measured import measured

Result = dict[str, Any]
RESTART_AFTER = 300  # torch keeps every compiled class for the life of the process


# --- the worker: one collection, one JSON line per subject ---


def work(collection: str, options: argparse.Namespace) -> None:
    skip, seconds = options.worker, options.seconds
    out = os.fdopen(os.dup(1), "w", buffering=1)
    silence()
    if options.first:
        importlib.import_module(options.first)
    signal.signal(signal.SIGALRM, give_up)
    for number, (name, build) in enumerate(subjects(collection)):
        if number < skip:
            continue
        out.write(json.dumps({"number": number, "name": name}) + "\n")
        signal.alarm(seconds)
        module, result = built(build)
        if module is not None:
            out.write(json.dumps({"number": number, "name": name, "built": True}) + "\n")
            signal.alarm(seconds)
            result = judged(module, rows_of(options))
        signal.alarm(0)
        out.write(json.dumps({"number": number, "name": name, **result}) + "\n")
        if number - skip + 1 == RESTART_AFTER:
            return
    out.write(json.dumps({"end": True}) + "\n")


def silence() -> None:
    """Suppress output of the modules under test."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")


def give_up(*_: object) -> None:
    raise TimeoutError("took too long")


def built(build: Any) -> tuple[Any, Result]:
    """Return the module to compare; or None and the reason."""
    if isinstance(build, Unimportable):
        return None, {"status": "not importable", "error": build.error}
    try:
        return build(), {"status": "not TorchScript"}
    except Exception as error:
        return None, {"status": "not TorchScript", "reason": f"{type(error).__name__}: {error}"}


def rows_of(options: argparse.Namespace) -> ModuleType:
    """Return the comparing module: its ``compare`` and the names of its rows."""
    return running_rows if options.run else fidelity_rows


def judged(module: Any, rows: ModuleType) -> Result:
    try:
        found = rows.compare(module)
    except TimeoutError:
        return {"status": "too slow"}
    except Exception as error:
        return failure(error)
    return {"status": "differs" if found else "equal", "rows": found}


def failure(error: Exception) -> Result:
    """Return the result where torch itself fails to save, or to load its own file."""
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    by_torch = "expected_records" in frames
    status = "refused by torch" if by_torch else "failed"
    return {"status": status, "error": f"{type(error).__name__}: {error}"[:2000]}


# --- the parent ---


def results(collection: str, options: argparse.Namespace) -> Iterator[Result]:
    skip = 0
    while True:
        last: Result = {"number": skip - 1}
        ended = False
        for message in worker_messages(collection, skip, options):
            ended = ended or "end" in message
            if "status" in message:
                yield message
            last = message if "number" in message else last
        if ended:
            return
        if "status" not in last and "name" in last:
            status = "crashed" if "built" in last else "not TorchScript"
            yield {**last, "status": status, "reason": "the process ended or hung"}
        elif last["number"] < skip:
            raise SystemExit(f"the worker for {collection} does not start")
        skip = last["number"] + 1


def worker_messages(collection: str, skip: int, options: argparse.Namespace) -> Iterator[Result]:
    command = [sys.executable, __file__, "--worker", str(skip), *["--run"] * options.run]
    command += ["--seconds", str(options.seconds), "--first", options.first, collection]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        try:
            for line in lines(worker.stdout, patience=10 * options.seconds):
                yield json.loads(line)
        finally:
            worker.kill()


def lines(stream: TextIO, patience: int) -> Iterator[str]:
    """Yield lines until the stream ends, or is silent for more than ``patience`` seconds."""
    while select.select([stream], [], [], patience)[0]:
        line = stream.readline()
        if not line:
            return
        yield line


def table(found: list[Result], rows: ModuleType) -> str:
    compared = [result for result in found if "rows" in result]
    text = ["| row | modules that obey |", "|---|---|"]
    for row in rows.ALL_ROWS:
        obey = sum(row not in result["rows"] for result in compared)
        text.append(f"| {row} | {obey} of {len(compared)} |")
    states = Counter(result["status"] for result in found)
    text.append("")
    text.append(", ".join(f"{count} {status}" for status, count in sorted(states.items())))
    return "\n".join(text)


def complaints(result: Result) -> Iterator[str]:
    if result["status"] in ("crashed", "failed", "not importable", "too slow"):
        yield f"{result['name']}: {result['status']}: {result.get('error', '')}"
    for row, difference in result.get("rows", {}).items():
        yield f"{result['name']}: {row}: {difference}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="+", metavar="MODULES")
    parser.add_argument("--run", action="store_true", help="compare what the modules compute")
    parser.add_argument("--first", default="", metavar="MODULE", help="import this module first")
    parser.add_argument("--json", metavar="FILE", help="write every result, one a line")
    parser.add_argument("--seconds", type=int, default=60, help="time for one module")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.modules[0], options)
        return
    started = time.monotonic()
    found = []
    log = open(options.json, "w") if options.json else None  # noqa: SIM115
    for collection in options.modules:
        for result in results(collection, options):
            found.append(result)
            if log:
                log.write(json.dumps({"collection": collection, **result}) + "\n")
                log.flush()
            for text in complaints(result):
                print(text)
    print(f"\n{table(found, rows_of(options))}\n\n{measured()}")
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
