"""Files that end, hang or fill the process which reads them have a row, and so has the next."""

from __future__ import annotations

import math
import os
import sys

import pytest

from tests.support.survey_readers import plain_row
from tests.support.surveys import listed_names
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.surveying import reader as module
from tsarchive.surveying.child import unread
from tsarchive.surveying.reader import Job, Reader
from tsarchive.surveying.reading import Aspects

DANGEROUS = "tests.support.survey_readers:dangerous"


def test_a_file_that_ends_its_process_is_told(tmp_path):
    names = ["a.pt", "exit.pt", "killed.pt", "starved.pt", "answers.pt", "b.pt"]
    files = listed_names(tmp_path, names)
    with Reader(Job(function=DANGEROUS)) as reader:
        found = [reader.read(file) for file in files]
    problems = {
        "exit.pt": "the process that read it ended with exit code 7",
        "killed.pt": "the process that read it was ended by SIGKILL",
        "answers.pt": "the process that read it gave something else than rows",
        "starved.pt": "there was not enough memory to read it",
    }
    assert found == [
        unread(file, "crashed", problems[file.path])
        if file.path in problems
        else plain_row(file, Aspects())
        for file in files
    ]


def test_a_file_that_hangs_is_ended(tmp_path):
    hangs, next_ = listed_names(tmp_path, ["hang.pt", "next.pt"])
    with Reader(Job(function=DANGEROUS, seconds=0.5)) as reader:
        assert reader.read(hangs) == unread(hangs, "timeout", "it took longer than 500.0 ms")
    with Reader(Job(function=DANGEROUS, seconds=600)) as reader:
        assert reader.read(next_) == plain_row(next_, Aspects())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory of a process")
def test_a_file_that_takes_too_much_memory_is_ended(tmp_path):
    large, next_ = listed_names(tmp_path, ["memory.pt", "next.pt"])
    with Reader(Job(function=DANGEROUS, memory=512 << 20)) as reader:
        expected = unread(large, "crashed", "it took more than 512.0 MiB of memory")
        assert reader.read(large) == expected
        assert reader.read(next_) == plain_row(next_, Aspects())


def test_limits_of_memory_need_a_system_that_tells_it(monkeypatch):
    monkeypatch.setattr(module, "_STATUS", "/nothing/{}/status")
    with pytest.raises(UnsupportedError, match="Linux"):
        Reader(Job(memory=1 << 30))


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, 1e300])
def test_limits_of_time_are_times_that_may_pass(seconds):
    with pytest.raises(CallError, match="no limit"):
        Reader(Job(seconds=seconds))


@pytest.mark.parametrize(
    ("name", "seconds", "problem"),
    [
        ("leaves.pt", 600, "the process that read it ended with exit code 7"),
        ("stays.pt", 0, "the process that read it gave something else than rows"),
    ],
)
def test_a_process_that_closes_its_answers_may_end(tmp_path, monkeypatch, name, seconds, problem):
    monkeypatch.setattr(module, "_PARTING_SECONDS", seconds)
    (file,) = listed_names(tmp_path, [name])
    with Reader(Job(function=DANGEROUS)) as reader:
        assert reader.read(file) == unread(file, "crashed", problem)


def test_a_defect_is_told_and_output_is_no_answer(tmp_path):
    defect, prints = listed_names(tmp_path, ["defect.pt", "prints.pt"])
    with Reader(Job(function=DANGEROUS)) as reader:
        problem = "a defect of tsarchive: KeyError: 'what is not there'"
        assert reader.read(defect) == unread(defect, "crashed", problem)
        assert reader.read(prints) == plain_row(prints, Aspects())


def test_processes_are_renewed_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FILES_OF_PROCESS", 2)
    files = listed_names(tmp_path, ["a.pt", "b.pt", "c.pt"])
    with Reader(Job(function="tests.support.survey_readers:process_of")) as reader:
        found = [reader.read(file).file.problem.split(" ") for file in files]
    first, second, third = (number for number, _ in found)
    assert first == second != third
    assert not any(os.path.exists(folder) for _, folder in found)


def test_a_process_that_does_not_start_is_an_error(tmp_path):
    (file,) = listed_names(tmp_path, ["a.pt"])
    job = Job(function="tests.support.survey_readers:nothing")
    with Reader(job) as reader, pytest.raises(ChildProcessError, match="does not start"):
        reader.read(file)


def test_a_process_that_nobody_is_left_to_ask_ends(tmp_path):
    """Its folder goes with it, as where the worker was killed that had started it."""
    (file,) = listed_names(tmp_path, ["a.pt"])
    reader = Reader(Job(function="tests.support.survey_readers:process_of"))
    folder = reader.read(file).file.problem.partition(" ")[2]
    process = reader._process
    assert process is not None
    assert os.path.exists(folder)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0
    assert not os.path.exists(folder)
    reader.close()
