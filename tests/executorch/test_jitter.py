"""``check_jitter`` and ``tsarchive jitter`` on files of ExecuTorch."""

from __future__ import annotations

import io
import shutil

import pytest

import tsarchive
from fixtures.executorch_samples import FILES
from tests.support.command_line import document, process, run
from tests.support.executorch_files import CORPUS_KINDS, FIXTURES, opened, sound_files
from tsarchive import GraphReport, ReadComparison
from tsarchive.errors import UnsupportedError
from tsarchive.executorch import Draft
from tsarchive.formats.executorch.encoding import Order


def anew(name):
    """A fixture as a writer lays it out that is known."""
    with opened(FILES[name]()) as archive:
        data = Draft(archive).pieces(anew=True).join()
    return data


@pytest.mark.parametrize("name", FILES)
def test_files_of_an_unknown_writer_change_once_when_they_are_encoded(name):
    found = tsarchive.check_jitter(FIXTURES / name)
    assert (found.stable, found.kind) == (True, name.rpartition(".")[2])
    assert found.nbytes == len(FILES[name]())
    assert found.as_read == ReadComparison(True, ())
    assert found.graph.stable
    (change,) = found.graph.code
    with tsarchive.open(FIXTURES / name) as archive:
        data = archive.read(change.record)
    assert data[change.offset : change.offset + 32].startswith(change.first[:4])
    assert change.first != change.second


@pytest.mark.parametrize("name", FILES)
def test_files_of_known_writers_do_not_change(name):
    found = tsarchive.check_jitter(io.BytesIO(anew(name)))
    assert found.stable
    assert found.graph == GraphReport()


@pytest.mark.parametrize("kind", CORPUS_KINDS)
def test_the_corpus_does_not_change(corpus, kind):
    for path in sound_files(corpus, kind):
        found = tsarchive.check_jitter(path)
        assert found.stable, path.name
        assert found.graph == GraphReport(), path.name


def test_an_order_that_changes_is_jitter(monkeypatch):
    """Every second time in another order: what a set would do to tables."""
    orders = iter([Order.PYTHON, Order.FLATC] * 10)
    from tsarchive.formats.executorch import program_draft
    from tsarchive.formats.executorch.encoding import encode

    monkeypatch.setattr(
        program_draft,
        "encode",
        lambda schema, values, _, alignments: encode(schema, values, next(orders), alignments),
    )
    found = tsarchive.check_jitter(FIXTURES / "linear.pte")
    assert found.graph.records
    assert not found.graph.stable
    lines = run("jitter", FIXTURES / "linear.pte")
    assert lines.exit_code == 1
    assert "its tables are encoded otherwise each time" in lines.stdout


def test_a_copy_that_differs_is_jitter(monkeypatch):
    real = Draft.pieces

    def other(draft, *, anew=False):
        if anew:
            return real(draft, anew=True)
        draft.strip()
        return real(draft)

    monkeypatch.setattr(Draft, "pieces", other)
    found = tsarchive.check_jitter(FIXTURES / "state.pte")
    assert not found.stable
    assert not found.as_read.same_file


def test_what_cannot_be_encoded_is_told(monkeypatch):
    def refuse(_table):
        raise UnsupportedError("Program has a field of a later version", record="program")

    monkeypatch.setattr("tsarchive.formats.executorch.program_draft.table_values", refuse)
    found = tsarchive.check_jitter(FIXTURES / "linear.pte")
    assert found.stable
    (unread,) = found.graph.unprinted
    assert (unread.record, unread.reason) == ("program", "Program has a field of a later version")
    shown = run("jitter", FIXTURES / "linear.pte").stdout.splitlines()
    assert shown[-1] == (
        "  tables: program is not compared: Program has a field of a later version"
    )


def test_there_is_no_canonical_form():
    with pytest.raises(UnsupportedError, match="no canonical form"):
        tsarchive.check_jitter(FIXTURES / "linear.pte", canonical=True)


def test_lines(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(anew("linear.pte"))
    assert run("jitter", path).stdout.splitlines() == [
        f"{path}: stable, {path.stat().st_size} bytes",
        "  saved: the file that was read, byte for byte",
        "  tables: the tables as read",
    ]
    shown = run("jitter", FIXTURES / "inline.pte").stdout.splitlines()
    assert shown[-1] == "  tables: encode program in another form, then always the same"


def test_files_below_a_folder(tmp_path):
    for name in ("linear.pte", "data.ptd", "linear.bpte"):
        shutil.copy(FIXTURES / name, tmp_path)
    (tmp_path / "cut.pte").write_bytes(FILES["linear.pte"]()[:40])
    (tmp_path / "other.txt").write_text("nothing")
    found = document("jitter", "--all", tmp_path, code=2)
    files = {each["file"].rpartition("/")[2]: "error" in each for each in found["files"]}
    assert files == {"cut.pte": True, "data.ptd": False, "linear.bpte": False, "linear.pte": False}
    (skipped,) = found["skipped"]
    assert skipped["file"].endswith("other.txt")
    assert skipped["reason"].startswith("not a zip archive")


def test_damaged_files_are_told():
    bad = FILES["linear.pte"]().replace(b"eh00", b"eh01")
    with pytest.raises(UnsupportedError, match="eh01"):
        tsarchive.check_jitter(io.BytesIO(bad))


def test_a_file_that_is_cut_is_an_error(tmp_path):
    path = tmp_path / "cut.pte"
    path.write_bytes(FILES["linear.pte"]()[:100])
    assert "would end" in str(document("jitter", path, code=2)["files"][0]["error"]["message"])


PROBE = """
import sys, tsarchive
assert tsarchive.check_jitter(sys.argv[1]).stable
print("torch" in sys.modules)
"""


def test_torch_is_not_imported(tmp_path):
    done = process("-c", PROBE, FIXTURES / "linear.bpte", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
