"""Several files and folders: each is told as it is alone, and none keeps the others from it."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, ROOT
from tests.support.command_line import document, documented_keys, error, run

GOOD = ("a.pt", "b.pt", "deep/c.pte")
# What each command is called with, and what it comes to for a file that is cut short.
COMMANDS = {
    "info": ((), "not read"),
    "tree": (("--depth", "1"), "not read"),
    "tensors": (("--sort", "size"), "not read"),
    "verify": ((), "with findings"),
    "audit": (("--no-weights",), "with findings"),
    "fingerprint": (("--parts",), "not read"),
}
every_command = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three models, one of them deeper, and files that are none."""
    (tmp_path / "models/deep").mkdir(parents=True)
    sources = (
        ARCHIVES / "sequential.pt",
        ARCHIVES / "buffers.pt",
        ROOT / "fixtures/executorch/linear.pte",
    )
    for name, source in zip(GOOD, sources, strict=True):
        shutil.copy(source, tmp_path / "models" / name)
    (tmp_path / "models/README.md").write_text("models")
    (tmp_path / "models/.hidden.pt").write_text("nothing")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "models"


def cut_short(folder):
    (folder / "cut.pt").write_bytes((folder / "a.pt").read_bytes()[:3000])


@every_command
def test_text_of_a_folder_is_that_of_its_files(name, folder):
    options, _ = COMMANDS[name]
    alone = [run(name, f"models/{file}", *options).stdout for file in GOOD]
    together = run(name, "models", *options)
    left = together.stdout
    for text in alone:  # in order, with no more than names and empty lines between them
        before, found, left = left.partition(text)
        assert found
        assert before.strip() in ("", *(f"models/{file}" for file in GOOD))
    assert left == ""
    assert together.stderr == "3 files: 3 fine, 0 with findings, 0 not read\n"
    assert together.exit_code == 0


@every_command
def test_named_files_and_a_folder_are_the_same(name, folder):
    options, _ = COMMANDS[name]
    named = run(name, *(f"models/{file}" for file in GOOD), *options)
    assert (named.stdout, named.stderr) == (
        run(name, "models/", *options).stdout.replace("models//", "models/"),
        "3 files: 3 fine, 0 with findings, 0 not read\n",
    )


@every_command
def test_lines_are_the_documents_of_files(name, folder):
    options, _ = COMMANDS[name]
    lines = [
        json.loads(line) for line in run(name, "models", *options, "--jsonl").stdout.splitlines()
    ]
    alone = [json.loads(run(name, f"models/{f}", *options, "--json").stdout) for f in GOOD]
    assert lines == alone


@every_command
def test_one_document_has_all_files(name, folder):
    options, _ = COMMANDS[name]
    found = document(name, "models", *options)
    alone = [json.loads(run(name, f"models/{f}", *options, "--json").stdout) for f in GOOD]
    if name == "fingerprint":
        assert found == {"files": [each["files"][0] for each in alone]}
    else:
        assert found == {"files": alone, "skipped": []}


@every_command
def test_a_damaged_file_does_not_stop_the_others(name, folder):
    cut_short(folder)
    options, outcome = COMMANDS[name]
    code = {"not read": 2, "with findings": 1}[outcome]
    done = run(name, "models", *options)
    assert done.exit_code == code
    assert done.stderr.splitlines()[-1].startswith("4 files: 3 fine, ")
    assert f"1 {outcome}" in done.stderr
    lines = run(name, "models", *options, "--jsonl")
    assert lines.exit_code == code
    documents = [json.loads(line) for line in lines.stdout.splitlines()]
    assert len(documents) == 4
    assert all(
        each.keys() - {"schema", "version"} <= documented_keys()[each["schema"]]
        for each in documents
    )
    assert document(name, "models", *options, code=code)["files"]


@every_command
def test_a_file_that_is_missing_is_an_error_among_others(name, folder):
    options, _ = COMMANDS[name]
    done = run(name, "none.pt", "models", *options)
    assert done.exit_code == 2
    assert "error: none.pt: No such file" in done.stderr
    assert done.stderr.endswith("4 files: 3 fine, 0 with findings, 1 not read\n")


