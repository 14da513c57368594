"""Compare what ``tsarchive.compat`` says with what torch.jit.load of other releases does.

    python benchmarks/compat_agreement.py --python /path/to/torch-2.4/bin/python ... FOLDER...

Each ``--python`` has a release of torch, and needs nothing of ours. Every archive is loaded in a
process of its own, and run where a file of inputs (``NAME.io.pt``) lies beside it. Prints a row for
each release, and each archive about which the two disagree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tsarchive
from tsarchive.errors import ArchiveError
from tsarchive.formats.compatibility import Reason, Row

# A child for each file: what ends the process is an answer, too.
_PROBE = r"""
import json, os, resource, select, signal, sys, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)

def called(module, method, call):
    given = call.get("inputs", call.get("args", ()))
    return getattr(module, method)(*given, **call.get("kwargs", {}))

def probe(path):
    try:
        module = torch.jit.load(path, map_location="cpu")
    except BaseException as error:
        return {"loads": False, "error": str(error)}
    beside = os.path.splitext(path)[0] + ".io.pt"
    runs, error = None, ""
    if os.path.exists(beside):
        try:
            given = torch.load(beside)
            for method, calls in given.items() if isinstance(given, dict) else given:
                for call in calls if isinstance(calls, list) else [calls]:
                    called(module, method, call)
            runs = True
        except BaseException as failure:
            runs, error = False, str(failure)
    return {"loads": True, "runs": runs, "error": error}

print(json.dumps({"torch": torch.__version__}), flush=True)
for path in sys.stdin.read().splitlines():
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.close(reading)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1), os.dup2(quiet, 2)
            os.write(writing, json.dumps(probe(path))[:60000].encode())
        finally:
            os._exit(0)
    os.close(writing)
    data = b""
    while select.select([reading], [], [], 60)[0]:
        piece = os.read(reading, 1 << 16)
        if not piece:
            break
        data += piece
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    ended = {"loads": False, "error": "the process ended: %d" % status}
    found = json.loads(data) if data else ended
    print(json.dumps({"path": path, **found}), flush=True)
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], help="a Python with a torch")
    parser.add_argument("--answers", type=Path, help="keep what each torch does in this file")
    parser.add_argument("paths", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    files = [*_archives(options.paths)]
    kept = options.answers
    answers = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for python in options.python:
        version, found = _asked(python, files)
        answers[version] = found
    if kept:
        kept.write_text(json.dumps(answers))
    _compare(answers, files)


def _archives(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the archives of TorchScript below the paths."""
    for path in paths:
        for file in sorted(path.rglob("*") if path.is_dir() else [path]):
            if file.is_file() and not file.name.endswith(".io.pt") and _is_torchscript(file):
                yield str(file.resolve())


def _is_torchscript(file: Path) -> bool:
    try:
        with tsarchive.open(file) as archive:
            return archive.kind in ("torchscript", "torchscript-legacy")
    except (ArchiveError, OSError):
        return False


def _asked(python: str, files: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the version of a torch, and what it does with each file."""
    done = subprocess.run(
        [python, "-c", _PROBE], input="\n".join(files), capture_output=True, text=True, check=True
    )
    head, *rows = map(json.loads, done.stdout.splitlines())
    return head["torch"], {row["path"]: row for row in rows}


def _compare(answers: dict[str, dict[str, Any]], files: Sequence[str]) -> None:
    versions = sorted(answers, key=lambda version: [*map(int, version.split("+")[0].split("."))])
    reports = {file: _rows(file, versions) for file in files}
    print("| torch | archives | loads | refuses | agreed | share | run | agreed |")
    print("|---|---|---|---|---|---|---|---|")
    told: list[str] = []
    for version in versions:
        rows = [(f, reports[f][version], answers[version][f]) for f in files]
        differing = [row for row in rows if row[1].loads != row[2]["loads"]]
        run = [row for row in rows if row[2].get("runs") is not None and row[1].loads]
        failing = [row for row in run if row[1].runs != row[2]["runs"]]
        told += (_told(version, *row) for row in (*differing, *failing))
        loads = sum(theirs["loads"] for _, _, theirs in rows)
        agreed = len(rows) - len(differing)
        counts = (len(rows), loads, len(rows) - loads, agreed, f"{agreed / len(rows):.2%}")
        cells = (version, *counts, len(run), len(run) - len(failing))
        print(f"| {' | '.join(map(str, cells))} |")
    print("\n".join(told))


def _rows(file: str, versions: Sequence[str]) -> dict[str, Row]:
    try:
        report = tsarchive.compat(file)  # of all: plans of conversions take as long again
    except ArchiveError as error:
        refused = Reason("file", str(error))
        return {
            version: Row(version, loads=False, runs=False, reasons=(refused,))
            for version in versions
        }
    return {version: report.row(version) for version in versions}


def _told(version: str, file: str, ours: Row, theirs: dict[str, Any]) -> str:
    said = "; ".join(map(str, ours.reasons)) or "no reason"
    done = theirs["error"].strip().partition("\n\n")[0] or "no error"
    verdicts = f"loads: {ours.loads} {theirs['loads']}, runs: {ours.runs} {theirs.get('runs')}"
    return f"{version} {file}\n  {verdicts}\n  ours: {said}\n  torch: {done[:600]}"


if __name__ == "__main__":
    main()
