"""The hostile samples, each held against what the manifest says must come of it."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT
from tsarchive import Severity

HOSTILE = ROOT / "fixtures" / "hostile"
MAKE = ROOT / "fixtures" / "make_hostile.py"
LIMITS = tsarchive.Limits(steps=10_000, seconds=10.0, nbytes=1 << 28)
VERDICTS = {Severity.INFO: "fine", Severity.WARNING: "warning", Severity.ERROR: "error"}
LARGEST = 25_000

with (HOSTILE / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])


@pytest.fixture(autouse=True)
def _nothing_happens(tmp_path, monkeypatch):
    """Whatever a sample tries, no file appears and no command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda command: pytest.fail(f"ran {command}"))
    yield
    assert os.listdir(tmp_path) == []


def data_of(row) -> bytes:
    return (HOSTILE / f"{row['name']}.pt").read_bytes()


def verdict(findings) -> str:
    """The worst severity, and every finding with a message."""
    assert all(finding.message and finding.rule for finding in findings)
    return VERDICTS[max((f.severity for f in findings), default=Severity.INFO)]


@each_row
def test_verify(row):
    assert verdict(tsarchive.verify(io.BytesIO(data_of(row))).findings) == row["verify"]


@each_row
def test_audit(row):
    assert verdict(tsarchive.audit(io.BytesIO(data_of(row))).findings) == row["audit"]


@each_row
def test_load_and_call(row):
    outcome, module = outcome_of(lambda: tsarchive.load(io.BytesIO(data_of(row)), limits=LIMITS))
    assert outcome == row["load"]
    if row["call"] != "-":
        assert outcome_of(lambda: module(torch.ones(8)))[0] == row["call"]


def outcome_of(action):
    """``inert`` and a result, or the name of the error, which can be shown."""
    try:
        return "inert", action()
    except tsarchive.ArchiveError as error:
        return type(error).__name__ if str(error) else "no message", None


def test_every_row_that_runs_something_refused_says_so():
    """The manifest itself: code that reaches for files is never fine, and benign code is."""
    able = [row for row in ROWS if row["name"].startswith(("code-save", "code-from-file"))]
    assert len(able) >= 8
    assert {row["audit"] for row in able} == {"error"}
    assert next(row for row in ROWS if row["name"] == "zip-re-zipped")["audit"] == "fine"


def test_samples_are_small_and_many():
    assert len(ROWS) >= 150
    assert all(int(row["bytes"]) <= LARGEST for row in ROWS)
    assert {row["layer"] for row in ROWS} == {"container", "pickle", "code", "file", "exported"}


def test_the_files_are_as_the_script_makes_them():
    checked = subprocess.run(
        [sys.executable, MAKE, "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_script_makes_the_same_bytes_again():
    from fixtures.make_hostile import SAMPLES

    slow = ("zip-bomb-bzip2", "zip-bomb-lzma")
    for row in ROWS:
        if row["name"] not in slow:
            assert SAMPLES[row["name"]].make() == data_of(row), row["name"]
