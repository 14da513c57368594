"""Extra files: ``archive.extra_files``, and ``load(extra_files=...)`` beside torch.jit.load."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.archives import FIXTURES
from tsarchive.errors import CallError

FILES = {"meta.json": b'{"a": 1}', "binary": b"\xff\0", "notes/one.txt": "ü".encode(), "empty": b""}
WANTED = [
    {"meta.json": ""},
    {"meta.json": b"of before", "binary": ""},
    {"nowhere": "default"},
    {"meta.json": None, "nowhere": 5},
    {"META.json": ""},
    {"notes/one.txt": "", "empty": "x"},
    {"extra/meta.json": ""},
    {"../version": ""},
    {"": ""},
]


@pytest.fixture(scope="module")
def archive():
    written = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), written, _extra_files=FILES)
    return written.getvalue()


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_a_dict_is_filled_as_torch_fills_it(archive, wanted):
    theirs, ours = dict(wanted), dict(wanted)
    torch.jit.load(io.BytesIO(archive), _extra_files=theirs)
    tsarchive.load(io.BytesIO(archive), extra_files=ours)
    assert ours == theirs
    assert all(type(value) is bytes for value in ours.values())


def test_an_empty_dict_gets_all_files(archive):
    found: dict[str, bytes] = {}
    tsarchive.load(io.BytesIO(archive), extra_files=found)
    assert found == FILES


def test_names_are_strings(archive):
    with pytest.raises(CallError, match="strings, not int"):
        tsarchive.load(io.BytesIO(archive), extra_files={1: ""})


def test_an_archive_maps_names_to_bytes(archive):
    with tsarchive.open(io.BytesIO(archive)) as opened:
        assert dict(opened.extra_files) == FILES
        assert opened.extra_files["binary"] == FILES["binary"]
        assert "nowhere" not in opened.extra_files
        with pytest.raises(KeyError):
            opened.extra_files["nowhere"]


def test_files_are_read_when_they_are_looked_at(archive):
    damaged = bytearray(archive)
    damaged[archive.index(FILES["meta.json"])] ^= 1
    with tsarchive.open(io.BytesIO(damaged)) as opened:
        assert opened.extra_files["binary"] == FILES["binary"]
        with pytest.raises(tsarchive.FormatError, match="CRC"):
            opened.extra_files["meta.json"]


def test_pt2_archives_have_extra_files_too():
    written = io.BytesIO()
    program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    torch.export.save(program, written, extra_files={"a": "1"})
    found: dict[str, bytes] = {}
    tsarchive.load(io.BytesIO(written.getvalue()), extra_files=found)
    assert found == {"a": b"1"}
    with tsarchive.open(io.BytesIO(written.getvalue())) as opened:
        assert dict(opened.extra_files) == found


def test_other_files_have_none():
    with tsarchive.open(FIXTURES / "executorch" / "add.pte") as opened:
        assert dict(opened.extra_files) == {}


def test_extra_files_are_asked_for_with_a_dict(tmp_path):
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), path)
    with pytest.raises(tsarchive.CallError, match="is a dict"):
        tsarchive.load(path, extra_files=["meta.json"])
