"""``tsarchive fingerprint``: digests for people, for programs, and for a later check."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

import tsarchive
from tests.support.archives import ARCHIVES
from tests.support.command_line import SEQUENTIAL, document, error, run

DIGEST = "tsf1:" + "0123456789abcdef" * 4
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
    listed.write_text(f"{listed.read_text()}{DIGEST}  {gone}\n")
    result = run("fingerprint", "--check", listed)
    assert result.exit_code == 2
    assert f"{gone}: not read" in result.stdout
    rows = document("fingerprint", "--check", listed, code=2)["files"]
    assert [row["same"] for row in rows] == [True, True, None]
    assert rows[2]["error"]["type"] == "FileNotFoundError"


OTHER_LISTS = {
    "empty": "",
    "no digest": "not a digest  file.pt\n",
    "no file": f"{DIGEST}\n",
    "other version": f"{DIGEST.replace('tsf1', 'tsf2')}  file.pt\n",
    "short digest": "tsf1:00  file.pt\n",
    "long digest": f"{DIGEST}0  file.pt\n",
    "no hexadecimal digits": f"{DIGEST[:-1]}g  file.pt\n",
    "unknown escape": f"\\{DIGEST}  a\\z\n",
    "end in an escape": f"\\{DIGEST}  a\\\n",
    "name with NUL": f"\\{DIGEST}  a\\x00\n",
}


@pytest.mark.parametrize("what", OTHER_LISTS)
def test_other_lists_are_unusable(what, tmp_path):
    path = tmp_path / "list"
    path.write_text(OTHER_LISTS[what])
    assert error("fingerprint", "--check", path)["type"] == "CallError"


FORMS = {
    "ends of lines of Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "capitals": lambda text: text.replace(
        tsarchive.fingerprint(VIEWS).model[5:], tsarchive.fingerprint(VIEWS).model[5:].upper()
    ).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_lists_are_read(form, listed):
    listed.write_bytes(FORMS[form](listed.read_text()))
    assert run("fingerprint", "--check", listed).exit_code == 0


# Two spaces stand between a digest and a name.
ODD_NAMES = [
    "a\nb", "a\\nb", "\\", "a\rb", "ends in \r", "  spaces  .pt  ", "escape \x1b[31m", "\udcff.pt",
    "\u200b", "\xe4 \\x41",
]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_a_file_of_any_name_is_listed_and_found(name, tmp_path):
    file = tmp_path / name
    file.write_bytes(Path(VIEWS).read_bytes())
    path = tmp_path / "sums.tsf"
    path.write_text(run("fingerprint", file).stdout)
    assert path.read_text().count("\n") == 1
    (row,) = document("fingerprint", "--check", path)["files"]
    assert row["file"] == str(file)
    assert row["same"] is True


@pytest.mark.skipif(sys.platform == "win32", reason="other systems have no such names")
@pytest.mark.parametrize("name", ["back\\slash", "new\nline"])
def test_sha256sum_writes_such_names_alike(name, tmp_path):
    file = tmp_path / name
    file.write_bytes(Path(VIEWS).read_bytes())
    found = tsarchive.fingerprint(file).model
    shown = name.replace("\\", "\\\\").replace("\n", "\\n")
    assert run("fingerprint", file).stdout == f"\\{found}  {tmp_path}/{shown}\n"


@pytest.mark.parametrize("option", ["--parts", "--tensors", "--no-weights", "--in-toto", VIEWS])
def test_beside_a_check_other_options_are_mistakes(option, listed):
    result = run("fingerprint", "--check", listed, option)
    assert result.exit_code == 2
    assert "--check takes the files that its list names" in result.stderr


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
    (subject,) = json.loads(run("fingerprint", "--in-toto", VIEWS).stdout)
    assert subject["name"] == VIEWS
    assert subject["digest"] == {
        "sha256": hashlib.sha256(Path(VIEWS).read_bytes()).hexdigest(),
        "tsf1": tsarchive.fingerprint(VIEWS).model.removeprefix("tsf1:"),
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = Path(VIEWS).read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    (subject,) = json.loads(run("fingerprint", "--in-toto", pipe).stdout)
    writer.join()
    assert subject["digest"] == {
        "sha256": hashlib.sha256(data).hexdigest(),
        "tsf1": tsarchive.fingerprint(VIEWS).model.removeprefix("tsf1:"),
    }


def test_a_file_that_changes_between_its_digests_has_none(tmp_path, monkeypatch):
    path = tmp_path / "changing.pt"
    path.write_bytes(Path(VIEWS).read_bytes())
    found = tsarchive.fingerprint(path)

    def changing(*_given, **_options):
        os.utime(path, ns=(0, 0))
        return found

    monkeypatch.setattr("tsarchive.fingerprint", changing)
    result = run("fingerprint", "--in-toto", path)
    assert result.exit_code == 2
    assert "written to while it was read" in result.stderr


@pytest.mark.parametrize("others", [(), (VIEWS,)])
def test_subjects_are_of_all_files_or_none(others, tmp_path):
    """What signs them must not take a list that lacks a file."""
    path = tmp_path / "broken.pt"
    path.write_bytes(b"broken")
    result = run("fingerprint", "--in-toto", *others, path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "broken.pt" in result.stderr


def test_no_file_is_a_mistake():
    assert run("fingerprint").exit_code == 2


def test_large_files_are_told_of_meanwhile(monkeypatch):
    """A bar is drawn on terminals alone; what is printed stays the same."""
    told: list[str] = []
    monkeypatch.setattr("tsarchive.cli.output.progress", lambda steps: nullcontext(told.append))
    assert run("fingerprint", VIEWS).stdout == f"{tsarchive.fingerprint(VIEWS).model}  {VIEWS}\n"
    names = tsarchive.fingerprint(VIEWS).tensors
    assert told == [VIEWS, *(f"{VIEWS}: {name}" for name in names)]
