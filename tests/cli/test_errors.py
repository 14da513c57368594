"""Unusable input: exit code 2, a few lines on stderr or one JSON document, never a traceback."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.archives import ARCHIVES, records_of
from tests.support.command_line import SEQUENTIAL, document, error, process, run, write_archive
from tsarchive.cli.command import UNREAD

LOOKING = ("info", "tree", "code", "tensors")
LOADING = ("run", "jitter", "demo")


@pytest.fixture
def truncated(tmp_path):
    data = (ARCHIVES / "sequential.pt").read_bytes()
    path = tmp_path / "cut.pt"
    path.write_bytes(data[: len(data) // 2])
    return path


@pytest.fixture
def tensors_only(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(2)}, path)
    return path


@pytest.fixture
def damaged(tmp_path):
    """One byte of a code record is wrong."""
    records = {"data.pkl": b"", "code/a.py": b"def f(x):\n  return x\n", "constants.pkl": b""}
    path = Path(write_archive(tmp_path / "damaged.pt", records))
    path.write_bytes(path.read_bytes().replace(b"return x", b"return y"))
    return path


def only(found, command):
    """The error of the one file of ``jitter``, which goes on to the next file."""
    return found["files"][0]["error"] if command == "jitter" else found["error"]


def failing(command, path):
    found = only(document(command, path, code=2), command)
    shown = run(command, path)
    assert shown.exit_code == 2
    assert str(path) in shown.stderr
    assert len(shown.stderr.splitlines()) <= 4
    return found


@pytest.mark.parametrize("command", LOOKING + LOADING)
def test_a_file_that_is_no_zip(command, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not an archive")
    found = failing(command, path)
    assert found["type"] == "FormatError"
    assert "not a zip archive" in found["message"]
    assert found["hint"]


@pytest.mark.parametrize("command", LOOKING + LOADING)
def test_a_file_that_is_cut_short(command, truncated):
    found = failing(command, truncated)
    assert found["type"] == "FormatError"
    assert "cut short" in found["message"]


@pytest.mark.parametrize("command", LOOKING + LOADING)
def test_a_file_that_does_not_exist(command, tmp_path):
    found = failing(command, tmp_path / "nothing.pt")
    assert found["type"] == "FileNotFoundError"
    assert found["record"] is None


@pytest.mark.parametrize("command", ["tree", "code", "tensors", *LOADING])
def test_a_file_of_torch_save(command, tensors_only):
    found = failing(command, tensors_only)
    assert found["type"] == "MissingRecordError"
    assert found["record"] == "constants.pkl"
    assert "torch.load" in found["hint"]


def test_the_place_of_an_error_is_shown(damaged):
    found = error("code", damaged)
    assert found["record"] == "code/a.py"
    assert isinstance(found["offset"], int)
    shown = run("code", damaged).stderr
    assert f"where: record {found['record']}, offset {found['offset']}" in shown
    assert f"hint:  {found['hint']}" in shown


def test_an_unknown_class_is_named(tmp_path):
    module = torch.jit.script(torch.nn.Linear(1, 1))
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    kept = ("data.pkl", "data/0", "data/1", "constants.pkl", "version")
    records = {name: records_of(buffer.getvalue())[name] for name in kept}
    found = error("tree", write_archive(tmp_path / "codeless.pt", records))
    assert found["type"] == "UnknownClassError"
    assert "Linear" in found["message"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["info"], "Missing argument 'FILE...'"),
        (["code", "a.pt", "b", "c"], "unexpected extra argument"),
        (["info", "a.pt", "--nonsense"], "--nonsense"),
        (["tree", "a.pt", "--depth", "-1"], "-1"),
        (["tensors", "a.pt", "--sort", "colour"], "'colour'"),
        (["jitter"], "Missing argument 'FILE...'"),
        (["run"], "Missing argument 'FILE'"),
        (["demo", "--random", "1x3"], "Inputs need a FILE"),
    ],
)
def test_wrong_arguments(args, message):
    found = error(*args)
    assert message in found["message"]
    assert found["file"] is None


def test_an_option_without_its_value():
    result = run("run", SEQUENTIAL, "--random")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'--random' requires an argument" in result.stderr


def test_an_unknown_command():
    result = run("nonsense")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nonsense" in result.stderr


def test_control_characters_of_the_file_do_not_reach_the_terminal(tmp_path):
    records = {
        "data.pkl": b"\x80\x02c__torch__\nNet\x1b[2J\n)\x81}(ub.",
        "constants.pkl": b"\x80\x02).",
        "version": b"3\n",
    }
    path = write_archive(tmp_path / "rude.pt", records)
    for command in ("info", "tree", "tensors"):
        result = run(command, path)
        assert result.exit_code == 2
        assert "\x1b" not in result.output


def test_a_defect_is_reported_as_one(monkeypatch):
    def fail(file):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("tsarchive.open", fail, raising=False)
    result = run("tree", SEQUENTIAL)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "unexpected ZeroDivisionError: by zero" in result.stderr
    assert document("tree", SEQUENTIAL, code=3)["error"]["type"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    "args", [["--traceback", "info"], ["info", "--traceback"]], ids=["before", "after"]
)
def test_traceback_on_request(args, tmp_path):
    result = process("-m", "tsarchive", *args, tmp_path / "nothing.pt", cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" in result.stderr


def test_output_that_nobody_reads(tmp_path):
    done = process(
        "-c",
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'tsarchive', 'code', sys.argv[1]],"
        " stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "child.stdout.close()\n"
        "print(child.stderr.read().decode(), child.wait())",
        SEQUENTIAL,
        cwd=tmp_path,
    )
    assert (done.stdout.split(), done.stderr) == ([str(UNREAD)], "")


@pytest.mark.parametrize("command", ["tensors", "info", "tree", "verify", "audit"])
def test_a_reader_that_ends_early_is_no_error(command, tmp_path):
    """All is written before the reader ends, or not: neither is told."""
    shell = f'"$0" -m tsarchive {command} "$1" | true'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable, SEQUENTIAL],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""


@pytest.mark.parametrize("options", ["", "--json"])
@pytest.mark.parametrize("command", ["tensors", "info", "verify"])
def test_stdout_that_is_closed(command, options, tmp_path):
    shell = f'"$0" -m tsarchive {command} {options} "$1" >&-'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable, SEQUENTIAL],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "stdout is closed" in done.stderr
    assert "Traceback" not in done.stderr
