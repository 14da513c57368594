"""``tsarchive jitter``."""

from __future__ import annotations

import pytest
from cli_support import SEQUENTIAL, document, run
from conftest import ARCHIVES

from tsarchive import JitterReport, RecordDifference


@pytest.mark.parametrize("name", ["sequential", "buffers", "hook_of_child", "trace_convolution"])
def test_stable_archives(name):
    path = ARCHIVES / f"{name}.pt"
    (found,) = document("jitter", path)["files"]
    assert found.keys() == {"file", "stable", "bytes", "records"}
    assert (found["file"], found["stable"], found["records"]) == (str(path), True, [])
    assert run("jitter", path).stdout.startswith(f"{path}: stable, ")


@pytest.fixture
def unstable(monkeypatch):
    report = JitterReport(
        False,
        100,
        (
            RecordDifference("data.pkl", 7, b"\x80\x02ab", b"\x80\x02cd"),
            RecordDifference("extra/x", 0, None, b""),
        ),
    )
    monkeypatch.setattr("tsarchive.check_jitter", lambda file, map_location: report, raising=False)


def test_differences_are_findings(unstable):
    result = run("jitter", SEQUENTIAL)
    assert result.exit_code == 1
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[1:] == [
        "record data.pkl, offset 7",
        "first save:  \\x80\\x02ab",
        "second save: \\x80\\x02cd",
        "and 1 more; --json lists them",
    ]
    (found,) = document("jitter", SEQUENTIAL, code=1)["files"]
    assert found["records"] == [
        {"record": "data.pkl", "offset": 7, "first": "\\x80\\x02ab", "second": "\\x80\\x02cd"},
        {"record": "extra/x", "offset": 0, "first": None, "second": ""},
    ]


def test_a_difference_outside_of_all_records(monkeypatch):
    report = JitterReport(False, 100, ())
    monkeypatch.setattr("tsarchive.check_jitter", lambda file, map_location: report, raising=False)
    result = run("jitter", SEQUENTIAL)
    assert result.exit_code == 1
    assert "no record differs" in result.stdout


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
