"""Functions that stand in the place of what reads files for a survey.

Processes of a survey find them by name, ``tests.support.survey_readers:NAME``, and so nothing is
imported here that takes long. What they do to their process stands in the names of files.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from tsarchive.surveying import child
from tsarchive.surveying.child import unread
from tsarchive.surveying.listing import Listed
from tsarchive.surveying.reading import Aspects
from tsarchive.surveying.rows import FindingRow, Surveyed

__all__ = ["dangerous", "killing", "measured_row", "plain_row", "process_of"]

_LONG = 3600
_A_WHILE = 0.3


def plain_row(file: Listed, asked: Aspects) -> Surveyed:
    """A row of what was listed, and a finding for each digit of the size."""
    row = unread(file, "read", "").file
    findings = [
        FindingRow(file.root, file.path, "audit", "size", "info", "ability", digit)
        for digit in str(file.nbytes)
    ]
    return Surveyed(row, tuple(findings))


def measured_row(file: Listed, asked: Aspects) -> Surveyed:
    """As ``plain_row``, with the size that the file has, whether or not that was listed."""
    return plain_row(replace(file, nbytes=Path(file.place).stat().st_size), asked)


def dangerous(file: Listed, asked: Aspects) -> Surveyed:
    """Do what the name of a file says to the process that reads it; then as ``plain_row``."""
    match Path(file.path).stem.partition("-")[0]:
        case "hang":
            time.sleep(_LONG)
        case "exit":
            os._exit(7)
        case "leaves":
            _close_all()
            time.sleep(_A_WHILE)
            os._exit(7)
        case "stays":
            _close_all()
            time.sleep(_LONG)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            held = bytearray(1 << 30)
            time.sleep(_LONG + len(held))
        case "starved":
            raise MemoryError
        case "answers":
            child.document_of = lambda rows: []
        case "defect":
            raise KeyError("what is not there")
        case "prints":
            print("no line of JSON", flush=True)
    return plain_row(file, asked)


def _close_all() -> None:
    """Close what a process answers in, as when it is about to end."""
    os.closerange(1, 256)


def killing(file: Listed, asked: Aspects) -> Surveyed:
    """Kill this process as often as the name says (``die-2-a.pt``), or the worker that asks it
    (``kill-3-a.pt``)."""
    word, _, rest = Path(file.path).stem.partition("-")
    victims = {"die": os.getpid(), "kill": os.getppid()}
    if word in victims and _count(file.place) <= int(rest.partition("-")[0]):
        os.kill(victims[word], signal.SIGKILL)
        time.sleep(_LONG)  # until this process notices that nobody is left to ask
    return plain_row(file, asked)


def _count(place: str) -> int:
    """The number of times that a file was met, with this one."""
    with open(f"{place}.met", "ab") as marks:
        marks.write(b".")
        return marks.tell()


def process_of(file, asked):
    """A row that tells the process that read the file, and its folder for temporary files."""
    return unread(file, "read", f"{os.getpid()} {os.environ['TMPDIR']}")
