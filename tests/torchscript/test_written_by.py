"""Which torch wrote an archive: right wherever it is known, and wherever it is saved again."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import tsarchive
from fixtures import torch_sources
from tests.support.archives import CORPUS, FIXTURES, TORCH, torch_saved
from tests.support.command_line import SEQUENTIAL, document, run
from tests.support.releases import known_archives
from tsarchive.describing.written import (
    Reason,
    WrittenBy,
    all_releases,
    as_told,
    common,
    since,
    surely_differ,
    until,
    written_lines,
)
from tsarchive.operators.torch_sources import Line, releases_with
from tsarchive.pickler import dumps

KNOWN = sorted(known_archives(), key=lambda known: str(known[1]))
OLD = FIXTURES / "old"
OWN = ".".join(map(str, TORCH))


def written_by(source):
    if isinstance(source, io.BytesIO):
        source.seek(0)
    with tsarchive.open(source) as archive:
        return archive.written_by


def covers(found, release):
    releases = all_releases()
    first, last = map(releases.index, (found.first, found.last))
    return first <= releases.index(release) <= last


@pytest.mark.parametrize(
    ("release", "path"), KNOWN, ids=[f"{path.parent.name}-{path.name}" for _, path in KNOWN]
)
@pytest.mark.sample(24)
def test_the_known_release_is_in_the_range(release, path):
    found = written_by(path)
    assert covers(found, release)
    assert not found.is_between
    assert found.writer == "torch"


# The narrowest range that the archives of a release allow, for releases of different marks.
@pytest.mark.parametrize(
    ("path", "first", "last", "mark"),
    [
        ("legacy/arithmetic-1.0.1.pt", "1.0", "1.0", "no attributes.pkl"),
        ("legacy/points-1.2.0.pt", "1.2", "1.2", "debug records in debug/"),
        ("removed/1.3.pt", "1.3", "1.3", "members with a time"),
        ("old/1.4.0/functions.pt", "1.4", "1.4", "op_version_set in code"),
        ("old/1.5.1/functions.pt", "1.5", "1.5", "format version 2"),
        ("old/1.8.1/phone_packing.pt", "1.6", "1.8", "debug rows without tags"),
        ("old/1.10.0/full.pt", "1.9", "1.11", "debug rows with their text"),
        ("old/1.10.0/mobile.ptl", "1.10", "1.11", "bytecode version 7 or later"),
        ("old/1.12.0/full.pt", "1.12", "2.0", "debug rows with a table of texts"),
        ("pt2_old/2.1.2/several.pt2", "2.1", "2.1", "it names torch 2.1"),
    ],
)
@pytest.mark.whole
def test_marks_of_releases(path, first, last, mark):
    found = written_by(FIXTURES / path)
    assert (found.first, found.last) == (first, last)
    assert mark in [reason.mark for reason in found.reasons]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3, bias=False)

    def forward(self, x):
        return functional.relu(self.second(functional.gelu(self.first(x))))


class Plain(nn.Module):
    def forward(self, x):
        return x * 2 + 1


def traced(module):
    return torch.jit.trace(module, torch.ones(1, 1, 7, 7))


@pytest.mark.parametrize("make", [torch.jit.script, traced])
@pytest.mark.whole
def test_first_save_tells_its_own_torch(make):
    found = written_by(io.BytesIO(torch_saved(make(Net().eval()))))
    assert covers(found, OWN)
    assert (found.compiled_first, found.compiled_last) == (found.first, found.last)
    assert found.first not in ("2.1", "2.2")  # not only what the records tell


def test_code_without_lines_of_torch_is_known_by_its_records():
    found = written_by(io.BytesIO(torch_saved(torch.jit.script(Plain()))))
    assert (found.first, found.last) == ("2.1", all_releases()[-1])
    assert found.compiled_first is None


RESAVED = [
    OLD / "1.8.1" / "phone_packing.pt",
    OLD / "1.10.0" / "tables.pt",
    OLD / "1.12.0" / "quantized_conv.pt",
    OLD / "1.13.0" / "frozen.pt",
    OLD / "1.13.1" / "phone_convolutions.pt",
]


@pytest.mark.parametrize("path", RESAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.whole
def test_the_writer_is_the_last_one(path):
    """torch keeps lines of the first compilation, which must not be taken for those of the writer.

    Layers packed for phones are no more in torch: those archives stay what they are.
    """
    try:
        module = torch.jit.load(str(path))
    except RuntimeError:
        found = written_by(path)
        assert covers(found, ".".join(path.parent.name.split(".")[:2]))
        return
    found = written_by(io.BytesIO(torch_saved(module)))
    assert covers(found, OWN)
    before = written_by(path)
    assert (found.compiled_first, found.compiled_last) == (
        before.compiled_first, before.compiled_last
    )  # fmt: skip


def test_saved_again_twice_is_never_a_first_save():
    data = torch_saved(torch.jit.script(Net()))
    for _ in range(2):
        data = torch_saved(torch.jit.load(io.BytesIO(data)))
        found = written_by(io.BytesIO(data))
        assert (found.first, found.last) == ("2.1", all_releases()[-1])
        assert found.compiled_first is not None


def repacked(path, **options):
    """The archive as Python's zipfile packs it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(path) as read, zipfile.ZipFile(stream, "w", **options) as written:
        for name in read.namelist():
            written.writestr(name, read.read(name))
    return stream


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.whole
def test_another_program_packed_it(method):
    path = OLD / "1.10.0" / "full.pt"
    found = written_by(repacked(path, compression=method))
    assert found.writer == "another program"
    assert covers(found, "1.10")
    assert "members with a time" not in [reason.mark for reason in found.reasons]


