"""``tsarchive jitter``."""

from __future__ import annotations

import io
import shutil

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.command_line import SEQUENTIAL, document, run, write_archive
from tsarchive import (
    GraphReport,
    JitterReport,
    ReadComparison,
    RecordDifference,
    SaveComparison,
    Unprinted,
)
from tsarchive.cli.output import progress

IN_PICKLE = RecordDifference("data.pkl", 7, b"\x80\x02ab", b"\x80\x02cd")
MISSING = RecordDifference("extra/x", 0, None, b"")
IN_CODE = RecordDifference("code/a.py", 3, b"x", b"y")


@pytest.mark.parametrize("name", ["sequential", "buffers", "hook_of_child", "trace_convolution"])
def test_stable_archives(name):
    path = ARCHIVES / f"{name}.pt"
    (found,) = document("jitter", path)["files"]
    assert found.keys() == {
        "file", "stable", "nbytes", "records", "twice", "as_read", "graph", "canonical",
    }  # fmt: skip
    assert found["twice"] == {"same": True, "records": []}
    assert found["canonical"] is None
    assert (found["file"], found["stable"], found["records"]) == (str(path), True, [])
    assert found["as_read"].keys() == {"same_file", "records"}
    assert found["graph"].keys() == {
        "stable", "is_own", "records", "code", "debug", "unprinted",
    }  # fmt: skip
    assert found["graph"]["stable"]
    assert found["graph"]["records"] == []
    assert run("jitter", path).stdout.startswith(f"{path}: stable, ")


def test_a_file_that_tsarchive_wrote(tmp_path):
    path = tmp_path / "model.pt"
    tsarchive.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    (found,) = document("jitter", path)["files"]
    assert found["as_read"] == {"same_file": True, "records": []}
    assert lines_of(path)[1:] == [
        "saved: the file that was read, byte for byte",
        "graphs: the code and debug records as read",
    ]


def lines_of(*args, code=0) -> list[str]:
    result = run("jitter", *args)
    assert result.exit_code == code, result.output
    return [line.strip() for line in result.stdout.splitlines()]


@pytest.fixture
def reported(monkeypatch):
    """A function that makes the command find a report."""

    def report(*args, **fields) -> None:
        made = JitterReport(*args, **fields)
        monkeypatch.setattr("tsarchive.check_jitter", lambda file, **options: made)

    return report


def test_differences_are_findings(reported):
    reported(False, 100, (IN_PICKLE, MISSING))
    lines = lines_of(SEQUENTIAL, code=1)
    assert lines == [
        f"{SEQUENTIAL}: the second save differs",
        "record data.pkl, offset 7",
        "first save:  \\x80\\x02ab",
        "second save: \\x80\\x02cd",
        "and 1 more; --json lists them",
        "graphs: the code and debug records as read",
    ]
    (found,) = document("jitter", SEQUENTIAL, code=1)["files"]
    assert found["records"] == [
        {"record": "data.pkl", "offset": 7, "first": "\\x80\\x02ab", "second": "\\x80\\x02cd"},
        {"record": "extra/x", "offset": 0, "first": None, "second": ""},
    ]
    assert found["as_read"] is None


def test_a_difference_outside_of_all_records(reported):
    reported(False, 100, ())
    assert "no record differs" in lines_of(SEQUENTIAL, code=1)[1]


def test_code_that_prints_otherwise_each_time_is_a_finding(reported):
    reported(True, 100, (), graph=GraphReport(code=(IN_CODE,), records=(IN_CODE,)))
    assert lines_of(SEQUENTIAL, code=1)[:4] == [
        f"{SEQUENTIAL}: its code prints otherwise each time",
        "record code/a.py, offset 3",
        "first print:  x",
        "second print: y",
    ]
    assert "then always the same" not in run("jitter", SEQUENTIAL).stdout
    (found,) = document("jitter", SEQUENTIAL, code=1)["files"]
    assert found["stable"]
    assert not found["graph"]["stable"]


@pytest.mark.parametrize(
    ("report", "what"),
    [
        (GraphReport(code=(IN_CODE,), is_own=True), "code"),
        (GraphReport(debug=(IN_CODE,), is_own=True), "debug records"),
    ],
)
def test_what_tsarchive_saved_first_may_not_change(reported, report, what):
    reported(True, 100, (), graph=report)
    assert lines_of(SEQUENTIAL, code=1) == [
        f"{SEQUENTIAL}: its graphs print other {what}",
        "record code/a.py, offset 3",
        "saved:   x",
        "printed: y",
        "a file that tsarchive was the first to save must print as it is",
    ]
    (found,) = document("jitter", SEQUENTIAL, code=1)["files"]
    assert found["graph"]["is_own"]


def test_saves_of_one_module_that_differ_are_a_finding(reported):
    reported(False, 100, (), twice=SaveComparison(False, (IN_PICKLE,)))
    assert lines_of(SEQUENTIAL, code=1)[:4] == [
        f"{SEQUENTIAL}: saving it twice gives different bytes",
        "record data.pkl, offset 7",
        "first save:  \\x80\\x02ab",
        "second save: \\x80\\x02cd",
    ]


def test_canonical_forms_of_processes_that_differ_are_a_finding(reported):
    reported(True, 100, (), canonical=SaveComparison(False, (IN_CODE,)))
    assert lines_of("--canonical", SEQUENTIAL, code=1)[:4] == [
        f"{SEQUENTIAL}: its canonical form is another in a fresh process",
        "record code/a.py, offset 3",
        "this process: x",
        "a fresh one:  y",
    ]
    (found,) = document("jitter", SEQUENTIAL, code=1)["files"]
    assert not found["canonical"]["same"]


