"""The line that tells how far work is, and what it is made from."""

from __future__ import annotations

import io
import os
import time

import pytest

from tsarchive.cli import bar
from tsarchive.cli.bar import Bar, Moment
from tsarchive.cli.lines import cells
from tsarchive.cli.output import progress, say
from tsarchive.steps import Measured, Shares, Stage, under


@pytest.mark.parametrize(
    ("moment", "seconds", "line"),
    [
        (Moment("records", 0, None), 2, "0:00:02  records"),
        (Moment("a.pt", 0, 0.0), 2, "──────────   0%  0:00:02  a.pt"),
        (Moment("a.pt", 10, 0.5), 10, "━━━━━─────  50%  0:00:10, 0:00:10 left  a.pt"),
        (Moment("a.pt", 10, 0.5), 13, "━━━━━─────  50%  0:00:13, 0:00:07 left  a.pt"),
        (Moment("a.pt", 10, 0.5), 25, "━━━━━─────  50%  0:00:25  a.pt"),
        (Moment("a.pt", 10, 0.01), 10, "──────────   1%  0:00:10  a.pt"),
        (Moment("a.pt", 10, 1.0), 10, "━━━━━━━━━━ 100%  0:00:10  a.pt"),
        (Moment("layers." * 9, 0, None), 3661, f"1:01:01  {'layers.' * 6}..."),
    ],
)  # fmt: skip
def test_lines(moment, seconds, line):
    assert moment.line(seconds, 60) == line
    assert cells(line) <= 60


class Screen(io.StringIO):
    """A terminal that knows what a carriage return does."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def lines(self):
        return [written(line) for line in self.getvalue().split("\n")]


def written(line):
    """What is left of a line where each piece is written over the one before."""
    shown = ""
    for piece in line.split("\r"):
        shown = piece + shown[len(piece) :]
    return shown.rstrip()


def wait_for(screen, text):
    while text not in screen.getvalue():
        time.sleep(0.001)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(bar, "_PATIENCE", 0.001)
    monkeypatch.setattr(bar, "_BETWEEN", 0.001)


def test_nothing_is_left_of_the_line(impatient):
    screen = Screen()
    shown = Bar(screen, 80, 2)
    shown.step("one")
    wait_for(screen, "1 of 2: one")
    with shown.away():
        screen.write("said\n")
    shown.step("a\x1b[2J")
    wait_for(screen, "2 of 2: a\\x1b[2J")
    shown.close()
    assert screen.lines() == ["said", ""]


def test_what_is_said_has_lines_of_its_own(impatient, monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with progress(None) as step:
        step("a.pt")
        wait_for(screen, "a.pt")
        say("a.pt: stable")
    assert screen.lines() == ["a.pt: stable", ""]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_has_no_line(impatient, monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress(None) as step:
        step("a.pt")
        wait_for(screen, "a.pt")
        child = os.fork()
        if not child:
            before = screen.getvalue()
            say("", stderr=True)
            os._exit(screen.getvalue() != before + "\n")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_terminal_without_a_cursor_has_no_line(impatient, monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    with progress(None) as step:
        step("a.pt")
    assert screen.getvalue() == ""


def test_lines_are_in_ascii_where_no_others_can_be_shown(impatient):
    screen = Screen()
    screen.encoding = "ascii"
    shown = Bar(screen, 62)
    shown.step(Stage("é", 0.5))
    wait_for(screen, "#####-----  50%")
    shown.close()
    assert screen.getvalue().isascii()


def told():
    steps = []
    return steps, lambda step: steps.append((step, getattr(step, "share", None)))


def test_parts_have_shares_of_all():
    steps, step = told()
    measured = Measured(step, 4)
    for name, amount in (("a", 1), ("b", 0), ("c", 3)):
        measured.add(name, amount)
    Measured(step, 0).add("empty", 0)
    assert steps == [("a", 0.25), ("b", 0.25), ("c", 1), ("empty", 1)]


def test_pieces_of_work_have_shares_of_all():
    steps, step = told()
    shares = Shares(step, {"small": 1, "large": 3})
    for description in (Stage("both", 0.5), "small", "reading", Stage("x", 0.5), "large",
                        Stage("y", 1)):  # fmt: skip
        shares(description)
    assert steps == [
        ("both", 0.5), ("small", 0), ("reading", None), ("x", 0.125), ("large", 0.25), ("y", 1),
    ]  # fmt: skip


def test_headings_keep_shares():
    steps, step = told()
    under("a.pt", step)(Stage("weight", 0.5))
    under("a.pt", step)("code")
    assert steps == [("a.pt: weight", 0.5), ("a.pt: code", None)]