@pytest.mark.parametrize("name", ["info", "tree", "tensors", "fingerprint"])
def test_files_of_folders_that_are_no_archives_are_skipped(name, folder):
    (folder / "optimizer.bin").write_text("no archive")
    done = run(name, "models")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "models/optimizer.bin: skipped: not a zip archive: there is no end record",
        "3 files: 3 fine, 0 with findings, 0 not read; 1 skipped",
    ]
    assert run(name, "models/optimizer.bin").exit_code == 2
    assert run(name, "models/optimizer.bin", "models/a.pt").exit_code == 2


MISTAKES = {
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n",
    "page": b"<!DOCTYPE html><html></html>",
    "empty": b"",
}


@pytest.mark.parametrize("name", [*COMMANDS, "jitter"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_called_a_model_and_is_none_is_not_passed_over(name, mistake, folder):
    (folder / "mistake.pt").write_bytes(MISTAKES[mistake])
    done = run(name, "models")
    assert done.exit_code == {"verify": 1, "audit": 1}.get(name, 2)
    assert "mistake.pt" in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["tree", "tensors"])
def test_checkpoints_of_folders_are_skipped(name, folder):
    torch.save({"weight": torch.ones(2)}, folder / "checkpoint.pt")
    done = run(name, "models", "--jsonl")
    assert done.exit_code == 0
    assert "models/checkpoint.pt: skipped: a torch.save checkpoint\n" in done.stderr
    assert len(done.stdout.splitlines()) == 3
    assert run(name, "models/checkpoint.pt").exit_code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_pipes_and_links_of_folders_are_not_waited_for(folder):
    os.mkfifo(folder / "pipe.pt")
    (folder / "again").symlink_to(folder)
    (folder / "gone.pt").symlink_to(folder / "none.pt")
    done = run("verify", "models", "--jsonl")
    files = [json.loads(line).get("file") for line in done.stdout.splitlines()]
    assert [file for file in files if file] == [f"models/{file}" for file in GOOD]


@every_command
def test_an_empty_folder_is_an_error(name, tmp_path):
    assert "no file below is named like a model" in error(name, tmp_path)["message"]


@every_command
def test_a_folder_of_no_archives_is_unusable(name, tmp_path):
    (tmp_path / "optimizer.bin").write_text("no archive")
    done = run(name, tmp_path)
    assert done.exit_code == {"verify": 1, "audit": 1}.get(name, 2)


@every_command
def test_two_forms_are_refused(name, folder):
    done = run(name, "models", "--json", "--jsonl")
    assert done.exit_code == 2
    assert "two forms" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "call",
    [
        ("tensors", "models", "--salvage", "rest.safetensors"),
        ("tensors", "models/a.pt", "models/b.pt", "--salvage", "rest.safetensors"),
        ("audit", "models", "--sarif"),
    ],
)
def test_what_concerns_one_file_is_refused_for_several(call, folder):
    done = run(*call)
    assert (done.exit_code, done.stdout) == (2, "")


def test_a_list_of_a_folder_is_checked_as_it_is(folder):
    done = run("fingerprint", "models")
    (folder.parent / "models.tsf").write_text(done.stdout)
    assert run("fingerprint", "--check", "models.tsf").exit_code == 0


def test_jitter_takes_folders(folder):
    shown = run("jitter", "models")
    assert shown.exit_code == 0
    assert shown.stdout == run("jitter", "--all", "models").stdout
    assert document("jitter", "models") == document("jitter", "--all", "models")


def test_a_defect_does_not_stop_the_others(folder, monkeypatch):
    real = tsarchive.audit

    def audit(file, **options):
        return 1 / 0 if file.endswith("b.pt") else real(file, **options)

    monkeypatch.setattr(tsarchive, "audit", audit)
    done = run("audit", "models")
    assert done.exit_code == 3
    assert "error: models/b.pt: unexpected ZeroDivisionError" in done.stderr
    assert done.stderr.endswith("3 files: 2 fine, 0 with findings, 1 not read\n")


def test_a_file_that_is_gone_by_now_is_no_reason_to_end(folder, monkeypatch):
    """It vanishes when it is looked at: what that says of it stands."""

    def read(file, **_):
        os.remove("models/b.pt")
        raise tsarchive.FormatError("half of it is gone")

    monkeypatch.setattr(tsarchive, "open", read)
    done = run("tree", "models/", "models/none.pt")
    assert done.exit_code == 2
    assert done.stderr.endswith("4 files: 0 fine, 0 with findings, 4 not read\n")