def test_canonical_text_that_tsarchive_deflated():
    stream = io.BytesIO()
    tsarchive.save(torch.jit.script(Net()), stream)
    found = written_by(stream)
    assert found.writer == "tsarchive"
    assert covers(found, OWN)
    assert ("", "packed by tsarchive") in [*written_lines(found)]


def changed(path, names):
    """The archive without records of these names, or with other data in them."""
    stream = io.BytesIO()
    records = []
    with tsarchive.open(path) as archive:
        for name in archive.records:
            if names.get(name, b"") is not None:
                records.append((name, names.get(name) or archive.read(name)))
    from tsarchive.container import NewRecord, write_container

    write_container(
        stream, [NewRecord(*row) for row in records if "serialization_id" not in row[0]]
    )
    return stream


def test_contradictory_marks_are_told():
    found = written_by(changed(SEQUENTIAL, {"version": b"1\n"}))
    assert (found.first, found.last, found.is_between) == (None, None, False)
    lines = [*written_lines(found)]
    assert lines[0][1].startswith("no torch that is known")
    assert ("", "format version 1: 1.3 to 1.4") in lines
    assert ("", "a byteorder: since 2.1") in lines


def test_build_between_two_releases():
    found = written_by(changed(SEQUENTIAL, {"byteorder": None}))
    assert (found.first, found.last, found.is_between) == ("2.0", "2.1", True)
    assert next(written_lines(found)) == ("written by", "a build of torch between 2.0 and 2.1")


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([], ("1.0", all_releases()[-1], False)),
        ([since("a", "2.1")], ("2.1", all_releases()[-1], False)),
        ([since("a", "1.9"), until("b", "2.2")], ("1.9", "2.2", False)),
        ([Reason("a", "1.4", "1.9"), Reason("b", "1.9", "2.0")], ("1.9", "1.9", False)),
        ([since("a", "1.10"), until("b", "1.9")], ("1.9", "1.10", True)),
        ([since("a", "1.11"), until("b", "1.9")], None),
    ],
)
@pytest.mark.whole
def test_what_marks_have_in_common(reasons, expected):
    assert common(reasons) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.9.1+cpu", ("2.9", "2.9")),
        ("2.13.0", ("2.13", "2.13")),
        ("<=2.4", ("2.1", "2.4")),
        ("9.9.0", None),
        ("", None),
        ("a text", None),
    ],
)
@pytest.mark.whole
def test_version_that_a_program_names(version, expected):
    found = as_told(version)
    assert (found and (found.first, found.last)) == expected


def test_lines_of_this_torch_are_in_the_table():
    """The table is read from the sources that this torch has."""
    code = nn.Conv2d._conv_forward.__code__
    start = Line("nn/modules/conv.py", "_conv_forward", code.co_firstlineno, is_first=True)
    assert OWN in releases_with(start)
    last = max(line for *_, line in code.co_lines() if line)
    call = start._replace(number=last, is_first=False)
    assert OWN in releases_with(call)
    assert not releases_with(start._replace(number=10**9))
    assert not releases_with(start._replace(file="nn/modules/none.py"))
    assert not releases_with(start._replace(function="*"))


