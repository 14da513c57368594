"""Files of ExecuTorch written again: unchanged byte for byte, encoded anew in their own order."""

from __future__ import annotations

import io
import struct

import pytest

import tsarchive
from fixtures.executorch_samples import (
    BIAS,
    FILES,
    LINEAR,
    LINEAR_DATA,
    STATE,
    STATE_DATA,
    WEIGHT,
    program,
)
from tests.executorch.strategies import plain
from tests.support.executorch_files import CORPUS_KINDS, FIXTURES, mutated, opened, sound_files
from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.executorch import Draft, write_together
from tsarchive.formats.executorch.encoding import Order, table_values

NEW_WEIGHT = struct.pack("<12f", *range(12, 24))


def written(draft):
    file = io.BytesIO()
    assert draft.write(file) == len(file.getvalue())
    return file.getvalue()


def written_anew(data):
    with opened(data) as archive:
        return Draft(archive).pieces(anew=True).join()


def contents(data):
    """All that a file means: its tables, with the bytes that they name in the place of where."""
    with opened(data) as archive:
        found = archive.executorch.regions.content
        root = plain(table_values(found.root()))
        if archive.kind == "bpte":
            return {**root, "program": contents(root["program"])}
        root["segments"] = [bytes(found.data[at : at + size]) for at, size in found.segments]
        return root


def in_order_of_exir(data):
    """The same file as exir lays it out, or flatc if it is a data file."""
    return written_anew(written_anew(data))


@pytest.mark.parametrize("name", FILES)
def test_fixtures_are_copied_byte_for_byte(name):
    with tsarchive.open(FIXTURES / name) as archive:
        draft = Draft(archive)
        assert written(draft) == FILES[name]()
        assert not draft.is_edited
        assert len(draft.tensors) >= 0
        assert written(draft) == FILES[name]()


@pytest.mark.parametrize("name", FILES)
def test_what_is_encoded_anew_means_the_same_and_stays(name):
    """The fixtures are laid out as no library does it, and so in another way anew."""
    data = FILES[name]()
    anew = written_anew(data)
    assert contents(anew) == contents(data)
    assert written_anew(anew) == anew
    assert tsarchive.verify(io.BytesIO(anew)).ok == tsarchive.verify(io.BytesIO(data)).ok


@pytest.mark.parametrize("kind", CORPUS_KINDS)
def test_every_file_of_the_corpus_is_written_as_it_was(corpus, kind):
    """Also anew: whatever wrote it, its order is known."""
    for path in sound_files(corpus, kind):
        with tsarchive.open(path) as archive:
            draft = Draft(archive)
            assert written(draft) == path.read_bytes(), path.name
            assert draft.pieces(anew=True).join() == path.read_bytes(), path.name


@pytest.mark.parametrize("kind", CORPUS_KINDS)
def test_drafts_name_tensors_as_archives_do(corpus, kind):
    for path in sound_files(corpus, kind):
        with tsarchive.open(path) as archive:
            named = archive.tensors.items()
            inside = {name for name, info in named if not info.storage.startswith("external:")}
            found = Draft(archive).tensors.items()
            assert {name for name, layout in found if layout is not None} == inside, path.name


