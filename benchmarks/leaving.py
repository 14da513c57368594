"""Which ways out of TorchScript work: for archives, and for modules of packages.

    python benchmarks/leaving.py [--rows FILE] [--only WAY]... [--below BYTES]
        [--modules PACKAGE --folder FOLDER [--most N]]... [PATH ...]

Each archive goes through `tsarchive.leave`, with the inputs that the corpus or the fixture has, and
those that the file itself has where there are none. Without paths and modules: the corpus beside
the repository and the fixture archives, the smallest first. With ``--modules``, those of an
importable package are made with guessed arguments, scripted, and traced with guessed inputs, as for
`fidelity.py`, and kept in a folder; what torch.jit does not take is not counted.

Archives are tried in a process of their own each, within --timeout seconds for a way and --memory
bytes. ``--rows`` is a file of JSON lines, one for each archive and way: what it has is not tried
again, so that a run which was stopped goes on, and the table is that of all its rows.
"""

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

import torch  # noqa: E402
from bounded import EndedError, answers  # noqa: E402
from conversion import CORPUS, default_paths, inputs_of  # noqa: E402
from fidelity_modules import Unimportable, subjects  # noqa: E402
from measured import measured, table  # noqa: E402

import tsarchive  # noqa: E402

WAYS = ("decompile", "pt2", "torchscript", "onnx", "pte", "safetensors")
OUTCOMES = ("equal", "close", "written", "differs", "fails", "untried", "ended")
COLUMNS = ("way", "archives", *OUTCOMES)
TOLD = ("outcome", "seconds", "nbytes", "max_difference", "problem", "origin", "hint", "loses")

Row = dict[str, Any]


def archives() -> list[Path]:
    """Return the archives of the corpus and of the fixtures, the smallest first."""
    paths = default_paths()
    for folder in (CORPUS / "pt2", ROOT / "fixtures" / "pt2"):
        paths += folder.glob("*.pt2")
    return sorted(paths, key=lambda path: (path.stat().st_size, path.name))


def examined(path: Path, ways: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each way; ``skipped`` says why it was not tried."""
    inputs = known_inputs(path)
    for way in ways:
        try:
            plan = tsarchive.leave(
                path, args=inputs, map_location="cpu", policy=tsarchive.Policy.trusted(),
                only=(way,),
            )  # fmt: skip
        except tsarchive.ArchiveError as error:
            yield {"way": way, "skipped": f"{type(error).__name__}: {error.message}"}
            continue
        if not plan.ways:
            yield {"way": way, "skipped": f"no way out of {plan.kind}"}
        for tried in map(asdict, plan.ways):
            told = {key: tried[key] for key in TOLD if tried[key] not in (None, ())}
            yield {"way": way, "inputs": plan.inputs, **told}


def import_tools() -> None:
    """Import for all forks what writes files of other formats, by leaving with a small archive."""
    torch.set_num_threads(1)
    path = ROOT / "fixtures" / "archives" / "buffers.pt"
    tsarchive.leave(path, args=known_inputs(path), only=("pt2", "onnx", "pte"))


def known_inputs(path: Path) -> tuple[Any, ...] | None:
    """Return inputs from beside an archive, or those that torch.jit takes; None if there are none.

    An archive that torch.jit does not load may have inputs itself.
    """
    try:
        module = torch.jit.load(path, map_location="cpu")
    except RuntimeError:
        return None
    return inputs_of(path, module) if hasattr(module, "forward") else None


def rows_of(path: Path, ways: Sequence[str], seconds: float, nbytes: int) -> Iterator[Row]:
    """Yield the rows of an archive, from further processes where a way ends one."""
    left = list(ways)
    while left:
        try:
            task = partial(examined, path, tuple(left))
            for row in answers(task, seconds=seconds, nbytes=nbytes):
                left.remove(row["way"])
                yield {"path": str(path), **row}
        except EndedError as error:
            yield {"path": str(path), "way": left.pop(0), "outcome": "ended", "problem": str(error)}


def saved_modules(package: str, most: int, folder: Path, nbytes: int) -> list[Path]:
    """Save modules of a package, and return their files; one that is there is not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Path] = []
    for name, build in subjects(package):
        if len(found) == most:
            break
        if isinstance(build, Unimportable):
            continue
        path = folder / f"{name.replace('/', '_').replace(' ', '-')[-120:]}.pt"
        refused = path.with_suffix(".refused")
        if not (path.exists() or refused.exists()):
            save = partial(saved, build, path)
            try:
                [*answers(save, seconds=60, nbytes=nbytes)]
            except EndedError as error:  # what the compiler and guessed arguments raise
                refused.write_text(str(error))
        if path.exists():
            found.append(path)
    return found


def saved(build: Any, path: Path) -> Iterator[None]:
    """Save one module: traced ones have their inputs with them."""
    partly = path.with_suffix(".partly")
    torch.jit.save(build(), str(partly))
    partly.rename(path)
    yield


def summed(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Count the outcomes of each way."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        if "skipped" not in row:
            counts.setdefault(row["way"], Counter())[row["outcome"]] += 1
    return [
        {"way": way, "archives": counts[way].total(), **{one: counts[way][one] for one in OUTCOMES}}
        for way in WAYS
        if way in counts
    ]


def kept_rows(file: Path | None) -> list[Row]:
    if file is None or not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def missing(paths: Iterable[Path], ways: Sequence[str], rows: Iterable[Row]) -> Iterator[Any]:
    """Yield each archive with the ways that no row has."""
    known = {(row["path"], row["way"]) for row in rows}
    for path in paths:
        yield path, [way for way in ways if (str(path), way) not in known]


def keep(row: Row, file: Path | None) -> None:
    if file is not None:
        with file.open("a", encoding="utf-8") as stream:
            print(json.dumps(row), file=stream)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--rows", type=Path, help="JSON lines, which later runs go on from")
    parser.add_argument("--only", action="append", default=[], metavar="WAY", choices=WAYS)
    parser.add_argument("--below", type=int, metavar="BYTES", help="leave larger archives out")
    parser.add_argument("--modules", action="append", default=[], metavar="PACKAGE")
    parser.add_argument("--folder", type=Path, help="where modules of packages are kept")
    parser.add_argument("--most", type=int, default=300, help="so many modules at most")
    parser.add_argument("--timeout", type=float, default=180)
    parser.add_argument("--memory", type=int, default=8 << 30)
    options = parser.parse_args()
    if options.modules and options.folder is None:
        parser.error("--modules takes a --folder")
    paths = list(options.paths)
    for package in options.modules:
        folder = options.folder / package
        paths += saved_modules(package, options.most, folder, options.memory)
    paths = paths or archives()
    if options.below is not None:
        paths = [path for path in paths if path.stat().st_size < options.below]
    rows = kept_rows(options.rows)
    warnings.simplefilter("ignore")
    import_tools()
    for path, ways in missing(paths, options.only or WAYS, rows):
        for row in rows_of(path, ways, options.timeout, options.memory):
            keep(row, options.rows)
            rows.append(row)
    skipped = sum("skipped" in row for row in rows)
    print(table(COLUMNS, summed(rows)), f"Skipped: {skipped}", measured(), sep="\n\n")


if __name__ == "__main__":
    main()
