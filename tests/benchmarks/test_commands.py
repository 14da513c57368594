"""The commands whose tables stand in the README: they start, and date what they print."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest

from tests.support.archives import ROOT
from tests.support.processes import torch_process

FOLDER = ROOT / "benchmarks"
DATED = re.compile(
    r"^Measured on 20\d\d-\d\d-\d\d, torch \d+\.\d+\.\d+\w*, Python 3\.\d+\.$", re.MULTILINE
)
SIDE = {
    "outputs_equal": True, "stable": True, "error": None, "load_seconds": 1.0,
    "first_call_seconds": 1.0, "second_call_seconds": 1.0,
}  # fmt: skip
MODEL = {"name": "net", "tsarchive": SIDE, "torch_jit": SIDE, "torch_jit_reads_ours": True}


COMMANDS = [
    "compare", "compat_agreement", "conversion", "decompiling", "fidelity", "leaving",
    "packing_mutants",
    "remote", "scanners", "survey_scale", "written_by",
]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_starts(name, tmp_path):
    done = torch_process(FOLDER / f"{name}.py", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


@pytest.mark.parametrize(
    ("name", "measure", "printed"),
    [
        ("compare", lambda module: module.demo(), '{"models": []}'),
        ("profiling", lambda module: module.in_processes("save", [], 1), "[]"),
    ],
)
def test_what_an_earlier_run_has_compiled_is_not_taken(name, measure, printed, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("TSARCHIVE_CACHE", "cache")
    caches = []

    def run(command, *, env, **options):
        caches.append(env["TSARCHIVE_CACHE"])
        return subprocess.CompletedProcess(command, 0, printed)

    monkeypatch.setattr(subprocess, "run", run)
    measure(importlib.import_module(name))
    assert caches == ["0"]


@pytest.mark.parametrize(
    ("name", "replaced", "arguments"),
    [
        ("compare", {"demo": lambda: [MODEL]}, []),
        ("conversion", {"examine_all": lambda paths, timeout: ()}, ["none.pt"]),
        ("leaving", {"rows_of": lambda *_: (), "import_tools": lambda: None}, ["none.pt"]),
        ("fidelity", {"results": lambda collection, options: ()}, ["none"]),
        ("fidelity", {"results": lambda collection, options: ()}, ["--run", "none"]),
        ("packing_mutants", {"is_model": lambda data: False}, [__file__]),
        ("remote", {"load_rows": lambda *_: [], "request_rows": lambda *_: [{"open": "1"}]}, []),
        ("written_by", {"known_archives": lambda: ()}, []),
        ("scanners", {"SCANNERS": {}}, ["--benign", "none", "--hostile", "none"]),
    ],
)
def test_tables_are_dated(name, replaced, arguments, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    command = importlib.import_module(name)
    for key, value in replaced.items():
        monkeypatch.setattr(command, key, value)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    command.main()
    assert DATED.search(capsys.readouterr().out)


def test_a_comparison_is_put_in_its_place(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    command = importlib.import_module("compare")
    monkeypatch.setattr(command, "demo", lambda: [MODEL])
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- comparison -->\nold\n<!-- end of comparison -->\nafter\n")
    monkeypatch.setattr(sys, "argv", ["compare", "--write", str(page)])
    command.main()
    written = page.read_text()
    assert written.startswith("before\n<!-- comparison -->\n\n|")
    assert written.endswith("\n<!-- end of comparison -->\nafter\n")
    assert DATED.search(written)
    assert "old" not in written
    page.write_text("no place")
    with pytest.raises(ValueError, match="has no place for comparison"):
        command.main()
