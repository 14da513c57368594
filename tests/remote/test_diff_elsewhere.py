"""Files elsewhere compared by the checksums that their directories tell, or read."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
import torch
from click.testing import CliRunner

import tsarchive
from tests.support.archives import FIXTURES, export_saved, saved, torch_pickled, torch_saved
from tests.support.elsewhere import Seekable
from tests.support.elsewhere_loads import Layers
from tsarchive import fingerprinting
from tsarchive.cli import main
from tsarchive.container import ranges
from tsarchive.container.source import Source
from tsarchive.diffing.checksums import Checksums
from tsarchive.diffing.tensors import tensor_changes
from tsarchive.formats.contents import Checksum, Elements, TensorContent
from tsarchive.formats.reading import Reading

X = torch.zeros(2, 256)


def layers(**changed: torch.Tensor) -> torch.nn.Module:
    torch.manual_seed(0)
    made = Layers().eval()
    with torch.no_grad():
        for name, value in changed.items():
            made.get_parameter(name.replace("__", ".")).copy_(value)
    return made


def scripted(**changed: torch.Tensor) -> bytes:
    return torch_saved(torch.jit.script(layers(**changed)))


def exported(**changed: torch.Tensor) -> bytes:
    return export_saved(torch.export.export(layers(**changed), (X,)))


def checkpoint(**changed: torch.Tensor) -> bytes:
    return torch_pickled(layers(**changed).state_dict())


KINDS = {"torchscript": scripted, "pt2": exported, "state dict": checkpoint}
CHANGED = {"never__weight": torch.ones(256, 256)}
# What a comparison of two files that are elsewhere may read: neither has less than a megabyte.
LITTLE = 450_000


def told(report) -> list[tuple]:
    return [(change.kind, change.where) for change in report.changes]


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("changed", [{}, CHANGED], ids=["same", "changed"])
def test_the_same_changes_are_told(kind, exact, changed):
    data = KINDS[kind](), KINDS[kind](**changed)
    local = tsarchive.diff(*map(io.BytesIO, data))
    files = [*map(Seekable, data)]
    found = tsarchive.diff(*files, exact=exact)
    assert told(found) == told(local)
    assert found.by_checksum is not exact
    assert found.same is (False if changed else True if exact else None)
    assert [change.is_probable for change in found.changes] == [not exact] * len(changed)
    if exact:
        assert found.changes == local.changes
    else:
        assert sum(file.nbytes for file in files) < LITTLE


def test_one_side_on_disk(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(scripted())
    file = Seekable(scripted(**CHANGED))
    found = tsarchive.diff(path, file)
    assert told(found) == [("tensor values", "never.weight")]
    assert found.by_checksum
    assert file.nbytes < LITTLE


def test_files_on_disk_are_read():
    found = tsarchive.diff(io.BytesIO(scripted()), io.BytesIO(scripted()))
    assert found.same
    assert not found.by_checksum


def test_checksums_are_told_where_values_would_be():
    data = scripted(), scripted(**CHANGED)
    (change,) = tsarchive.diff(*map(Seekable, data)).changes
    crcs = []
    for file in data:
        with tsarchive.open(io.BytesIO(file)) as archive:
            record = archive.tensors["never.weight"].storages[0].record
            crcs.append(f"crc32:{archive.records[record].crc:08x}, 262,144 bytes")
    assert [change.before, change.after] == crcs
    assert change.values is None


def test_renamed_modules_are_paired_without_reading():
    class Other(Layers):
        def __init__(self):
            super().__init__()
            self.again = self.never
            del self.never

        def forward(self, x: torch.Tensor, all_of_it: bool = False) -> torch.Tensor:
            x = self.first(x)
            if all_of_it:
                x = self.again(x)
            return self.last(x) * self.scale[0]

    torch.manual_seed(0)
    data = scripted(), torch_saved(torch.jit.script(Other().eval()))
    files = [*map(Seekable, data)]
    found = tsarchive.diff(*files)
    assert told(found) == told(tsarchive.diff(*map(io.BytesIO, data)))
    assert ("module", "again") in told(found)
    assert sum(file.nbytes for file in files) < LITTLE


def test_renamed_tensors_are_told_as_probable():
    content = TensorContent(
        ["dense", "float32", [2], []],
        Elements(lambda: memoryview(bytes(8)), 0, [2], [4], 4, 4, checksum=lambda: Checksum(1, 8)),
    )
    readings = Reading(Source(memoryview(b""))), Reading(Source(memoryview(b"")))
    for checksums in (None, Checksums()):
        (change,) = tensor_changes({"a": content}, {"b": content}, readings, checksums=checksums)
        assert (change.kind, change.before, change.after) == ("tensor renamed", "a", "b")
        assert change.is_probable is (checksums is not None)


def test_compressed_records_have_the_same_checksums():
    data = scripted()
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    files = [*map(Seekable, (data, stream.getvalue()))]
    found = tsarchive.diff(*files)
    assert not found.changes
    assert found.by_checksum
    assert sum(file.nbytes for file in files) < LITTLE


def test_views_of_shared_storages_are_read():
    """Of bytes that differ it is not known whose they are."""

    class Halves(torch.nn.Module):
        def __init__(self, last: float):
            super().__init__()
            torch.manual_seed(0)
            both = torch.rand(512, 512)
            both[-1, -1] = last
            self.register_buffer("upper", both[:256])
            self.register_buffer("lower", both[256:])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.upper + self.lower

    data = [torch_saved(torch.jit.script(Halves(last))) for last in (1.0, 2.0)]
    found = tsarchive.diff(*map(Seekable, data))
    assert told(found) == [("tensor values", "lower")]
    assert found.changes[0].values.differing == 1
    assert not found.changes[0].is_probable


def test_storages_in_another_layout_are_read():
    made = [torch.nn.Conv2d(64, 64, 5) for _ in range(2)]
    made[1].load_state_dict(made[0].state_dict())
    made[1].weight.data = made[1].weight.data.contiguous(memory_format=torch.channels_last)
    data = [torch_saved(torch.jit.script(module)) for module in made]
    assert not tsarchive.diff(*map(Seekable, data)).changes


def test_files_without_checksums_are_read():
    data = [scripted(), scripted(**CHANGED)]
    for place, file in enumerate(data):
        data[place] = _without_checksums(file)
    found = tsarchive.diff(*map(Seekable, data))
    assert told(found) == [("tensor values", "never.weight")]
    assert found.changes[0].values is not None
    assert not found.by_checksum


def _without_checksums(data: bytes) -> bytes:
    with tsarchive.open(io.BytesIO(data)) as archive:
        crcs = {record.crc for record in archive.records.values() if record.crc}
    for crc in crcs:
        data = data.replace(crc.to_bytes(4, "little"), bytes(4))
    return data


def test_programs_of_executorch_are_read():
    path = next(path for path in sorted((FIXTURES / "executorch").glob("*.pte")))
    data = path.read_bytes() + bytes(1 << 18)
    found = tsarchive.diff(Seekable(data), Seekable(data))
    assert not found.changes
    assert not found.by_checksum


def test_canonical_and_usual_saves(tmp_path):
    """Names of records differ, and their order: tensors are compared by name."""
    module = torch.jit.script(layers())
    files = [Seekable(saved(module)), Seekable(saved(module, canonical=True))]
    found = tsarchive.diff(*files)
    assert not found.changes
    assert sum(file.nbytes for file in files) < LITTLE


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprints_without_weights_read_none(kind):
    data = KINDS[kind]()
    file = Seekable(data)
    found = tsarchive.fingerprint(file, weights=False)
    assert found == tsarchive.fingerprint(io.BytesIO(data), weights=False)
    assert file.nbytes < LITTLE // 2


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprints_with_weights_read_each_byte_once(kind):
    data = KINDS[kind]()
    file = Seekable(data)
    assert tsarchive.fingerprint(file) == tsarchive.fingerprint(io.BytesIO(data))
    assert file.nbytes == len(data)


ROWS = {
    "whole": ([4, 8], [32, 4], 0, True),
    "transposed": ([8, 4], [4, 32], 0, True),
    "one row": ([1, 32], [999, 4], 0, True),
    "expanded": ([32], [0], 0, None),
    "with gaps": ([16], [8], 0, None),
    "a part": ([16], [4], 64, None),
}


@pytest.mark.whole
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("are_same", [True, False])
def test_what_checksums_decide(row, are_same):
    shape, strides, offset, fills = ROWS[row]
    checksums = Checksums()
    one, other = (
        Elements(None, offset, shape, strides, 4, 4, checksum=lambda crc=crc: Checksum(crc, 128))
        for crc in (1, 1 if are_same else 2)
    )
    decided = True if are_same else False if fills else None
    assert checksums.are_alike(one, other) is decided
    assert checksums.have_told is (decided is not None)
    assert checksums.are_alike(one, other._replace(is_swapped=True)) is None
    assert checksums.are_alike(one._replace(checksum=None), other) is None


def test_digests_are_of_all_or_of_none():
    told = Elements(None, 0, [1], [4], 4, 4, checksum=lambda: Checksum(1, 4))
    unknown = Elements(lambda: memoryview(bytes(4)), 0, [1], [4], 4, 4)
    one, other, last = (TensorContent(["dense"], elements) for elements in (told, told, unknown))
    checksums = Checksums()
    digest = checksums.digest([one, other])
    assert digest is not None
    assert digest(one) == digest(other)
    assert digest(one) != digest(one._replace(meaning=["other"]))
    assert checksums.digest([one, last]) is None


@pytest.fixture
def elsewhere(monkeypatch):
    """Two files that the command opens as files elsewhere."""
    data, real = {"a.pt": scripted(), "b.pt": scripted()}, fingerprinting.open_source
    monkeypatch.setattr(fingerprinting, "open_source", lambda path: real(Seekable(data[path])))
    return list(data)


@pytest.mark.parametrize(
    ("options", "line"),
    [((), "tensors compared by CRC-32 (probable); --exact reads them"), (("--exact",), None)],
)
def test_the_command_says_so(elsewhere, options, line):
    shown = CliRunner().invoke(main, ["diff", *elsewhere, *options])
    as_json = CliRunner().invoke(main, ["diff", *elsewhere, "--json", *options])
    assert shown.exit_code == 0, shown.output
    assert (line in shown.output) if line else ("CRC-32" not in shown.output)
    found = json.loads(as_json.output)
    assert found["by_checksum"] is bool(line)
    assert found["same"] is (None if line else True)


def test_pages_read_both():
    fsspec = pytest.importorskip("fsspec")
    urls = ["memory://diff/a.pt", "memory://diff/b.pt"]
    for url, data in zip(urls, (scripted(), scripted(**CHANGED)), strict=True):
        with fsspec.open(url, "wb") as file:
            file.write(data)
    assert "same model" in tsarchive.report(urls[0], against=urls[0]).html
    assert "crc32:" not in tsarchive.report(urls[0], against=urls[1]).html


FILES = [
    path
    for pattern in ("archives/*.pt", "pt2/*.pt2", "executorch/*.pte")
    for path in sorted(FIXTURES.glob(pattern))
    if not path.name.endswith(".io.pt")
]


@pytest.mark.parametrize("place", range(len(FILES)), ids=[path.name for path in FILES])
def test_neighbours_differ_in_the_same(place, monkeypatch):
    monkeypatch.setattr(ranges, "_TAIL_BYTES", 64)  # all of a small file would be there at once
    pair = [FILES[place - 1].read_bytes(), FILES[place].read_bytes()]
    outcomes = []
    for open_file in (io.BytesIO, Seekable):
        try:
            found = tsarchive.diff(*map(open_file, pair))
            outcomes.append((told(found), found.compared, found.not_compared))
        except tsarchive.ArchiveError as error:
            outcomes.append((type(error), error.message))
    assert outcomes[0] == outcomes[1]
