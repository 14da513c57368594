"""Work that goes on in a process of its own, within limits of time and memory."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TypeVar

Answer = TypeVar("Answer")

_FORK = multiprocessing.get_context("fork")


class EndedError(Exception):
    """A process that ended before it had given all answers; the message says why."""


def answers(
    task: Callable[[], Iterator[Answer]], *, seconds: float, nbytes: int
) -> Iterator[Answer]:
    """Yield what ``task`` yields in a fork of this process, with ``seconds`` for each answer.

    ``nbytes`` bounds the address space. The fork and all that it started end with it. Raises
    EndedError where the fork takes longer, or ends before ``task`` does.
    """
    receiving, sending = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_send, args=(task, sending, nbytes))
    child.start()
    sending.close()
    try:
        yield from _received(receiving, seconds)
        child.join()
    except EOFError:
        child.join()
        raise EndedError(_ending(child.exitcode)) from None
    finally:
        _end(child)


def _received(receiving: Connection, seconds: float) -> Iterator[Answer]:
    """Yield answers up to the empty one, with which the fork says that it has done."""
    while receiving.poll(seconds):
        found = receiving.recv()
        if isinstance(found, EndedError):
            raise found
        if not found:
            return
        yield found[0]
    raise EndedError(f"it takes more than {seconds:g} seconds")


def _send(task: Callable[[], Iterator[Answer]], sending: Connection, nbytes: int) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)
    try:
        for answer in task():
            sending.send([answer])
        sending.send([])
    except Exception as error:
        sending.send(EndedError(f"{type(error).__name__}: {error}"))


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the process was ended by {signal.Signals(-code).name}"
    return f"the process ended with {code}"


def _end(child: multiprocessing.process.BaseProcess) -> None:
    """End the processes of the fork's session; it has none before its first line has run."""
    assert child.pid is not None
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.join()
