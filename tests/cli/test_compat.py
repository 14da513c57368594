"""``tsarchive compat``: which torch loads a file, for people and for programs."""

from __future__ import annotations

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.command_line import SEQUENTIAL, document, error, run
from tsarchive.cli.compat import _span
from tsarchive.formats.compatibility import Row

PROFILER = str(ARCHIVES / "with_profiler.pt")


def test_releases_that_do_the_same_are_one_row():
    lines = run("compat", PROFILER).stdout.splitlines()
    assert lines[0] == f"{PROFILER}: torchscript, file format 3"
    assert [line.split()[:5] for line in lines if line.startswith("1.12 ")] == [
        ["1.12", "to", "2.15", "yes", "yes"]
    ]
    assert any("there is no operator profiler::_record_function_enter_new" in s for s in lines)


@pytest.mark.parametrize(
    ("versions", "code"), [("2.9", 0), ("1.12,2.9", 0), ("1.11,2.9", 1), ("1.11", 1)]
)
def test_the_exit_code_tells_whether_all_load_it(versions, code):
    assert run("compat", PROFILER, "--torch", versions).exit_code == code


def test_without_versions_any_that_loads_it_will_do():
    assert run("compat", PROFILER).exit_code == 0
    assert run("compat", FIXTURES / "executorch" / "add.pte").exit_code == 0
    assert run("compat", FIXTURES / "executorch" / "add.pte", "--torch", "2.9").exit_code == 1


def test_json_has_all_of_the_report():
    found = document("compat", PROFILER, "--torch", "1.11", code=1)
    report = tsarchive.compat(PROFILER, ["1.11"])
    assert found["file"] == PROFILER
    assert not found["ok"]
    (row,) = found["rows"]
    assert (row["torch"], row["loads"], row["runs"]) == ("1.11", False, False)
    assert [each["about"] for each in row["reasons"]] == [r.about for r in report.rows[0].reasons]
    assert {*row["reasons"][0]["source"]} == {"file", "line", "text"}


def test_a_reason_is_shown_once_for_all_releases_that_have_it():
    lines = run("compat", ARCHIVES / "with_profiler.pt").stdout.splitlines()
    heads = [line for line in lines if line.startswith("torch ") and ": " in line]
    assert len({head.partition(": ")[2] for head in heads}) == len(heads)
    assert "torch 1.4: it does not read file format 3 (first in 1.5)" in heads


def test_releases_that_run_no_such_file_have_rows():
    found = document("compat", FIXTURES / "executorch" / "add.pte", "--torch", "2.8-2.9", code=1)
    assert [(row["torch"], row["loads"]) for row in found["rows"]] == [
        ("2.8", False),
        ("2.9", False),
    ]
    assert "no torch runs it" in found["rows"][0]["reasons"][0]["text"]
    assert found["mobile"]


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ("2.8-2.10", ["2.8", "2.9", "2.10"]),
        ("1.13, 2.8 - 2.9", ["1.13", "2.8", "2.9"]),
        ("2.9-2.9", ["2.9"]),
    ],
)
def test_ranges_of_versions(versions, told):
    found = document("compat", PROFILER, "--torch", versions)
    assert [row["torch"] for row in found["rows"]] == told


def test_that_convert_may_help_is_said():
    assert "hint: with --torch" in run("compat", PROFILER).stdout
    assert "hint: with --torch" not in run("compat", PROFILER, "--torch", "1.8").stdout


def test_what_a_conversion_would_do_is_told():
    lines = run("compat", SEQUENTIAL, "--torch", "1.8").stdout
    assert "convert --for-torch 1.8 works: nothing to rewrite" in lines
    refused = run("compat", PROFILER, "--torch", "1.8").stdout
    assert "convert --for-torch 1.8 refuses: code/" in refused


@pytest.mark.parametrize(
    "arguments",
    [("--torch", each) for each in ("9.9", "", "2.8 2.9", "2.9-2.8", "2.8-9.9", "2.8-")],
)
def test_versions_that_are_not_known_are_unusable(arguments):
    assert run("compat", SEQUENTIAL, *arguments).exit_code == 2


def test_a_file_that_cannot_be_read_is_unusable(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"no archive")
    assert error("compat", path)["type"] == "FormatError"


@pytest.mark.parametrize(
    ("versions", "shown"),
    [
        (["2.9"], "2.9"),
        (["2.8", "2.9", "2.10"], "2.8 to 2.10"),
        (["1.13", "2.0", "2.9"], "1.13 to 2.0, 2.9"),
        (["ExecuTorch 0.6", "ExecuTorch 0.7"], "ExecuTorch 0.6 to 0.7"),
    ],
)
def test_spans(versions, shown):
    assert _span([Row(version, loads=True, runs=True) for version in versions]) == shown
