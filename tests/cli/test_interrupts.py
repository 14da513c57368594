"""Ctrl-C, and the examples of help: what a person sees of every command."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT
from tests.support.command_line import run
from tsarchive.cli import COMMANDS

PROGRAM = ROOT / "fixtures/executorch/linear.pte"
WRITING = {
    "convert": ("net.pt", "out.pt", "--canonical"),
    "report": ("net.pt", "-o", "out.html"),
    "decompile": ("net.pt", "-o", "package"),
    "edit": (PROGRAM, "-o", "out.pte", "--strip", "all"),
    "optimize": ("net.pt", "-o", "out.pt"),
}


@contextmanager
def interruptible():
    """Take SIGINT as a terminal sends it; processes in the background of a shell ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    tsarchive.save(torch.jit.script(torch.nn.Linear(2, 2).eval()), tmp_path / "net.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WRITING)
def test_an_interrupt_leaves_nothing_half_written(name, folder, monkeypatch):
    """The signal comes when all is written, before the first file gets its name."""
    replaced, real = [], os.replace

    def replace(source, target):
        if ".tsarchive-" not in str(source):  # pytest caches what it imports
            real(source, target)
            return
        replaced.append(target)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched, interruptible():
        patched.setattr(os, "replace", replace)
        result = run(name, *WRITING[name])
    (target,) = replaced
    assert str(WRITING[name][1 if name == "convert" else 2]) in os.fspath(target)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "stopped: no file was left half-written\n"
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert left == [folder / "net.pt"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples(name):
    lines = run(name, "--help").stdout.splitlines()
    after = lines[lines.index("  Examples:") + 1 :]
    assert after[0].startswith("    ")
    assert any(f"tsarchive {name}" in line for line in after)


def test_unknown_commands_lead_to_the_list():
    assert "'tsarchive --help' lists them" in run("frobnicate").stderr


@pytest.mark.parametrize(
    ("path", "hint"),
    [("none.pt", "Check the name; 'ls "), ("none/net.pt", "There is no folder "),
     (".", "Name a file, not a folder")],
)  # fmt: skip
def test_errors_of_the_system_say_what_to_do(path, hint, folder):
    result = run("code", path)
    assert result.exit_code == 2
    assert f"  hint:  {hint}" in result.stderr
