"""Files to survey, and surveys that read them by functions of ``survey_readers``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.archives import ARCHIVES, FIXTURES
from tsarchive.surveying import surveys
from tsarchive.surveying.listing import Listed
from tsarchive.surveying.reader import Job

__all__ = ["READERS", "listed_names", "mixed", "reading_by"]

READERS = "tests.support.survey_readers"


def listed_names(folder: Path, names: list[str]) -> list[Listed]:
    """Files of these names, which are there."""
    for name in names:
        (folder / name).write_bytes(b"x" * len(name))
    return [Listed(str(folder), name, str(folder / name), len(name), "1") for name in names]


@contextmanager
def reading_by(function: str) -> Iterator[None]:
    """Let surveys read files by a function of ``survey_readers``."""
    with pytest.MonkeyPatch.context() as patched:
        job = partial(Job, function=f"{READERS}:{function}")
        patched.setattr(surveys, "Job", job)
        yield


_SUFFIXES = (".pt", ".pt2", ".pte")
# One of each: a kind of file, and a file of it.
_MIXED = {
    "sequential.pt": ARCHIVES / "sequential.pt",
    "below/views.pth": ARCHIVES / "views.pt",
    "below/inputs.pt": ARCHIVES / "views.io.pt",
}


def mixed(folder: Path, *, hostile: int = 3) -> Path:
    """A folder with models of several kinds, with hostile ones, broken ones, and no models."""
    sources = dict(_MIXED)
    for kind in ("pt2", "executorch", "legacy"):
        found = sorted(p for p in (FIXTURES / kind).iterdir() if p.suffix in _SUFFIXES)
        sources |= {f"{kind}/{path.name}": path for path in found[:2]}
    hostiles = sorted((FIXTURES / "hostile").glob("*.pt"))[:: -(-240 // hostile)]
    sources |= {f"hostile/{path.name}": path for path in hostiles}
    for name, source in sources.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    whole = (folder / "sequential.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.pt").touch()
    (folder / "page.pt").write_bytes(b"<!DOCTYPE html><title>Sign in</title>")
    return folder
