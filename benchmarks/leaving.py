"""Which ways out of TorchScript work: for archives, and for modules of packages.

    python benchmarks/leaving.py [--json] [--only WAY]... [--modules PACKAGE [--most N]] [PATH ...]

Each archive goes through `tsarchive.leave`, with the inputs that the corpus or the fixture has.
Without paths: the corpus beside the repository and the fixture archives. With ``--modules``, those
of an importable package are made with guessed arguments, scripted, and traced with guessed inputs,
as for `fidelity.py`; what torch.jit does not take is not counted. Archives are tried in a process
of their own, which is started again if one of them ends it; --timeout is in seconds and for each
archive.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

import torch  # noqa: E402
from conversion import default_paths, examine_all, examine_here, inputs_of  # noqa: E402
from fidelity_modules import Unimportable, subjects  # noqa: E402
from measured import measured, table  # noqa: E402

import tsarchive  # noqa: E402

OUTCOMES = ("equal", "close", "written", "differs", "fails", "untried")
COLUMNS = ("way", "archives", *OUTCOMES)


def examine(path: Path, only: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the outcome of each way for one archive; ``skipped`` says why nothing was tried."""
    try:
        module = torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        return {"skipped": f"torch.jit does not load it: {error}"}
    inputs = inputs_of(path, module) if hasattr(module, "forward") else None
    try:
        plan = tsarchive.leave(
            path, args=inputs, map_location="cpu", policy=tsarchive.Policy.trusted(), only=only
        )
    except tsarchive.ArchiveError as error:
        return {"skipped": f"{type(error).__name__}: {error.message}"}
    problems = {way.name: way.problem for way in plan.ways if way.problem is not None}
    outcomes = {way.name: way.outcome for way in plan.ways}
    return {**outcomes, "problems": json.dumps(problems)}


def saved_modules(package: str, most: int, folder: Path) -> Iterator[Path]:
    """Save the modules of a package: traced ones have their inputs with them."""
    made = 0
    for name, build in subjects(package):
        if made == most:
            return
        if isinstance(build, Unimportable):
            continue
        path = folder / f"{made:04}-{name.replace('/', '_')[-80:]}.pt"
        try:
            torch.jit.save(build(), str(path))
        except Exception:  # what the compiler and guessed arguments raise
            continue
        made += 1
        yield path


def summed(rows: Iterable[Mapping[str, str]]) -> list[dict[str, object]]:
    """Count the outcomes of each way."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for way, outcome in row.items():
            if way not in ("skipped", "problems"):
                counts.setdefault(way, Counter())[outcome] += 1
    return [
        {"way": way, "archives": found.total(), **{one: found[one] for one in OUTCOMES}}
        for way, found in counts.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true", help="print the outcomes of each file")
    parser.add_argument("--only", action="append", default=[], metavar="WAY")
    parser.add_argument("--modules", metavar="PACKAGE")
    parser.add_argument("--most", type=int, default=300, help="so many modules at most")
    parser.add_argument("--timeout", type=float, default=180)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        only = tuple(options.only)
        examine_here(options.paths, options.timeout, lambda path: examine(path, only))
        return
    more = [word for way in options.only for word in ("--only", way)]
    with tempfile.TemporaryDirectory() as folder:
        paths = list(options.paths)
        if options.modules:
            paths += saved_modules(options.modules, options.most, Path(folder))
        found = examine_all(paths or default_paths(), options.timeout, __file__, more)
        rows = {str(path): row for path, row in found}
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    skipped = sum("skipped" in row for row in rows.values())
    print(table(COLUMNS, summed(rows.values())), f"Not tried: {skipped}", measured(), sep="\n\n")


if __name__ == "__main__":
    main()
