"""Answers that child processes give, for calls that may end the process that makes them."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Ended", "Say", "answers"]

Item = TypeVar("Item")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Ended:
    """A child ended before it answered: by a signal or exit code, after it said ``last``."""

    how: str
    last: str


def answers(
    items: Sequence[Item], answer: Callable[[Item, Say], Any], *, patience: float
) -> Iterator[Any]:
    """``answer(item, say)`` for each item, or how the child ended that should have answered.

    One child answers for item after item until it ends; the next begins with the item after.
    ``patience`` is in seconds of processor time between one word and the next, which a busy
    machine does not shorten. Answers are values of JSON.
    """
    done = 0
    while done < len(items):
        for found in _child(items[done:], answer, patience):
            yield found
            done += 1


def _child(
    items: Sequence[Item], answer: Callable[[Item, Say], Any], patience: float
) -> Iterator[Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_answer_all(items, answer, patience, writing))
    os.close(writing)
    last = ""
    with os.fdopen(reading, encoding="ascii", errors="replace") as lines:
        for line in lines:
            if not line.endswith("\n"):
                break
            kind, value = json.loads(line)
            if kind == "answer":
                yield value
            else:
                last = value
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        yield Ended(signal.Signals(-code).name if code < 0 else f"exit code {code}", last)


def _answer_all(
    items: Sequence[Item], answer: Callable[[Item, Say], Any], patience: float, pipe: int
) -> int:
    """Answer in the child, and return its exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what operators print is no answer
    try:
        with os.fdopen(pipe, "w", encoding="ascii") as lines:

            def tell(kind: str, value: Any) -> None:
                signal.setitimer(signal.ITIMER_PROF, patience)
                lines.write(json.dumps([kind, value]) + "\n")
                lines.flush()

            for item in items:
                tell("said", "")
                tell("answer", answer(item, lambda text: tell("said", text)))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