def test_the_table_of_sources_is_that_of_this_torch():
    """What ``fixtures/torch_sources.py`` reads here is in the table, for every function."""
    rows = torch_sources.rows_of(torch_sources.TABLE.read_text())
    read = [*torch_sources.places_in(Path(torch.__file__).parents[1])]
    assert len(read) > 250
    for file, function, place in read:
        assert place in rows[file, function][OWN], (file, function)
    assert torch_sources.text_of(rows) == torch_sources.TABLE.read_text()


def test_json_and_lines_of_info():
    facts = document("info", SEQUENTIAL)["written_by"]
    assert facts.keys() == {
        "first", "last", "reasons", "writer", "is_between", "compiled_first", "compiled_last",
    }  # fmt: skip
    assert (facts["first"], facts["last"]) == ("2.13", "2.13")
    assert {"mark": "a byteorder", "first": "2.1", "last": all_releases()[-1]} in facts["reasons"]
    rows = run("info", SEQUENTIAL).stdout.splitlines()
    assert "written by        torch 2.13" in rows
    assert "compiled by       torch 2.13" in rows
    old = run("info", OLD / "1.4.0" / "functions.pt").stdout.splitlines()
    assert "written by        torch 1.4" in old


def test_files_without_marks_have_no_answer():
    assert written_by(FIXTURES / "executorch" / "add.pte") is None
    stream = io.BytesIO()
    torch.save({"a": 1}, stream)
    assert written_by(stream) is None


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.long("test_the_known_release_is_in_the_range")
def test_every_archive_of_the_corpus_has_an_answer():
    """Builds between releases are told as such, and nothing there contradicts itself."""
    found = {}
    for path in sorted((CORPUS / "torchscript").iterdir()):
        try:
            with tsarchive.open(path) as archive:
                if path.stat().st_size < 1 << 19 and "torchscript" in archive.kind:
                    found[path.name] = archive.written_by
        except tsarchive.ArchiveError:
            continue
    assert len(found) > 40
    assert all(one.first is not None for one in found.values())
    between = {one.first for one in found.values() if one.is_between}
    assert between <= {"1.5", "2.0"}


def damaged(path: Path) -> io.BytesIO:
    """The archive with debug records and bytecode that do not parse."""
    with tsarchive.open(path) as archive:
        names = [n for n in archive.records if n.endswith(".debug_pkl") or n == "bytecode.pkl"]
    return changed(path, {name: b"\x80\x02(" for name in names})


@pytest.mark.parametrize(
    ("text", "filename"),
    [
        ("torch/" * 8000, "a.py"),
        ("\n" * 48_000, "torch/nn/functional.py"),
        ("torch/nn/functional.py(" + "9" * 40_000 + "): relu", "a.py"),
        ("def relu(", "torch/" * 8000 + "functional.py"),
        ("torch/nn/functional.py(1): " + "relu" * 9000, "a.py"),
    ],
    ids=["folders", "lines", "digits", "path", "name"],
)
@pytest.mark.whole
def test_texts_made_to_take_long_tell_nothing(text, filename):
    rows = ((0, ((text, filename, 1), 0, 1), 0),)
    record = "code/__torch__/fixtures/modules/containers.py.debug_pkl"
    found = written_by(changed(SEQUENTIAL, {record: dumps(rows)}))
    assert found.compiled_first is not None  # by other records


def test_damage_leaves_no_mark():
    path = OLD / "1.10.0" / "mobile.ptl"
    found = written_by(damaged(path))
    marks = json.dumps([reason.mark for reason in found.reasons])
    assert "debug" not in marks
    assert "bytecode" not in marks
    assert found.compiled_first is None


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (("2.13", "2.13"), ("2.1", "2.13"), False),
        (("2.1", "2.3"), ("2.3", "2.5"), False),
        (("2.1", "2.3"), ("2.4", "2.5"), True),
        (("2.3", "2.4", True), ("2.3", "2.3"), True),
        (("2.3", "2.4", True), ("2.3", "2.4"), False),
        ((None, None), ("2.3", "2.3"), False),
    ],
)
def test_writers_differ_where_no_release_is_of_both(own, other, expected):
    def written(first, last, is_between=False):
        return WrittenBy(first, last, (), is_between=is_between)

    assert surely_differ(written(*own), written(*other)) is expected


def test_a_mark_of_one_release_says_so():
    assert str(Reason("it names torch 2.3.0+cpu", "2.3", "2.3")) == "it names torch 2.3.0+cpu"
    assert str(Reason("a mark", "2.3", "2.3")) == "a mark: only 2.3"
