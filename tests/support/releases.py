"""Archives of fixtures by the release of torch that wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.support.archives import ARCHIVES, FIXTURES
from tsarchive.operators.registry import minor

__all__ = ["archives_below", "known_archives"]

_SUFFIXES = (".pt", ".ptl", ".pt2")


def known_archives() -> Iterator[tuple[str, Path]]:
    """Yield releases such as "2.9", each with an archive that it wrote."""
    yield from archives_below(FIXTURES / "old")
    yield from archives_below(FIXTURES / "pt2_old")
    for path in _archives_in(FIXTURES / "legacy"):
        yield minor(path.stem.rpartition("-")[2]), path
    manifest = json.loads((FIXTURES / "removed" / "manifest.json").read_text())
    for path in _archives_in(FIXTURES / "removed"):
        yield minor(manifest[path.name]["torch"]), path
    manifest = json.loads((FIXTURES / "manifest.json").read_text())
    for path in _archives_in(ARCHIVES):
        yield minor(manifest[f"archives/{path.name}"]["torch"]), path


def archives_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the same for a folder with one for each version: ``1.10.0``, ``2.9.1``, ..."""
    for of_version in sorted(folder.iterdir()):
        for path in _archives_in(of_version):
            yield minor(of_version.name), path


def _archives_in(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.iterdir()) if p.suffix in _SUFFIXES and ".io" not in p.name]
