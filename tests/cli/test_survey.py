"""``tsarchive survey``: what it prints, and what its exit code says."""

from __future__ import annotations

import shutil

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.command_line import document, error, run
from tests.support.surveys import listed_names, reading_by
from tsarchive.cli.survey import _progress_text, _Shown
from tsarchive.surveying.surveys import Progress

NAMES = ("container_attributes.pt", "non_ascii.pt")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def folder(tmp_path):
    """Two models of which there is nothing to find."""
    made = tmp_path / "models"
    made.mkdir()
    for name in NAMES:
        shutil.copyfile(ARCHIVES / name, made / name)
    return made


def test_sound_models_are_fine(folder, out):
    result = run("survey", folder, "--out", out, "--workers", 0)
    assert result.exit_code == 0
    assert "2 files found" in result.stdout
    assert f"dataset: {out}" in result.stdout
    assert [row.path for row in tsarchive.Dataset(out).files()] == [*NAMES]
    again = run("survey", folder, "--out", out, "--workers", 0)
    assert "2 of them unchanged since the last run" in again.stdout


def test_a_document_has_the_same(folder, out):
    found = document("survey", folder, "--out", out, "--workers", 0)
    assert found.pop("summary")["files"] == 2
    assert found == {
        "out": str(out),
        "ok": True,
        "found": 2,
        "unchanged": 0,
        "read": 2,
        "files": {"read": 2},
        "findings": {"error": 0, "warning": 0, "info": 0},
        "gate": None,
        "page": None,
    }


@pytest.mark.parametrize(
    ("name", "fail_on", "code"),
    [
        ("", "info", 0),
        ("hostile/code-save-in-forward.pt", "error", 1),
        ("hostile/code-save-in-forward.pt", "never", 0),
        ("archives/trace_dict.pt", "error", 0),
        ("archives/trace_dict.pt", "warning", 0),
        ("archives/trace_dict.pt", "info", 1),
    ],
)
def test_the_exit_code_tells_of_findings(folder, out, name, fail_on, code):
    if name:
        shutil.copyfile(FIXTURES / name, folder / "added.pt")
    arguments = ("survey", folder, "--out", out, "--workers", 0, "--fail-on", fail_on)
    assert run(*arguments).exit_code == code
    assert document(*arguments, code=code)["ok"] is (code == 0)


def test_files_without_an_answer_are_named(tmp_path, out):
    folder = tmp_path / "models"
    folder.mkdir()
    listed_names(folder, ["a.pt", "exit.pt"])
    with reading_by("dangerous"):
        arguments = ("survey", folder, "--out", out, "--workers", 0)
        result = run(*arguments)
        never = run(*arguments, "--fail-on", "never")
    assert (result.exit_code, never.exit_code) == (1, 0)
    expected = f"{folder}/exit.pt: crashed: the process that read it ended with exit code 7"
    assert expected in result.stdout


def test_aspects_can_be_left_out(folder, out):
    names = ("digest", "fingerprint", "weights", "verify", "audit", "compat")
    run("survey", folder, "--out", out, "--workers", 0, *(f"--no-{name}" for name in names))
    for row in tsarchive.Dataset(out).files():
        assert (row.sha256, row.code, row.loads_on) == (None, None, ())
        assert row.operators


def test_lists_are_read(folder, out, tmp_path):
    (tmp_path / "list.txt").write_text(str(folder))
    arguments = ("--from", tmp_path / "list.txt", "--out", out, "--workers", 0)
    assert document("survey", *arguments)["found"] == 2


def test_formats_are_chosen(folder, out):
    run("survey", folder, "--out", out, "--workers", 0, "--format", "jsonl")
    assert [path.suffix for path in (out / "files").iterdir()] == [".jsonl"]


@pytest.mark.parametrize("given", [(), ("--json",)])
def test_one_that_is_interrupted_says_how_it_goes_on(folder, out, monkeypatch, given):
    def interrupted(self, now):
        if now.done:
            raise KeyboardInterrupt

    arguments = ("survey", folder, "--out", out, "--workers", 0, *given)
    with monkeypatch.context() as patched:
        patched.setattr(_Shown, "__call__", interrupted)
        result = run(*arguments)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == f"stopped: {out} keeps what was read, and the same command goes on\n"
    found = document(*arguments[:6])
    assert (found["unchanged"], found["read"]) == (1, 1)


def test_what_cannot_be_used_is_told(folder, out, tmp_path):
    error("survey", tmp_path / "nothing", "--out", out)
    error("survey", "--out", tmp_path / "none")
    error("survey", folder, "--out", folder)
    error("survey", folder, "--out", out, "--workers", 1, "--scheduler", "tcp://localhost:1")


@pytest.mark.parametrize(
    ("now", "seconds", "text"),
    [
        (Progress(found=1), 0, "1 file found"),
        (Progress(found=1200), 9, "1,200 files found"),
        (Progress(5, 2, 0, True), 0, "2 of 5 files"),
        (Progress(5000, 0, 500, True), 10, "500 of 5,000 files, 50.0/s, 0:01:30 left"),
        (Progress(4, 2, 2, True), 4, "4 of 4 files, 0.5/s, 0:00:00 left"),
    ],
)
def test_progress_has_a_rate_and_the_time_left(now, seconds, text):
    assert _progress_text(now, seconds) == text
