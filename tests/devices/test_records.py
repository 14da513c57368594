"""Devices that code names move with the tensors: debug records, errors, the command."""

from __future__ import annotations

import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
from tests.devices.subjects import (
    CPU,
    EMPTY,
    GPU,
    OnGpu,
    archive,
    function,
    moved,
)
from tests.support.archives import records_of, saved, torch_saved
from tests.support.command_line import document, error, run, write_archive
from tsarchive.errors import CallError, PickleError, SourceError
from tsarchive.formats.torchscript.debug_records import DebugWriter, read_debug_record
from tsarchive.formats.torchscript.devices import Edit, EditedText, move_debug_record
from tsarchive.pickler import dumps, loads

# Debug records


def debug_rows(data: bytes) -> dict[str, list]:
    records = records_of(data)
    return {
        name: [row.offset for row in read_debug_record(content, name)]
        for name, content in records.items()
        if name.endswith(".debug_pkl")
    }


def test_debug_rows_begin_where_their_text_begins():
    data = torch_saved(torch.jit.script(OnGpu()))
    written = saved(tsarchive.load(io.BytesIO(data), map_location="cpu"))
    before, after = records_of(data), records_of(written)
    compared = 0
    for name, rows in debug_rows(data).items():
        record = name.removesuffix(".debug_pkl")
        texts = before[record], after[record]
        for old, new in zip(rows, debug_rows(written)[name], strict=True):
            heads = [text[at : at + 6] for text, at in zip(texts, (old, new), strict=True)]
            assert heads[0] == heads[1] or b"cuda" in texts[0][old : old + 12], heads
            compared += heads[0] == heads[1]
    assert compared > 50


def test_debug_records_keep_all_but_the_offsets():
    data = torch_saved(torch.jit.script(OnGpu()))
    name = "code/__torch__/tests/devices/subjects.py.debug_pkl"
    content = records_of(data)[name]
    text = records_of(data)[name.removesuffix(".debug_pkl")]
    same = move_debug_record(content, EditedText(text, []), name)
    rows = read_debug_record(content, name)
    assert DebugWriter().record(read_debug_record(same, name)) == DebugWriter().record(rows)


def test_a_debug_record_of_an_older_form_moves():
    edited = EditedText(b"abcdef", [Edit(1, 2, b"xyz")])
    rows = ((0, ("text", 1), 0), (3, ("text", 2), 1))
    assert loads(move_debug_record(dumps(rows), edited, "d")) == (
        (0, ("text", 1), 0), (5, ("text", 2), 1)
    )  # fmt: skip


@pytest.mark.parametrize("value", [3, (1, 2), (("x", 1),)])
def test_a_malformed_debug_record_is_refused(value):
    with pytest.raises(PickleError, match="malformed"):
        move_debug_record(dumps(value), EditedText(b"", []), "d")


@given(st.data())
def test_every_byte_is_found_again(data):
    text = data.draw(st.binary(min_size=1, max_size=30))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    edits = [
        Edit(start, end, data.draw(st.binary(max_size=4)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    edited = EditedText(text, edits)
    offsets = [edited.offset(at) for at in range(len(text) + 1)]
    assert offsets == sorted(offsets)
    assert offsets[-1] <= len(edited.data)
    for at in range(len(text)):
        if not any(edit.start <= at < edit.end for edit in edits):
            assert edited.data[offsets[at]] == text[at]


# Errors and the command


@pytest.mark.parametrize("target", ["", "cuda:x", "CPU 0", 'cpu"'])
def test_what_is_no_device_is_refused(target):
    with (
        tsarchive.open(archive(function("return x"))) as opened,
        pytest.raises(CallError, match="map_location"),
    ):
        opened.moved(target)


def test_code_that_does_not_parse_is_refused():
    with pytest.raises(SourceError, match=r"__torch__\.py:1"):
        moved('def f(: torch.device("cuda")', "cpu")


def test_bytes_that_are_no_text_stay():
    text = (
        b'def f(x: Tensor) -> Tensor:\n  y = "\xff\r"\n  return torch.to(x, torch.device("cuda"))\n'
    )
    with tsarchive.open(archive({"code/__torch__.py": text})) as opened:
        found = opened.moved("cpu").read("code/__torch__.py")
    assert found == text.replace(b"cuda", b"cpu")


def test_the_command_shows_the_code_as_it_runs(tmp_path):
    text = function(f"return torch.zeros([2], dtype=6, layout=0, device={GPU})")
    records = {"data.pkl": EMPTY, "code/__torch__.py": text.encode(), "constants.pkl": EMPTY}
    path = write_archive(tmp_path / "a.pt", {**records, "version": b"3"})
    assert run("code", path).stdout == text
    assert run("code", path, "--map-location", "cpu").stdout == text.replace(GPU, CPU)
    (piece,) = document("code", path, "--map-location", "cpu")["code"]
    assert piece["text"] == text.replace(GPU, CPU)
    assert "not a device" in error("code", path, "--map-location", "no device")["message"]