ORDERS = {
    "generated/linear.pte": Order.PYTHON,
    "generated/bundled.bpte": Order.PYTHON,
    "generated/ext_tied___default_external_constant.ptd": Order.FLATC,
    "pte/pytorch-executorch__add.pte": Order.FLATC,
    "pte/pytorch-executorch__model_643cda3.pte": Order.OLD_PYTHON,
    "pte/pytorch-executorch__ModuleLinear-no-constant-segment.pte": Order.OLD_FLATC,
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_of_writers(corpus, name):
    from tsarchive.formats.executorch.encoding import detect_encoding

    with tsarchive.open(corpus / name) as archive:
        found = archive.executorch.regions.content
        root = found.root()
        header = None if archive.kind == "bpte" else found.header
        assert detect_encoding(root, table_values(root), header).order is ORDERS[name]


def header_of(data, size):
    """The linear program with a header of so many bytes, the last of them unknown."""
    made = in_order_of_exir(data)
    inserted, rest = made[8:40], made[40:]
    longer = inserted[:4] + struct.pack("<I", size) + inserted[8:] + bytes(range(1, size - 31))
    longer = longer.ljust(size + -size % 16, b"\0")
    grown = len(longer) - len(inserted)
    tables, base, nbytes = struct.unpack_from("<QQQ", longer, 8)
    new_base = tables + grown + -(tables + grown) % 128
    longer = longer[:8] + struct.pack("<QQQ", tables + grown, new_base, nbytes) + longer[32:]
    (root,) = struct.unpack_from("<I", made)
    tables_part = struct.pack("<I", root + grown) + made[4:8] + longer + rest[: tables - 40]
    return tables_part.ljust(new_base, b"\0") + made[base:]


def linear_file():
    return program(LINEAR, LINEAR_DATA)


def padded_with(byte):
    """The file with other bytes in the gap before its segments."""
    data = bytearray(in_order_of_exir(linear_file()))
    tables, base = struct.unpack_from("<QQ", data, 16)
    data[tables:base] = byte * (base - tables)
    return bytes(data)


ODD = {
    "a header of 24 bytes": lambda: in_order_of_exir(program(LINEAR, LINEAR_DATA, header=24)),
    "a longer header": lambda: header_of(linear_file(), 44),
    "other bytes in the gap": lambda: padded_with(b"\xee"),
    "bytes behind all": lambda: in_order_of_exir(linear_file()) + b"signature",
    "bytes behind tables": lambda: in_order_of_exir(FILES["inline.pte"]()) + b"\1" * 9,
    "bytes of segments without a name": lambda: in_order_of_exir(
        program(LINEAR, LINEAR_DATA + b"more")
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_what_readers_do_not_look_at_is_kept(what):
    data = ODD[what]()
    assert written_anew(data) == data
    with opened(data) as archive:
        draft = Draft(archive)
        draft.replace("forward.2", NEW_WEIGHT)
        assert written(draft) == data.replace(WEIGHT, NEW_WEIGHT)


@pytest.mark.parametrize("width", [16, 128, 4096])
def test_empty_segments_stand_where_they_would_if_they_had_bytes(width):
    parts = [{"offset": 0, "size": len(LINEAR_DATA)}, {"offset": 0, "size": 0}]
    with opened(program({**LINEAR, "segments": parts}, LINEAR_DATA)) as archive:
        draft = Draft(archive)
        draft.align(width)
        data = written(draft)
    assert written_anew(data) == data
    with opened(data) as archive:
        (_, (start, size)) = archive.executorch.program.segments
        assert (start % width, size) == (0, 0)


def test_other_bytes_between_segments_are_kept():
    odd = STATE_DATA[:12] + b"\xaa" * 116 + STATE_DATA[128:]
    data = in_order_of_exir(program(STATE, odd))
    assert b"\xaa" * 116 in data
    with opened(data) as archive:
        draft = Draft(archive)
        draft.replace("count", BIAS[::-1])
        at = data.rindex(BIAS)
        assert written(draft) == data[:at] + BIAS[::-1] + data[at + len(BIAS) :]


def test_files_of_a_later_version_are_copied_and_not_edited():
    data = bytearray(FILES["linear.pte"]())
    (root,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, root)
    # A vtable of one more place: that of the first plan, whose table it runs into, stands behind.
    struct.pack_into("<H", data, root - back, struct.unpack_from("<H", data, root - back)[0] + 6)
    with opened(bytes(data)) as archive:
        draft = Draft(archive)
        assert written(draft) == bytes(data)
        with pytest.raises(UnsupportedError, match="later version"):
            draft.strip()
        assert written(draft) == bytes(data)


def test_large_bytes_are_not_copied_to_memory(tmp_path):
    import tracemalloc

    size = 48 << 20
    weight = {"scalar_type": 0, "sizes": [size], "dim_order": [0], "data_buffer_idx": 1}
    plan = {"name": "forward", "values": [{"val": ("Tensor", weight)}]}
    values = {"execution_plan": [plan], "segments": [{"offset": 0, "size": size}],
              "constant_segment": {"segment_index": 0, "offsets": [0, 0]}}  # fmt: skip
    path, data_path = tmp_path / "large.pte", tmp_path / "large.ptd"
    path.write_bytes(program(values, bytes(size)))
    with tsarchive.open(path) as archive:
        tracemalloc.start()
        draft = Draft(archive)
        data = draft.externalize()
        sizes = write_together([(draft, path), (data, data_path)])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert sizes == [path.stat().st_size, data_path.stat().st_size]
    assert sizes[1] > size > sizes[0]
    assert peak < 4 << 20


def failing(stream):
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_the_old_files_whole(tmp_path, monkeypatch):
    paths = [tmp_path / "model.pte", tmp_path / "model.ptd"]
    for path in paths:
        path.write_bytes(FILES["linear.pte"]())
    real = Draft._write
    calls = []

    def fails_at_the_second(draft, stream, pieces):
        calls.append(draft)
        if len(calls) == 2:
            stream.write(b"half")
            failing(stream)
        return real(draft, stream, pieces)

    monkeypatch.setattr(Draft, "_write", fails_at_the_second)
    with tsarchive.open(paths[0]) as archive:
        draft = Draft(archive)
        data = draft.externalize()
        with pytest.raises(OSError, match="No space"):
            write_together([(draft, paths[0]), (data, paths[1])])
    assert [path.read_bytes() for path in paths] == [FILES["linear.pte"]()] * 2
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_a_file_is_written_over_itself(tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(FILES["linear.pte"]())
    with tsarchive.open(path) as archive:
        draft = Draft(archive)
        draft.replace("forward.2", NEW_WEIGHT)
        draft.write(path)
        assert archive.read("segments/0") == LINEAR_DATA
    with tsarchive.open(path) as archive:
        assert archive.read("segments/0")[16:] == NEW_WEIGHT


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path):
    path, target = tmp_path / "model.pte", tmp_path / "other.pte"
    path.write_bytes(FILES["linear.pte"]())
    with tsarchive.open(path) as archive:
        draft = Draft(archive)
        draft.replace("forward.2", NEW_WEIGHT)
        path.write_bytes(b"")
        with pytest.raises(FormatError, match="when it was opened"):
            draft.write(target)
    assert not target.exists()


def test_a_closed_file_is_told():
    archive = tsarchive.open(FIXTURES / "linear.pte")
    draft = Draft(archive)
    draft.replace("forward.2", NEW_WEIGHT)
    archive.close()
    with pytest.raises(ArchiveError, match="closed"):
        draft.write(io.BytesIO())


def test_zip_archives_are_no_drafts():
    archive = tsarchive.open(FIXTURES.parent / "archives" / "sequential.pt")
    with archive, pytest.raises(UnsupportedError, match="not a file of ExecuTorch"):
        Draft(archive)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_files_are_written_or_told(seed):
    for data in mutated(seed, 20):
        try:
            archive = opened(data)
        except ArchiveError:
            continue
        with archive:
            assert written(Draft(archive)) == data
            for edit in (lambda d: d.pieces(anew=True), lambda d: d.externalize(),
                         lambda d: d.strip(), lambda d: d.upgrade(),
                         lambda d: d.align(64, 64)):  # fmt: skip
                draft = Draft(archive)
                try:
                    edit(draft)
                    written(draft)
                except ArchiveError:
                    continue
