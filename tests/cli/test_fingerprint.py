"""``tsarchive fingerprint``: digests for people, for programs, and for a later check."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from pathlib import Path

import pytest

import tsarchive
from tests.support.archives import ARCHIVES
from tests.support.command_line import SEQUENTIAL, document, error, run

VIEWS = str(ARCHIVES / "views.pt")


@pytest.fixture
def listed(tmp_path) -> Path:
    """What the command prints of two files."""
    path = tmp_path / "sums.tsf"
    path.write_text(run("fingerprint", SEQUENTIAL, VIEWS).stdout)
    return path


def test_a_line_is_the_digest_and_the_name_of_a_file():
    expected = [f"{tsarchive.fingerprint(file).model}  {file}" for file in (SEQUENTIAL, VIEWS)]
    assert run("fingerprint", SEQUENTIAL, VIEWS).stdout.splitlines() == expected


def test_parts_and_tensors_stand_below():
    found = tsarchive.fingerprint(VIEWS)
    lines = run("fingerprint", VIEWS, "--parts", "--tensors").stdout.splitlines()
    assert lines == [
        f"{found.model}  {VIEWS}",
        f"  {found.code}  code",
        f"  {found.structure}  structure",
        f"  {found.weights}  weights",
        f"  {found.extra_files}  extra files",
        *(f"  {digest}  {name}" for name, digest in found.tensors.items()),
    ]


def test_without_weights_there_is_the_rest():
    found = tsarchive.fingerprint(VIEWS, weights=False)
    assert run("fingerprint", VIEWS, "--no-weights").stdout.splitlines() == [
        VIEWS,
        f"  {found.code}  code",
        f"  {found.structure}  structure",
        f"  {found.extra_files}  extra files",
    ]


def test_a_list_is_checked(listed):
    result = run("fingerprint", "--check", listed)
    assert result.exit_code == 0
    assert result.stdout == f"{SEQUENTIAL}: same\n{VIEWS}: same\n"


def test_another_model_is_a_finding(listed):
    first, second = listed.read_text().splitlines()
    swapped = [f"{first.split()[0]}  {VIEWS}", f"{first.split()[0]}  {SEQUENTIAL}"]
    listed.write_text("\n".join(swapped) + "\n")
    result = run("fingerprint", "--check", listed)
    assert result.exit_code == 1
    assert result.stdout == f"{VIEWS}: another model\n{SEQUENTIAL}: same\n"
    rows = document("fingerprint", "--check", listed, code=1)["files"]
    assert [row["same"] for row in rows] == [False, True]
    assert rows[0]["expected"] == first.split()[0] != second.split()[0]


def test_a_file_that_cannot_be_read_is_unusable(listed, tmp_path):
    gone = tmp_path / "gone.pt"
    listed.write_text(f"{listed.read_text()}tsf1:00  {gone}\n")
    result = run("fingerprint", "--check", listed)
    assert result.exit_code == 2
    assert f"{gone}: not read" in result.stdout
    rows = document("fingerprint", "--check", listed, code=2)["files"]
    assert [row["same"] for row in rows] == [True, True, None]
    assert rows[2]["error"]["type"] == "FileNotFoundError"


@pytest.mark.parametrize("text", ["", "not a digest  file.pt\n", "tsf1:00\n", "tsf2:00  file.pt\n"])
def test_other_lists_are_unusable(text, tmp_path):
    path = tmp_path / "list"
    path.write_text(text)
    assert error("fingerprint", "--check", path)["type"] == "CallError"


def test_what_other_files_hold_is_shown_all_the_same(tmp_path):
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"PK")
    result = run("fingerprint", broken, VIEWS)
    assert result.exit_code == 2
    assert result.stdout == f"{tsarchive.fingerprint(VIEWS).model}  {VIEWS}\n"
    assert str(broken) in result.stderr
    first, second = document("fingerprint", broken, VIEWS, code=2)["files"]
    assert first["error"]["type"] == "FormatError"
    assert second["model"] == tsarchive.fingerprint(VIEWS).model


def test_the_document_has_all_parts():
    (shown,) = document("fingerprint", VIEWS)["files"]
    found = tsarchive.fingerprint(VIEWS)
    assert shown == {
        "file": VIEWS,
        "code": found.code,
        "structure": found.structure,
        "weights": found.weights,
        "extra_files": found.extra_files,
        "model": found.model,
        "tensors": found.tensors,
    }


def test_subjects_have_the_digests_of_the_file_and_of_the_model():
    (subject,) = document("fingerprint", "--in-toto", VIEWS)
    assert subject["name"] == VIEWS
    assert subject["digest"] == {
        "sha256": hashlib.sha256(Path(VIEWS).read_bytes()).hexdigest(),
        "tsf1": tsarchive.fingerprint(VIEWS).model.removeprefix("tsf1:"),
    }


def test_no_file_is_a_mistake():
    assert run("fingerprint").exit_code == 2


def test_large_files_are_told_of_meanwhile(monkeypatch):
    """A bar is drawn on terminals alone; what is printed stays the same."""
    told: list[str] = []
    monkeypatch.setattr("tsarchive.cli.fingerprint._BAR_FROM", 0)
    monkeypatch.setattr(
        "tsarchive.cli.fingerprint.progress", lambda steps: nullcontext(told.append)
    )
    assert run("fingerprint", VIEWS).stdout == f"{tsarchive.fingerprint(VIEWS).model}  {VIEWS}\n"
    names = tsarchive.fingerprint(VIEWS).tensors
    assert told == [VIEWS, *(f"{VIEWS}: {name}" for name in names)]
