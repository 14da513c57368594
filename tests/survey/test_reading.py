"""What a survey tells of one file is what the verbs tell, whatever the file is."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES
from tsarchive.container import NewRecord, write_container
from tsarchive.container.serialization_id import RECORD_NAME
from tsarchive.surveying import alike, reading
from tsarchive.surveying.listing import Listed, listed
from tsarchive.surveying.reading import Aspects, surveyed
from tsarchive.surveying.rows import FileRow, plain

SEQUENTIAL = ARCHIVES / "sequential.pt"
ALL = Aspects()
NONE = Aspects(False, False, False, False, False, False)


def rows_of(path, asked=ALL):
    (file,) = listed(os.fspath(path))
    return surveyed(file, asked)


def samples() -> list[Path]:
    """Files of all formats, sound and hostile."""
    folders = ("archives", "pt2", "executorch", "legacy", "hostile")
    suffixes = (".pt", ".pt2", ".pte", ".ptd", ".pkl")
    found = (path for name in folders for path in sorted((FIXTURES / name).iterdir()))
    return [path for path in found if path.suffix in suffixes]


@pytest.mark.parametrize("path", samples(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_row_agrees_with_the_verbs(path):
    file, findings = rows_of(path)
    assert (file.root, file.path, file.nbytes) == ("", str(path), path.stat().st_size)
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    report = tsarchive.verify(path)
    assert _said(findings, "verify") == [(f.rule, f.severity.value) for f in report.findings]
    found = tsarchive.audit(path)
    assert _said(findings, "audit") == [(f.rule, f.severity.value) for f in found.findings]
    severities = Counter(row.severity for row in findings)
    assert (file.errors, file.warnings) == (severities["error"], severities["warning"])
    assert file.notes == severities["info"]
    assert file.status in ("read", "refused", "foreign")
    _agrees_with_fingerprint(file, path)
    _agrees_with_compat(file, path)
    _agrees_with_archive(file, path)


def _said(findings, verb):
    return [(row.rule, row.severity) for row in findings if row.verb == verb]


def _agrees_with_fingerprint(file, path):
    try:
        found = tsarchive.fingerprint(path)
    except tsarchive.ArchiveError:
        assert file.model is None
        return
    parts = (found.code, found.structure, found.weights, found.extra_files, found.model)
    assert (file.code, file.structure, file.weights, file.extra_files, file.model) == parts


def _agrees_with_compat(file, path):
    try:
        rows = tsarchive.compat(path).rows
    except tsarchive.ArchiveError:
        rows = ()
    assert file.loads_on == tuple(row.torch for row in rows if row.loads)
    assert file.runs_on == tuple(row.torch for row in rows if row.runs)


def _agrees_with_archive(file, path):
    try:
        with tsarchive.open(path) as archive:
            assert (file.kind, file.records) == (archive.kind, len(archive.records))
            tensors = archive.tensors
    except (tsarchive.ArchiveError, RecursionError):
        return
    totals = tsarchive.open(path).totals
    assert (file.tensors, file.tensor_nbytes) == (len(tensors), totals.nbytes)
    assert set(file.dtypes) == {info.dtype for info in tensors.values()}


@pytest.mark.parametrize(
    ("name", "content", "status", "kind"),
    [
        ("empty.pt", b"", "foreign", None),
        ("zeros.pt", bytes(4096), "foreign", None),
        ("page.pt", b"<!DOCTYPE html><title>Sign in</title>", "foreign", None),
        ("pointer.pt", b"version https://git-lfs.github.com/spec/v1\noid", "foreign", None),
        ("cut.pt", SEQUENTIAL.read_bytes()[:3000], "refused", None),
        ("end.pt", SEQUENTIAL.read_bytes()[3000:], "refused", None),
        ("flipped.pt", None, "refused", "torchscript"),
        ("pickle.pkl", b"\x80\x04K\x01.", "read", "pickle"),
    ],
)
def test_broken_files_have_a_row(tmp_path, name, content, status, kind):
    if content is None:
        whole = bytearray(SEQUENTIAL.read_bytes())
        whole[whole.index(b"__torch__")] ^= 1  # in data.pkl, which is not compressed
        content = bytes(whole)
    (tmp_path / name).write_bytes(content)
    file, findings = rows_of(tmp_path / name)
    assert (file.status, file.kind) == (status, kind)
    assert findings or status == "read"


def test_a_file_that_cannot_be_read_has_a_row(tmp_path):
    gone = Listed("", "gone.pt", str(tmp_path / "gone.pt"), 5, "1")
    expected = FileRow("", "gone.pt", "failed", 5, "1", "No such file or directory")
    assert surveyed(gone, ALL) == (expected, ())
    folder = surveyed(Listed("", "folder", str(tmp_path)), NONE).file
    assert folder.status == "failed"
    assert folder.problem


def _meanwhile(monkeypatch, change):
    """Let this happen when a file has been verified, before other verbs look at it."""
    verify = reading.verify_source

    def verified(source):
        report = verify(source)
        change()
        return report

    monkeypatch.setattr(reading, "verify_source", verified)


def test_a_row_is_of_one_file(tmp_path, monkeypatch):
    path, other = tmp_path / "a.pt", tmp_path / "other"
    path.write_bytes(SEQUENTIAL.read_bytes())
    expected = rows_of(path)
    other.write_bytes((ARCHIVES / "views.pt").read_bytes())
    _meanwhile(monkeypatch, lambda: other.replace(path))
    assert rows_of(path) == expected


def test_a_file_that_is_written_to_meanwhile_has_failed(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    path.write_bytes(SEQUENTIAL.read_bytes())

    def write():
        os.utime(path, ns=(1, 1))

    _meanwhile(monkeypatch, write)
    row = rows_of(path).file
    assert (row.status, row.problem.partition(".")[0]) == (
        "failed",
        "the file was written to after it was opened",
    )


_OF_ASPECTS = {
    "digest": {"sha256"},
    "fingerprint": {"code", "structure", "weights", "extra_files", "model"},
    "weights": {"weights", "model"},
    "verify": set(),
    "audit": set(),
    "compat": {"loads_on", "runs_on"},
}


@pytest.mark.parametrize("aspect", _OF_ASPECTS)
def test_what_is_not_asked_for_is_not_told(aspect):
    whole = rows_of(ARCHIVES / "trace_dict.pt")
    part = rows_of(ARCHIVES / "trace_dict.pt", replace(ALL, **{aspect: False}))
    empty = plain(FileRow("", "", "read"))
    changed = {name for name, value in plain(part.file).items() if value != plain(whole.file)[name]}
    assert changed <= _OF_ASPECTS[aspect] | {"errors", "warnings", "notes"}
    assert {name: getattr(part.file, name) for name in _OF_ASPECTS[aspect]} == {
        name: empty[name] for name in _OF_ASPECTS[aspect]
    }
    assert [row for row in whole.findings if row.verb != aspect] == [*part.findings]


def test_audit_takes_what_verify_has_found():
    for path in sorted((FIXTURES / "hostile").glob("zip-*.pt"))[::8]:
        assert tsarchive.audit(path, verified=tsarchive.verify(path)) == tsarchive.audit(path)


def test_files_elsewhere_are_read_alike():
    filesystem = pytest.importorskip("fsspec").filesystem("memory")
    filesystem.pipe("/survey.pt", SEQUENTIAL.read_bytes())
    try:
        there, here = rows_of("memory://survey.pt"), rows_of(SEQUENTIAL)
    finally:
        filesystem.rm("/survey.pt")
    own = {"path": here.file.path, "version": here.file.version}
    assert replace(there.file, **own) == here.file
    assert surveyed(Listed("", "x", "memory://survey.pt"), ALL).file.status == "failed"


def test_files_that_differ_in_weights_alone_are_asked_once(monkeypatch, tmp_path):
    asked = []
    answer = alike._asked
    monkeypatch.setattr(alike, "_asked", lambda opened: asked.append(opened) or answer(opened))
    monkeypatch.setattr(alike, "_known", {})
    first = rows_of(SEQUENTIAL)
    with tsarchive.open(SEQUENTIAL) as archive:
        records = [
            NewRecord(name, _other(name, archive.read(name)))
            for name in archive.records
            if name != RECORD_NAME
        ]
    write_container(str(tmp_path / "other.pt"), records)
    second = rows_of(tmp_path / "other.pt")
    assert first.file.loads_on == second.file.loads_on
    assert first.file.weights != second.file.weights
    assert len(asked) == 1
    rows_of(ARCHIVES / "views.pt")
    assert len(asked) == 2


def _other(name, data):
    return bytes(byte ^ 1 for byte in data) if name.startswith("data/") else data


def test_rows_are_bounded(monkeypatch):
    monkeypatch.setattr(reading, "_MOST_NAMES", 2)
    monkeypatch.setattr(reading, "_LONGEST", 10)
    file, findings = rows_of(ARCHIVES / "container_attributes.pt")
    assert len(file.operators) == 2
    assert max(map(len, file.operators)) == 13
    assert all(len(row.message) <= 13 for row in findings)
