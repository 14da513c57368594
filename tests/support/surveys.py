"""Files to survey, and functions that stand in the place of what reads them.

Processes of a survey find these functions by name, ``tests.support.surveys:NAME``. They know what
to do from the names of files, and know each other by the marks that they leave beside a file.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.archives import ARCHIVES, FIXTURES
from tsarchive.surveying import surveys
from tsarchive.surveying.child import unread
from tsarchive.surveying.listing import Listed
from tsarchive.surveying.reader import Job
from tsarchive.surveying.reading import Aspects
from tsarchive.surveying.rows import FindingRow, Surveyed

__all__ = ["dangerous", "killing", "listed_names", "mixed", "plain_row", "reading_by"]

_LONG = 3600


def plain_row(file: Listed, asked: Aspects) -> Surveyed:
    """A row of what was listed, and a finding for each digit of the size."""
    row = unread(file, "read", "").file
    findings = [
        FindingRow(file.root, file.path, "audit", "size", "info", "ability", digit)
        for digit in str(file.nbytes)
    ]
    return Surveyed(row, tuple(findings))


def dangerous(file: Listed, asked: Aspects) -> Surveyed:
    """Do what the name of a file says to the process that reads it; then as ``plain_row``."""
    match Path(file.path).stem.partition("-")[0]:
        case "hang":
            time.sleep(_LONG)
        case "exit":
            os._exit(7)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            held = bytearray(1 << 30)
            time.sleep(_LONG + len(held))
        case "starved":
            raise MemoryError
        case "defect":
            raise KeyError("what is not there")
        case "prints":
            print("no line of JSON", flush=True)
    return plain_row(file, asked)


def killing(file: Listed, asked: Aspects) -> Surveyed:
    """Kill the worker whose process this is, as often as the name says: ``kill-3-a.pt``."""
    word, _, rest = Path(file.path).stem.partition("-")
    if word == "kill" and _count(file.place) <= int(rest.partition("-")[0]):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(_LONG)  # until this process notices that nobody is left to ask
    return plain_row(file, asked)


def _count(place: str) -> int:
    """The number of times that a file was met, with this one."""
    with open(f"{place}.met", "ab") as marks:
        marks.write(b".")
        return marks.tell()


def listed_names(folder: Path, names: list[str]) -> list[Listed]:
    """Files of these names, which are there."""
    for name in names:
        (folder / name).write_bytes(b"x" * len(name))
    return [Listed(str(folder), name, str(folder / name), len(name), "1") for name in names]


@contextmanager
def reading_by(function: str) -> Iterator[None]:
    """Let surveys read files by a function of this file."""
    with pytest.MonkeyPatch.context() as patched:
        job = partial(Job, function=f"{__name__}:{function}")
        patched.setattr(surveys, "Job", job)
        yield


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
        found = sorted(
            p for p in (FIXTURES / kind).iterdir() if p.suffix in (".pt", ".pt2", ".pte")
        )
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
