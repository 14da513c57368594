"""The process that reads files for a survey: requests come, and rows go, as lines of JSON.

It may die of a file or hang in it: ``reader`` is the other side, which sees to that.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO, Final, TypeAlias

from .listing import Listed, text_of
from .reading import Aspects
from .rows import FileRow, Status, Surveyed, document_of

Read: TypeAlias = Callable[[Listed, Aspects], Surveyed]
"""A function that gives the rows of a file, of which this is asked."""
READY: Final = b"ready"
"""The first line: the process has imported what it takes."""

# A process that nobody has asked anything for so long is not needed any more.
_IDLE_SECONDS: Final = 60
# What outlives its limit by so much has lost the process that would have ended it.
_GRACE_SECONDS: Final = 10
OUT_OF_MEMORY: Final = 3
"""The exit code of a process without enough memory for a file."""


def function_named(name: str) -> Any:
    """Return what stands under a name such as ``tsarchive.surveying.reading:surveyed``."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def main(function: str, aspects: str, seconds: float | None, folder: str) -> None:
    """Answer requests by the function of this name, until there are none.

    ``folder`` is for temporary files, and goes when nobody is left who would remove it.
    """
    answers = _answers()
    read, asked = function_named(function), Aspects(**json.loads(aspects))
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_receive, args=(requests, folder), daemon=True).start()
    _send(answers, READY)
    while True:
        try:
            file = Listed(**json.loads(requests.get(timeout=_IDLE_SECONDS)))
        except queue.Empty:
            os._exit(0)  # at once: the other thread waits within a stream that would be closed
        _end_after(seconds)
        rows = _rows(read, file, asked)
        _end_after(None)
        _send(answers, json.dumps(document_of(rows)).encode())


def _rows(read: Read, file: Listed, asked: Aspects) -> Surveyed:
    """Return the rows of a file, also where a defect of this package keeps them from being made."""
    try:
        return read(file, asked)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # another process has more of it
    except Exception as error:
        problem = f"a defect of tsarchive: {type(error).__name__}: {text_of(str(error))}"
        return unread(file, "crashed", problem)


def unread(file: Listed, status: Status, problem: str) -> Surveyed:
    """Return the row of a file that nothing else is known of."""
    return Surveyed(FileRow(file.root, file.path, status, file.nbytes, file.version, problem))


def _answers() -> BinaryIO:
    """Return standard output, to which nothing else is written from now on."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def _send(answers: BinaryIO, line: bytes) -> None:
    answers.write(line + b"\n")
    answers.flush()


def _receive(requests: queue.Queue[bytes], folder: str) -> None:
    """Pass on requests; when nobody is left to ask, end this process whatever it does."""
    for line in sys.stdin.buffer:
        requests.put(line)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _end_after(seconds: float | None) -> None:
    """Let the system end this process after its time and a grace, or not, even if it hangs."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0 if seconds is None else seconds + _GRACE_SECONDS)
