"""The same models packed otherwise: how many have a difference or another fingerprint.

    python benchmarks/packing_mutants.py [--json] [PATH ...]

Each file, of the fixtures and the corpus beside the repository without paths, is packed in each way
of `tests/fingerprinting/packings.py`, and compared with the file itself. ``none`` counts those
without a difference and with the same fingerprint, ``different`` the others, which are named;
``refused`` are files that cannot be saved in this way. Files that have no fingerprint are left out.
"""

import argparse
import io
import json
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from measured import measured, table  # noqa: E402

import tsarchive  # noqa: E402
from tests.fingerprinting.packings import PACKINGS, archives, is_same, records_in  # noqa: E402
from tests.support.archives import CORPUS  # noqa: E402

COLUMNS = ("packing", "files", "none", "different", "refused")
LARGEST = 4 << 20


def default_paths() -> list[Path]:
    names = ("archives", "old", "legacy", "pt2", "pt2_old", "removed")
    corpus = [CORPUS / name for name in ("torchscript", "pt2", "other") if CORPUS.exists()]
    return archives([*(ROOT / "fixtures" / name for name in names), *corpus])


def outcome(kind: str, data: bytes, seed: str) -> str | None:
    """Return the column of a file that is packed otherwise; None where there is no such packing."""
    try:
        made = PACKINGS[kind](data, records_in(data), random.Random(seed))
    except Exception:  # torch and the modules of an archive raise anything
        return "refused"
    if made is None:
        return None
    return "none" if is_same(data, made, kind) else "different"


def is_model(data: bytes) -> bool:
    if not data.startswith(b"PK"):
        return False
    try:
        tsarchive.fingerprint(io.BytesIO(data))
    except tsarchive.ArchiveError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in options.paths or default_paths():
        data = path.read_bytes() if path.stat().st_size <= LARGEST else b""
        if not is_model(data):
            continue
        for kind in PACKINGS:
            found = outcome(kind, data, path.name)
            if found is not None:
                counts[kind].update(["files", found])
            if found == "different":
                print(f"{kind}: {path}", file=sys.stderr)
    rows = [{"packing": kind, **{c: counts[kind][c] for c in COLUMNS[1:]}} for kind in PACKINGS]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{table(COLUMNS, rows)}\n\n{measured()}")


if __name__ == "__main__":
    main()
