"""Compare archives with mutants of them: each change must be named at its place, and no other.

    python fuzz/diff_mutants.py [COUNT] [FILE]...

Takes the archives of ``fixtures/`` where none are named. Prints a table of what was tried, by the
kind of mutant, and what was told otherwise; the exit code is 1 if anything was.
What torch.jit.load refuses is no program: the sum of two lists has no difference.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tsarchive  # noqa: E402
from tests.diffing.places import faults  # noqa: E402
from tests.diffing.running import Compared  # noqa: E402
from tests.fingerprinting.mutants import Mutant, mutants  # noqa: E402
from tests.support.verifying import packed  # noqa: E402

FOLDERS = ("archives", "old")
_AT_ONCE = 20


def files() -> list[Path]:
    found = (path for folder in FOLDERS for path in (ROOT / "fixtures" / folder).rglob("*.pt"))
    return sorted(path for path in found if ".io" not in path.name)


def tried(paths: list[Path]) -> Iterator[tuple[Path, Compared, Mutant]]:
    """Yield mutants without end, some of each file in turn."""
    for turn in count():
        for path in paths:
            compared = Compared(path.read_bytes())
            for mutant in mutants(compared.original, f"{path.name} {turn}", _AT_ONCE):
                yield path, compared, mutant


def loads(archive: bytes) -> bool:
    try:
        torch.jit.load(io.BytesIO(archive))
    except RuntimeError:
        return False
    return True


def main(most: int, paths: list[Path]) -> int:
    told: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for path, compared, mutant in tried(paths):
        try:
            report = compared.with_mutant(mutant)
        except tsarchive.SourceError:
            refused[mutant.kind] += 1  # no program any more
            continue
        fault = faults(mutant, compared.original.records, report, compared.classes)
        if fault and not loads(packed(mutant.records)):
            refused[mutant.kind] += 1
            continue
        told[mutant.kind] += 1
        if fault:
            wrong[mutant.kind] += 1
            print(f"{path}: {mutant.kind}, {fault}: {mutant.where!r}")
        if told.total() == most:
            break
    for kind, number in sorted(told.items()):
        print(f"{number:6}  {kind}: {wrong[kind]} wrong, {refused[kind]} refused as programs")
    print(f"{told.total():6}  in all: {wrong.total()} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    number, *named = sys.argv[1:] or ["10000"]
    sys.exit(main(int(number), [Path(name) for name in named] or files()))
