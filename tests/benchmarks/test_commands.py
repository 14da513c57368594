"""The commands whose tables stand in the README: they start, and date what they print."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.archives import ROOT

FOLDER = ROOT / "benchmarks"


@pytest.mark.parametrize("name", ["compare", "conversion", "fidelity", "scanners"])
def test_a_command_starts(name):
    command = [sys.executable, FOLDER / f"{name}.py", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
