"""Detection of forbidden actions of inputs, by an audit hook, resource limits, and a timer."""

from __future__ import annotations

import os
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO

# Prefixes of audit events that no input may raise.
FORBIDDEN: Final = (
    "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "tempfile.", "pty.", "urllib.", "http.",
    "ftplib.", "smtplib.", "imaplib.", "nntplib.", "poplib.", "telnetlib.", "webbrowser.",
    "winreg.", "msvcrt.", "fcntl.", "mmap.", "sqlite3.", "syslog.", "pickle.find_class",
    "marshal.", "function.__new__", "builtins.input", "builtins.breakpoint",
    "signal.pthread_kill", "sys.addaudithook", "sys.setprofile", "sys.settrace", "resource.",
    "glob.", "pdb.", "cpython.run_",
)  # fmt: skip
# The files that may compile a tree or text, and those that may execute the result.
_OTHERS: Final = ("/run/tracebacks.py", "/collections/__init__.py")
_PERMITTED: Final = {
    "compile": ("/ast.py", "/run/codegen.py", *_OTHERS),
    "exec": ("/run/linkage.py", *_OTHERS),
    # The boundary copies code of its own, so that torch.compile counts each function separately.
    "code.__new__": ("/run/linkage.py", "/run/tracebacks.py", "/run/calls_from_python.py"),
}
# Memory that is not backed by a file.
_ANONYMOUS: Final = -1
# CPython looks for the line of a syntax error in the file of this name, which ast.parse invents.
_LINE_OF_SYNTAX_ERROR: Final = ("<unknown>", "rb")
_MEMORY: Final = 1 << 30


class Violation(BaseException):
    """A forbidden action of an input. No handler of the library catches it."""


class Watch:
    """Restricts a process that runs inputs to pure computation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.seen: list[str] = []
        self._armed = False
        sys.addaudithook(self._hook)
        signal.signal(signal.SIGPROF, self._too_long)
        warnings.showwarning = self._warned

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Raise Violation at the first forbidden action, and after ``seconds`` of CPU time."""
        self.seen.clear()
        self._armed = True
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self._armed = False
        if self.seen:
            raise Violation(self.seen[0])

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._armed:
            problem = _problem(event, arguments)
            if problem is not None:
                self._report(problem)

    def _report(self, problem: str) -> None:
        self.seen.append(problem)
        raise Violation(problem)

    def _too_long(self, number: int, frame: FrameType | None) -> None:
        if self._armed:
            self._report(f"more than {self.seconds} seconds of CPU")

    def _warned(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if self._armed:
            self._report(f"a warning: {category.__name__}: {message}")


def _problem(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Return the problem with an audit event."""
    if event == "open":
        is_python = arguments[:2] == _LINE_OF_SYNTAX_ERROR
        return None if is_python else f"opened {arguments[0]!r} with mode {arguments[1]!r}"
    if event == "import":
        return f"imported {arguments[0]}"
    if event == "mmap.__new__" and arguments[0] == _ANONYMOUS:
        return None
    if event in _PERMITTED:
        caller = sys._getframe(2).f_code.co_filename
        return None if caller.endswith(_PERMITTED[event]) else f"{event} in {caller}"
    return f"{event} {arguments!r:.200}" if event.startswith(FORBIDDEN) else None


def limit_memory() -> None:
    """Limit the memory of the process from now on, and prevent writes to files."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # C++ raises no audit events: its writes to files fail here.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
