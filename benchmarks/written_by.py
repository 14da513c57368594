"""How well archives tell which torch wrote them: one row for each release that wrote some.

    python benchmarks/written_by.py [--json] [FOLDER ...]

The archives are the fixtures, and those in folders that have one for each version
(``FOLDER/2.9.1/*.pt``). ``right`` counts archives whose release is in the range that is told,
``exact`` those whose range is that release alone, ``releases`` is the mean length of the ranges;
``compiled`` counts those of whose own lines the debug records tell the release that compiled them.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from measured import measured, table  # noqa: E402

import tsarchive  # noqa: E402
from tests.support.releases import archives_below, known_archives  # noqa: E402
from tsarchive.describing.written import WrittenBy, all_releases  # noqa: E402

COLUMNS = ("torch", "archives", "right", "exact", "releases", "compiled")


def length(found: WrittenBy) -> int:
    """Return the number of releases in a range, 0 without one."""
    if found.first is None or found.last is None:
        return 0
    return all_releases().index(found.last) - all_releases().index(found.first) + 1


def is_right(found: WrittenBy, release: str) -> bool:
    if found.first is None or found.last is None or found.is_between:
        return False
    place = all_releases().index
    return place(found.first) <= place(release) <= place(found.last)


def row(release: str, answers: list[WrittenBy]) -> dict[str, object]:
    return {
        "torch": release,
        "archives": len(answers),
        "right": sum(is_right(one, release) for one in answers),
        "exact": sum(one.first == one.last == release for one in answers),
        "releases": round(sum(map(length, answers)) / len(answers), 1),
        "compiled": sum(one.compiled_first is not None for one in answers),
    }


def rows(folders: list[Path]) -> list[dict[str, object]]:
    answers: dict[str, list[WrittenBy]] = defaultdict(list)
    known = [*known_archives(), *(one for folder in folders for one in archives_below(folder))]
    for release, path in known:
        with tsarchive.open(path) as archive:
            if archive.written_by is not None:
                answers[release].append(archive.written_by)
    return [row(release, answers[release]) for release in all_releases() if release in answers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = rows(options.folders)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{table(COLUMNS, found)}\n\n{measured()}")


if __name__ == "__main__":
    main()
