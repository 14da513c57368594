"""A survey of a million files of which none is read: what the scheduler and the client hold.

    python benchmarks/survey_scale.py [--files 1_000_000] [--workers 2] [--short] [--out FOLDER]
        [--json]

The files are names that a filesystem makes up, and the tasks of the scheduler give rows without
reading anything, as long as those of small networks or, with --short, with no more than what was
listed; all else is what `tsarchive survey` does: listing, tasks, the dataset in order, and then the
summary, a gate and the page. The scheduler is a thread of the client's process, whose
peak memory is told after each step. The exit code is 1 when it is above 2 GiB.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fsspec import AbstractFileSystem, register_implementation
from measured import measured, table

import tsarchive
from tsarchive.describing.text import size
from tsarchive.surveying.child import unread
from tsarchive.surveying.listing import Listed
from tsarchive.surveying.reader import Job
from tsarchive.surveying.results import Survey
from tsarchive.surveying.rows import FileRow, FindingRow, Surveyed
from tsarchive.surveying.rules import Gate

MOST = 2 << 30
IN_FOLDER = 1_000
COLUMNS = ("step", "seconds", "peak")
PEAK_UNIT = 1024  # ru_maxrss is in KiB on Linux
POLICY = """
[[rule]]
name = "twins"
deny = { twin = "model", signed = false }
severity = "warning"

[[rule]]
name = "findings"
deny = { finding = { severity = ">= warning" } }

[[rule]]
name = "torch"
require = { torch_first = ">= 1.8", effects = { only = [] } }
"""


class Simulated(AbstractFileSystem):
    """A bucket with as many files as its URL names: simulated://1000000."""

    protocol = "simulated"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "type": "directory", "size": 0}

    def walk(self, path: str, **_: Any) -> Iterator[tuple[str, dict, dict]]:
        total = int(path)
        for start in range(0, total, IN_FOLDER):
            numbers = range(start, min(start + IN_FOLDER, total))
            folder = f"{path}/{start // IN_FOLDER:06}"
            names = {f"{number:09}.pt": facts_of(folder, number) for number in numbers}
            yield folder, {}, names


def facts_of(folder: str, number: int) -> dict[str, Any]:
    return {"name": f"{folder}/{number:09}.pt", "size": 100_000, "ETag": f"{number}"}


def long_rows(_: Job, files: Sequence[Listed]) -> list[Surveyed]:
    return [row_of(file) for file in files]


def short_rows(_: Job, files: Sequence[Listed]) -> list[Surveyed]:
    return [unread(file, "read", "") for file in files]


def row_of(file: Listed) -> Surveyed:
    digest = hashlib.sha256(file.path.encode()).hexdigest()
    number = int(digest[:8], 16)
    model = hashlib.sha256(b"%d" % (number % 900_000)).hexdigest()
    releases = tuple(f"2.{minor}" for minor in range(number % 16))
    row = FileRow(
        file.root, file.path, "read", nbytes=file.nbytes, version=file.version, kind="torchscript",
        sha256=digest, code=f"tsf1:{digest}", structure=f"tsf1:{digest}", weights=f"tsf1:{digest}",
        extra_files=f"tsf1:{digest}", model=f"tsf1:{model}", records=20, tensors=12,
        operators=tuple(f"aten::op{(number + each * 37) % 900}" for each in range(25)),
        classes=tuple(f"__torch__.net.Block{each}" for each in range(8)), dtypes=("float32",),
        devices=("cpu",), torch_first="1.13", torch_last="2.15", loads_on=releases,
        runs_on=releases, warnings=int(number % 10 == 0),
    )  # fmt: skip
    if not row.warnings:
        return Surveyed(row)
    finding = FindingRow(
        file.root, file.path, "audit", f"rule-{number % 30}", "warning", "unusual", "x" * 100
    )
    return Surveyed(row, [finding])


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT


def steps(files: int, workers: int, out: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    url = f"simulated://{files}"
    yield "survey", lambda: tsarchive.survey([url], out, workers=workers)
    yield "the same again", lambda: tsarchive.survey([url], out, workers=workers)
    survey = Survey.of(out)
    found: dict[str, Any] = {}
    yield "summary", lambda: found.update(summary=survey.summary())
    yield "gate", lambda: found.update(gate=survey.check(Gate.of(POLICY)))
    yield "page", lambda: survey.page(out.with_suffix(".html"), **found)


def rows(files: int, workers: int, out: Path) -> Iterator[dict[str, Any]]:
    for name, step in steps(files, workers, out):
        begun = time.perf_counter()
        step()
        seconds = time.perf_counter() - begun
        found = {"step": name, "seconds": round(seconds, 1), "peak": peak()}
        print(found, file=sys.stderr, flush=True)
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--short", action="store_true", help="rows without names and digests")
    parser.add_argument("--out", type=Path, help="a new folder, which is kept")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    register_implementation("simulated", Simulated)
    kept = nullcontext(options.out.parent) if options.out else tempfile.TemporaryDirectory()
    task = short_rows if options.short else long_rows
    with kept as folder, patch("tsarchive.surveying.running.read_task", task):
        name = options.out.name if options.out else "survey"
        found = [*rows(options.files, options.workers, Path(folder) / name)]
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        shown = [{**row, "peak": size(row["peak"])} for row in found]
        print(f"{table(COLUMNS, shown)}\n\n{options.files:,} files. {measured()}")
    sys.exit(found[-1]["peak"] > MOST)


if __name__ == "__main__":
    main()
