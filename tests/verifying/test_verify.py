"""Sound archives verify as sound: all that torch writes, however it is packed again."""

from __future__ import annotations

import csv
import io
import subprocess
import sys

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, CORPUS, ROOT, case_archive
from tests.support.legacy_archives import FIXTURES as LEGACY
from tests.support.verifying import (
    METHODS,
    SEQUENTIAL,
    changed,
    packed,
    packed_as_deflate64,
    records,
    verified,
    zipped,
)
from tsarchive import Nature, Severity
from tsarchive.findings import MAX_PER_RULE, Findings
from tsarchive.verifying import STEPS

OWN = [
    path
    for folder in ("archives", "old")
    for path in sorted((ROOT / "fixtures" / folder).glob("*.pt"))
    if not path.name.endswith(".io.pt")
]
FINE = ("sound", "unusual")


def loadable(corpus):
    """The archives that torch 2.13 loads, and those of before torch 1.3, which only we load."""
    with (corpus / "INDEX.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if (row["kind"] == "torchscript" and row["torch2.13_jit_load"] == "ok") or row[
                "kind"
            ] == "torchscript-legacy-json":
                yield row["path"]


REAL = list(loadable(CORPUS)) if CORPUS.is_dir() else []


@pytest.mark.sample(5)
@pytest.mark.parametrize("path", REAL)
def test_real_archives_have_no_finding_above_a_note(path):
    report = tsarchive.verify(CORPUS / path)
    assert report.findings == () or report.ok, report.findings
    assert report.verdict in FINE
    assert report.kind in ("torchscript", "torchscript-legacy")


def test_the_corpus_has_what_is_counted_on(corpus):
    assert len(REAL) > 160


@pytest.mark.parametrize(
    "path", [*OWN, *LEGACY], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_fixtures_are_sound(path):
    report = tsarchive.verify(path)
    assert report.ok, report.findings
    assert report.verdict in FINE
    assert report.code_records
    assert report.nbytes == path.stat().st_size


def test_every_case_that_torch_saves(case):
    report = verified(case_archive(case))
    assert report.ok, report.findings


def test_what_is_counted():
    report = tsarchive.verify(SEQUENTIAL)
    with tsarchive.open(SEQUENTIAL) as archive:
        assert (report.kind, report.format_version) == (archive.kind, archive.format_version)
        assert report.records == len(archive.records)
        assert report.tensors == archive.totals
        assert report.code_records == len(archive.code)
    assert report.nbytes == SEQUENTIAL.stat().st_size
    assert (report.verdict, report.findings) == ("sound", ())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("root", ["m", "other folder", ""], ids=["root", "other root", "no root"])
@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
def test_archives_that_were_packed_again(method, root, backwards):
    members = records()
    if backwards:
        members = dict(reversed(members.items()))
    report = verified(zipped(members, root, METHODS[method]))
    assert report.ok, report.findings
    assert report.verdict in FINE
    assert report.records == len(members)


def test_deflate64():
    pytest.importorskip("zipfile_deflate64")
    report = verified(packed_as_deflate64(records()))
    assert report.ok, report.findings
    assert report.verdict in FINE


@pytest.mark.parametrize("before", [b"", b"something else"], ids=["start", "middle"])
def test_a_file_object_gives_a_file_from_its_position_on(before):
    file = io.BytesIO(before + SEQUENTIAL.read_bytes())
    file.seek(len(before))
    assert tsarchive.verify(file).verdict == "sound"


def test_an_open_file_and_a_path_give_the_same_report():
    with SEQUENTIAL.open("rb") as file:
        assert tsarchive.verify(file) == tsarchive.verify(str(SEQUENTIAL))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        tsarchive.verify(tmp_path / "none.pt")
    with pytest.raises(IsADirectoryError):
        tsarchive.verify(tmp_path)


@pytest.mark.parametrize("wrong", [None, 3, io.StringIO("text")], ids=["none", "int", "text"])
def test_what_is_no_file(wrong):
    with pytest.raises(tsarchive.CallError):
        tsarchive.verify(wrong)


@pytest.mark.parametrize("path", [SEQUENTIAL, LEGACY[0]], ids=["today", "legacy"])
def test_steps_are_told(path):
    told: list[str] = []
    tsarchive.verify(path, step=told.append)
    parts = [step for step in told if step in STEPS]
    assert sorted(parts) == sorted(STEPS)
    records = [step for step in told if step not in STEPS]
    assert all(step.startswith("container: ") for step in records)
    shares = [step.share for step in records]
    assert shares == sorted(shares)
    assert shares[-1:] == [1]


def test_extra_files_and_recorded_inputs_are_notes():
    report = verified(changed(**{"extra/notes.txt": b"hello"}))
    (finding,) = report.findings
    assert (finding.rule, finding.record) == ("record-extra", "extra/notes.txt")
    assert (report.verdict, report.ok) == ("sound", True)


def test_code_without_a_debug_record_is_a_note():
    name = next(name for name in records() if name.endswith(".debug_pkl"))
    report = verified(changed(without=[name]))
    (finding,) = report.findings
    assert (finding.rule, finding.record) == ("record-no-debug", name.removesuffix(".debug_pkl"))
    assert (report.verdict, report.ok) == ("sound", True)


_PROBE = """
import sys
import tsarchive
for path in sys.argv[1:]:
    assert tsarchive.verify(path).verdict == "sound"
assert not {"torch", "numpy", "pickle", "click", "rich"} & set(sys.modules), sys.modules.keys()
"""


def test_nothing_heavy_is_imported(tmp_path):
    paths = [str(SEQUENTIAL), str(LEGACY[0])]
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *paths], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_findings_are_in_the_order_of_severity_and_place():
    code = next(name for name in records() if name.endswith(".py"))
    data = changed(
        without=["constants.pkl"],
        **{"extra/a": b"", "other": b"", code: b"x", "constants.pkl": b"\x80\x02N"},
    )
    found = [finding.severity for finding in verified(data).findings]
    assert found == sorted(found, reverse=True)
    assert {Severity.ERROR, Severity.WARNING, Severity.INFO} == set(found)


def test_a_rule_that_is_broken_very_often_is_counted():
    surplus = 50
    names = {f"extra/{number}": b"" for number in range(MAX_PER_RULE + surplus)}
    found = [f for f in verified(changed(**names)).findings if f.rule == "record-extra"]
    assert len(found) == MAX_PER_RULE + 1
    assert any(finding.message.startswith(f"and {surplus} more") for finding in found)


def test_the_worst_of_too_many_findings_is_kept():
    findings = Findings()
    note = tsarchive.Finding("a-b", Severity.INFO, Nature.UNUSUAL, "")
    many = [tsarchive.Finding("a-b", Severity.INFO, Nature.UNUSUAL, str(n)) for n in range(300)]
    worst = tsarchive.Finding("a-b", Severity.ERROR, Nature.HOSTILE, "worst")
    findings.add([note, note, *many, worst, *many])
    assert findings.ordered()[0].nature is Nature.HOSTILE
    assert len(findings.ordered()) == MAX_PER_RULE + 1


def test_archives_are_packed_here_as_torch_packs_them():
    assert verified(packed(records())).findings == ()
    assert ARCHIVES.is_dir()


@pytest.mark.parametrize("name", [".DS_Store", "code/.DS_Store", "._data.pkl", "Thumbs.db"])
def test_what_file_managers_leave_is_a_note(name):
    report = verified(changed(**{name: b"\0"}))
    assert report.ok
    assert report.verdict == "unusual"
    assert not verified(changed(**{"DS_Store": b"\0"})).ok
