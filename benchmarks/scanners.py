"""The table of scanners in the README: tsarchive audit, picklescan, modelscan and fickling.

    python benchmarks/scanners.py --benign DIR... --hostile DIR... [--harmless PATTERN...]
        [--scanners /path/to/environment/bin] [--jobs 2] [--json]

Every file below the folders is given to every scanner, one process per file. `--harmless` names
files (shell patterns) in the hostile folders that are not attacks. `--scanners` is the folder of
commands of an environment with the other scanners; by default that of the running Python. A scanner
that is missing is said to be. fickling reads single pickles: of zip archives it gets each record
that ends in .pkl. A file counts as flagged when a scanner's exit code says so; an error or a
refusal to look is no verdict, and counts as a miss for hostile files.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measured import measured

SECONDS = 120
Verdict = str
FLAGGED, CLEAN, NONE = "flagged", "clean", "no verdict"


def verdict_of(command: list[str], meaning: dict[int, Verdict]) -> Verdict:
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return NONE
    crashed = b"Traceback (most recent call last)" in done.stderr
    return NONE if crashed else meaning.get(done.returncode, NONE)


def tsarchive(_: Path, file: Path) -> Verdict:
    command = [sys.executable, "-m", "tsarchive", "audit", str(file)]
    return verdict_of(command, {0: CLEAN, 1: FLAGGED})


def picklescan(commands: Path, file: Path) -> Verdict:
    command = [str(commands / "picklescan"), "--path", str(file)]
    return verdict_of(command, {0: CLEAN, 1: FLAGGED})


def modelscan(commands: Path, file: Path) -> Verdict:
    command = [str(commands / "modelscan"), "--path", str(file)]
    return verdict_of(command, {0: CLEAN, 1: FLAGGED})


def fickling(commands: Path, file: Path) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        results = folder + "/results.json"
        command = [str(commands / "fickling"), "--check-safety", "--json-output", results]
        pickles = list(pickles_of(file, Path(folder)))
        found = [verdict_of([*command, str(p)], {0: CLEAN, 1: FLAGGED}) for p in pickles]
    worst = (verdict for verdict in (FLAGGED, NONE, CLEAN) if verdict in found)
    return next(worst, NONE)


def pickles_of(file: Path, folder: Path) -> Iterable[Path]:
    """Yield the file, or the pickles in it, unpacked; none for a broken archive."""
    if not zipfile.is_zipfile(file):
        return [file]
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".pkl")]
            contents = [archive.read(name) for name in names]
    except (zipfile.BadZipFile, zlib.error, RuntimeError, OSError, ValueError, EOFError):
        return []
    paths = [folder / f"{number}.pkl" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


SCANNERS: dict[str, Callable[[Path, Path], Verdict]] = {
    "tsarchive audit": tsarchive,
    "picklescan": picklescan,
    "modelscan": modelscan,
    "fickling": fickling,
}


def files_below(folders: Iterable[Path]) -> list[Path]:
    found = (path for folder in folders for path in sorted(folder.rglob("*")))
    return [path for path in found if path.is_file() and path.suffix not in (".tsv", ".json")]


def run(name: str, commands: Path, files: list[Path], jobs: int) -> dict[str, list[str]] | None:
    """Return the files by verdict; None where the scanner is missing."""
    if name != "tsarchive audit" and not (commands / name).exists():
        return None
    with ThreadPoolExecutor(jobs) as pool:
        verdicts = pool.map(lambda file: SCANNERS[name](commands, file), files)
        found: dict[str, list[str]] = {FLAGGED: [], CLEAN: [], NONE: []}
        for file, verdict in zip(files, verdicts, strict=True):
            found[verdict].append(str(file))
    return found


def row(name: str, found: dict[str, dict[str, list[str]] | None]) -> str:
    benign, hostile = found["benign"], found["hostile"]
    if benign is None or hostile is None:
        return f"| {name} | not installed | | |"
    count = {key: sum(map(len, side.values())) for key, side in (("b", benign), ("h", hostile))}
    missed = len(hostile[CLEAN]) + len(hostile[NONE])
    no_verdict = len(benign[NONE]) + len(hostile[NONE])
    return (
        f"| {name} | {len(benign[FLAGGED])} of {count['b']} | {missed} of {count['h']} "
        f"| {no_verdict} |"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--benign", type=Path, nargs="+", required=True)
    parser.add_argument("--hostile", type=Path, nargs="+", required=True)
    parser.add_argument("--harmless", nargs="*", default=[])
    parser.add_argument("--scanners", type=Path, default=Path(sys.executable).parent)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    hostile = files_below(given.hostile)
    harmless = [f for f in hostile if any(fnmatch.fnmatch(f.name, p) for p in given.harmless)]
    sides = {
        "benign": files_below(given.benign) + harmless,
        "hostile": [file for file in hostile if file not in harmless],
    }
    found = {
        name: {side: run(name, given.scanners, files, given.jobs) for side, files in sides.items()}
        for name in SCANNERS
    }
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print("| scanner | benign flagged | hostile missed | no verdict |\n|---|---|---|---|")
    for name, verdicts in found.items():
        print(row(name, verdicts))
    print(f"\n{measured()}")


if __name__ == "__main__":
    main()