@pytest.mark.long("test_canonical_forms_of_processes_that_differ_are_a_finding")
def test_the_canonical_form_of_fresh_processes():
    assert lines_of("--canonical", SEQUENTIAL)[-1] == "canonical: the same bytes in fresh processes"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"as_read": ReadComparison(False, (IN_PICKLE, MISSING))},
         "saved: as read but for data.pkl and 1 other record"),
        ({"as_read": ReadComparison(False, ())},
         "saved: every record as read, in another container"),
        ({"graph": GraphReport(code=(IN_CODE,))},
         "graphs: print code/a.py in another form, then always the same"),
        ({"graph": GraphReport(debug=(IN_CODE, IN_CODE, IN_CODE))},
         "graphs: the code as read; code/a.py and 2 other records in another form"),
        ({"graph": GraphReport(unprinted=(Unprinted("code/a.py", "it is odd"),) * 2)},
         "graphs: code/a.py is not compared: it is odd; and 1 more"),
    ],
)  # fmt: skip
def test_what_is_no_jitter_is_shown(reported, fields, line):
    reported(True, 100, (), **fields)
    assert line in lines_of(SEQUENTIAL)


def test_one_bad_file_does_not_stop_the_others(tmp_path):
    bad = tmp_path / "bad.pt"
    bad.write_text("nonsense")
    found = document("jitter", bad, SEQUENTIAL, code=2)["files"]
    assert [("error" in entry, entry["file"]) for entry in found] == [
        (True, str(bad)),
        (False, SEQUENTIAL),
    ]
    result = run("jitter", bad, SEQUENTIAL)
    assert result.exit_code == 2
    assert "stable" in result.stdout
    assert str(bad) in result.stderr


# --- all archives below a folder ---


@pytest.fixture
def folder(tmp_path):
    """Three archives at different depths, one of them of before torch 1.3, and other files."""
    (tmp_path / "b" / "deep").mkdir(parents=True)
    shutil.copy(SEQUENTIAL, tmp_path / "b" / "deep" / "model.anything")
    shutil.copy(ARCHIVES / "buffers.pt", tmp_path / "a.pt")
    torch.save({"weight": torch.ones(2)}, tmp_path / "b" / "weights.pt")
    (tmp_path / "notes.txt").write_text("no archive")
    (tmp_path / "empty").write_bytes(b"")
    shutil.copy(FIXTURES / "legacy" / "arithmetic-1.0.1.pt", tmp_path / "old.pt")
    write_archive(tmp_path / "other.zip", {"readme": b"a zip of something else"})
    return tmp_path


def test_all_archives_below_a_folder(folder):
    found = document("jitter", "--all", folder)
    names = [entry["file"].removeprefix(f"{folder}/") for entry in found["files"]]
    assert names == ["a.pt", "b/deep/model.anything", "old.pt"]
    assert [
        (each["file"].removeprefix(f"{folder}/"), each["reason"]) for each in found["skipped"]
    ] == [
        ("b/weights.pt", "a torch.save checkpoint"),
        ("empty", "it is an empty file, not a zip archive"),
        ("notes.txt", "not a zip archive: there is no end record"),
        ("other.zip", "a zip archive without a model of torch"),
    ]
    *_, skipped, last = lines_of("--all", folder)
    assert skipped.endswith("other.zip: not checked: a zip archive without a model of torch")
    assert last == "3 archives: 0 unusable, 3 stable, 0 changed; 4 not checked"


def test_named_files_are_checked_whatever_they_are(folder):
    found = document("jitter", folder / "notes.txt", "--all", folder / "b", code=2)
    assert ["error" in entry for entry in found["files"]] == [True, False]
    assert [each["file"] for each in found["skipped"]] == [str(folder / "b" / "weights.pt")]


def test_a_damaged_archive_is_not_passed_over(folder):
    data = (folder / "a.pt").read_bytes()
    (folder / "cut.pt").write_bytes(data[: len(data) // 2])
    found = document("jitter", "--all", folder, code=2)
    assert [entry["file"] for entry in found["files"] if "error" in entry] == [
        str(folder / "cut.pt")
    ]
    assert lines_of("--all", folder, code=2)[-1].startswith("4 archives: 1 unusable, 3 stable")


def test_a_change_in_one_of_all(folder, reported):
    reported(False, 100, (IN_PICKLE,))
    assert lines_of("--all", folder, code=1)[-1].startswith("3 archives: 0 unusable, 0 stable, 3")


def test_links_to_folders_are_no_way_in(folder):
    (folder / "b" / "around").symlink_to(folder, target_is_directory=True)
    (folder / "b" / "gone").symlink_to(folder / "nothing")
    found = document("jitter", "--all", folder / "b")
    reasons = {each["file"].rpartition("/")[2]: each["reason"] for each in found["skipped"]}
    assert len(found["files"]) == 1
    assert reasons["around"] == "a link to a folder, which is not followed"
    assert reasons["gone"] == "a link to nothing"


@pytest.mark.parametrize("files", [[], ["notes.txt"]])
def test_a_folder_without_archives_is_no_success(tmp_path, files):
    for name in files:
        (tmp_path / name).write_text("no archive")
    found = document("jitter", "--all", tmp_path, code=2)
    assert found["files"] == []
    assert len(found["skipped"]) == len(files)
    assert "nothing was checked" in run("jitter", "--all", tmp_path).stderr


def test_a_folder_that_is_missing(tmp_path):
    result = run("jitter", "--all", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_the_progress_bar_is_for_terminals(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress(2) as step:
        step("one")
        step("two")
    import sys

    assert sys.stderr.getvalue() == ""
