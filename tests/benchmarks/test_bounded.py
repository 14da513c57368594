"""Work in a process of its own: what it answers, and what ends it."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
GIB = 1 << 30

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@pytest.fixture
def bounded(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("bounded")


def several():
    yield from (1, {"two": 2}, None)


def silent():
    yield "first"
    time.sleep(600)


def killed():
    yield "first"
    os.kill(os.getpid(), signal.SIGKILL)


def raising():
    yield "first"
    raise ValueError("no more")


def leaving():
    yield "first"
    os._exit(3)


def test_answers_come_in_order(bounded):
    assert [*bounded.answers(several, seconds=60, nbytes=1024 * GIB)] == [1, {"two": 2}, None]


@pytest.mark.parametrize(
    ("task", "seconds", "reason"),
    [
        (silent, 0.2, "more than 0.2 seconds"),
        (killed, 60, "ended by SIGKILL"),
        (raising, 60, "ValueError: no more"),
        (leaving, 60, "ended with 3"),
    ],
)
def test_what_ends_a_process_is_told(bounded, task, seconds, reason):
    found = bounded.answers(task, seconds=seconds, nbytes=1024 * GIB)
    assert next(found) == "first"
    with pytest.raises(bounded.EndedError, match=reason):
        next(found)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the limit does not hold")
def test_memory_is_bounded(bounded):
    with pytest.raises(bounded.EndedError, match="MemoryError"):
        [*bounded.answers(lambda: iter([len(bytearray(64 * GIB))]), seconds=60, nbytes=32 * GIB)]
