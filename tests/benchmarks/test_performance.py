"""The command that measures performance: it runs, and its arithmetic is right."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.support.archives import ROOT

FOLDER = ROOT / "benchmarks" / "performance"
ROWS = ("tree", "first-call", "frozen", "warm-process", "later-calls", "growth-code")
MODULES = ("processes", "rows", "figures", "growth", "report")


@pytest.fixture
def parts(monkeypatch):
    """The modules of the command, which stand in no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.long("test_a_line_of_the_table")
def test_the_quick_form_measures_its_rows(tmp_path):
    found, pictures = tmp_path / "found.json", tmp_path / "pictures"
    command = [sys.executable, FOLDER, "--quick", "--rows", ",".join(ROWS), "--details"]
    options = ["--json", found, "--pictures", pictures, "--folder", tmp_path]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(found.read_text())
    rows = [line["row"] for line in told["lines"]]
    twice = ["first-call", "first-call", "frozen", "frozen"]
    assert rows == ["tree", "tree", *twice, "warm-process", "later-calls", "later-calls"]
    assert all(line["failures"] == [] and line["subjects"] for line in told["lines"])
    assert {len(points) for points in told["growth"]["growth-code"]["series"].values()} == {2}
    assert done.stdout.startswith("| figure | beside ")
    assert (
        "| load and first call, 30 to 230 kB of code: geometric mean | torch.jit |" in done.stdout
    )
    assert "recurrent traced" in done.stdout
    assert "Measured on 20" in done.stdout
    drawn = [path.name for path in pictures.glob("*")]
    assert drawn == (["growth-code.svg"] if find_spec("matplotlib") else [])
    assert {path.name for path in tmp_path.iterdir()} <= {"found.json", "pictures"}


@pytest.mark.long("test_figures")
@pytest.mark.parametrize("row", ["first-call", "save"])
def test_profiles_tell_parts(row):
    """Which of them are sampled depends on the machine."""
    script = FOLDER.with_name("profiling.py")
    command = [
        sys.executable,
        script,
        row,
        "decoder:scripted",
        "--processes",
        "2",
        "--functions",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    title, _, *rows = done.stdout.strip().split("\n")
    assert title == "| decoder:scripted | share |"
    shares = {
        name: int(share) for name, share in re.findall(r"\| ([A-Za-z ]+) \| (\d+)% \|", done.stdout)
    }
    assert shares.keys() <= runpy.run_path(str(script))["PARTS"].keys()
    assert 95 <= sum(shares.values()) <= 105
    assert rows[-1].startswith("| `")


def test_an_unknown_row_is_refused(tmp_path):
    command = [sys.executable, FOLDER, "--rows", "tree,wood"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "no such rows: wood" in done.stderr


def reading(seconds, imports=0.0):
    part = {"wall": seconds, "cpu": seconds / 2, "anonymous": 1024.0}
    return {"imports": {"wall": imports, "cpu": imports / 2}, "load and first": part}


def first_call(parts, ours, theirs, clock="wall"):
    """The line of load and first call, from the readings of each network."""
    row = next(row for row in parts["rows"].ROWS if row.name == "first-call")
    found = {
        str(number): {"tsarchive": [reading(*one) for one in pair[0]], "torch.jit": pair[1]}
        for number, pair in enumerate(
            zip(ours, ([reading(one) for one in runs] for runs in theirs), strict=True)
        )
    }
    return parts["figures"].line_of(row, row.goals[0], row.figure, found, (), clock)


@pytest.mark.parametrize(
    ("ours", "theirs", "reached", "with_imports", "holds"),
    [
        ([[(0.1,), (0.2,), (9.0,)]], [[1.0]], 0.2, 0.2, "yes"),
        ([[(0.2, 0.3)]], [[1.0]], 0.2, 0.5, "yes, imports aside"),
        ([[(0.1,)], [(0.4,)]], [[1.0], [1.0]], 0.2, 0.2, "yes"),
        ([[(0.5,)]], [[1.0]], 0.5, 0.5, "no"),
    ],
    ids=["median", "imports", "geometric mean", "missed"],
)
def test_figures(parts, ours, theirs, reached, with_imports, holds):
    line = first_call(parts, ours, theirs)
    assert line.reached == pytest.approx(reached)
    assert line.with_imports == pytest.approx(with_imports)
    assert line.holds == holds


def test_a_line_of_the_table(parts):
    line = first_call(parts, [[(0.2, 0.3)]], [[1.0]], clock="cpu")
    shown = parts["report"].table_line(line)
    assert shown == (
        "| load and first call, 30 to 230 kB of code: geometric mean | torch.jit | 500 ms | 100 ms "
        "| ≤ 0.45 | 0.20 | 0.50 | yes, imports aside |"
    )


@pytest.mark.parametrize("power", [0, 1, 2])
def test_exponents(parts, power):
    points = [{"x": float(x), "seconds": 3.0 * x**power} for x in (1, 10, 100, 1000)]
    assert parts["growth"].exponent(points) == pytest.approx(power)
    assert parts["growth"].exponent(points[:1]) is None
