"""Reading files in a process that may die of them: it is watched, ended, and started again."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tsarchive.container.source import Closing
from tsarchive.describing.text import duration, size
from tsarchive.errors import CallError, UnsupportedError

from .child import OUT_OF_MEMORY, READY, unread
from .listing import Listed
from .reading import Aspects
from .rows import Status, Surveyed, surveyed_of

# So many deaths are no accident.
_TRIES: Final = 3
_TICK_SECONDS: Final = 0.05
# A year; timers of systems do not take any number.
_MOST_SECONDS: Final = 366 * 24 * 3600
# A process that ends has closed its answers some time before.
_PARTING_SECONDS: Final = 10.0
# Then a new process takes its place, whatever has gathered in its memory.
_FILES_OF_PROCESS: Final = 1_000
# More than all findings that are kept of a file.
_LONGEST_ANSWER: Final = 1 << 28
_NO_ROWS: Final = "the process that read it gave something else than rows"
_PROGRAM: Final = (
    "import json, sys; path, *arguments = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from tsarchive.surveying.child import main; main(*arguments)"
)
_STATUS: Final = "/proc/{}/status"
_OWN_MEMORY: Final = "RssAnon:"


@dataclass(frozen=True, slots=True)
class Job:
    """What is done with each file: what is asked of it, and within which time and memory.

    ``memory`` is that of the process that reads files, in bytes, pages of the file aside.
    ``function`` names what reads a file, as ``module:function``.
    """

    aspects: Aspects = field(default_factory=Aspects)
    seconds: float | None = None
    memory: int | None = None
    function: str = "tsarchive.surveying.reading:surveyed"

    def require(self) -> None:
        """Raise CallError for a time that no file can have.

        Raises UnsupportedError where memory is limited, and the system does not tell of it.
        """
        if self.seconds is not None and not 0 < self.seconds <= _MOST_SECONDS:
            hint = f"Give seconds up to {_MOST_SECONDS:,}, or None for no limit"
            raise CallError(f"{self.seconds} seconds are no limit for a file", hint=hint)
        if self.memory is not None and not os.path.exists(_STATUS.format("self")):
            hint = "Leave the limit out, or run the survey on Linux"
            raise UnsupportedError("only Linux tells how much memory a process has", hint=hint)


@dataclass(slots=True)
class _End:
    """How a process ended before it gave an answer, if it did."""

    status: Status = "crashed"
    problem: str = ""

    def __bool__(self) -> bool:
        return bool(self.problem)


class Reader(Closing):
    """Gives the rows of files, one after the other, whatever the files do to who reads them."""

    def __init__(self, job: Job) -> None:
        job.require()
        self.job = job
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._left = 0

    def read(self, file: Listed) -> Surveyed:
        """Return the rows of a file.

        What a process dies of is tried again in new ones: others may have ended the first, or have
        filled its memory. Raises OSError where no process can be started.
        """
        end = _End()
        for _ in range(_TRIES):
            found = self._try(file)
            if isinstance(found, Surveyed):
                return found
            end = found
            if end.status == "timeout":
                break
        return unread(file, end.status, end.problem)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                with suppress(BrokenPipeError):  # of what it has not read
                    stream.close()
            self._process.wait()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None and self._left > 0

    def _try(self, file: Listed) -> Surveyed | _End:
        process = self._process
        if process is None or not self._is_running:
            process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        self._left -= 1
        with self._watched(process) as end:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asdict(file)).encode() + b"\n")
                process.stdin.flush()
            answer = process.stdout.readline(_LONGEST_ANSWER)
            if not answer:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PARTING_SECONDS)
        rows = _rows_in(answer)
        if rows is not None:
            return rows
        code = process.poll()
        self.close()
        problem = _NO_ROWS if answer or code is None else _how_it_ended(code)
        return end or _End("crashed", problem)

    def _started(self) -> subprocess.Popen[bytes]:
        """Start a process that finds the modules which this one finds; its files go with it."""
        self.close()
        self._folder = tempfile.TemporaryDirectory(prefix="tsarchive-survey-")
        job = self.job
        path = [os.path.abspath(each) for each in sys.path]
        aspects, folder = json.dumps(asdict(job.aspects)), self._folder.name
        arguments = (path, job.function, aspects, job.seconds, folder)
        self._process = process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": folder},
            start_new_session=True,  # an interrupt from the keyboard is for this process
        )
        self._left = _FILES_OF_PROCESS
        assert process.stdout is not None
        if process.stdout.readline().strip() != READY:
            self.close()
            raise ChildProcessError("the process that reads files does not start")
        return process

    @contextmanager
    def _watched(self, process: subprocess.Popen[bytes]) -> Iterator[_End]:
        """End a process in this block that takes too long or too much; tell it by what is yielded.

        What is yielded is false while nothing has been ended.
        """
        done, end = threading.Event(), _End()
        watching = threading.Thread(target=self._watch, args=(process, done, end), daemon=True)
        watching.start()
        try:
            yield end
        finally:
            done.set()
            watching.join()

    def _watch(self, process: subprocess.Popen[bytes], done: threading.Event, end: _End) -> None:
        seconds, memory = self.job.seconds, self.job.memory
        latest = time.monotonic() + (seconds or math.inf)
        while not done.wait(_TICK_SECONDS):
            if seconds is not None and time.monotonic() >= latest:
                end.status, end.problem = "timeout", f"it took longer than {duration(seconds)}"
            elif memory is not None and _memory_of(process.pid) > memory:
                end.status, end.problem = "crashed", f"it took more than {size(memory)} of memory"
            if end:
                process.kill()
                return


def _rows_in(answer: bytes) -> Surveyed | None:
    """Return the rows in a line, None where it has none: a file may have taken over its process."""
    if answer.endswith(b"\n"):
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            return surveyed_of(json.loads(answer))
    return None


def _memory_of(pid: int) -> int:
    """Return the bytes of memory that a process has to itself; none of one that has ended."""
    with suppress(OSError):
        for line in Path(_STATUS.format(pid)).read_text().splitlines():
            if line.startswith(_OWN_MEMORY):
                return int(line.split()[1]) << 10
    return 0


def _how_it_ended(code: int) -> str:
    """Return in words how a process ended that was to read a file."""
    if code == OUT_OF_MEMORY:
        return "there was not enough memory to read it"
    with suppress(ValueError):
        return f"the process that read it was ended by {signal.Signals(-code).name}"
    return f"the process that read it ended with exit code {code}"
