"""``salvage``: all tensors that are whole, by name where the records that tell names are."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from functools import cache

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.command_line import document, error, process, run
from tests.support.safetensors_files import parsed
from tsarchive.formats.executorch import view


def salvaged(data: bytes) -> tuple[tsarchive.SalvageReport, dict[str, torch.Tensor]]:
    out = io.BytesIO()
    report = tsarchive.salvage(io.BytesIO(data), out)
    found, _ = parsed(out.getvalue())
    assert [*found] == [tensor.name for tensor in report.saved]
    return report, found


torch.manual_seed(0)
NETWORK = torch.nn.Sequential(
    torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 64)
)
STATE = NETWORK.state_dict()


def scripted() -> bytes:
    written = io.BytesIO()
    torch.jit.save(torch.jit.script(NETWORK), written)
    return written.getvalue()


def checkpoint(state=STATE, **options) -> bytes:
    written = io.BytesIO()
    torch.save(state, written, **options)
    return written.getvalue()


def exported() -> bytes:
    written = io.BytesIO()
    torch.export.save(torch.export.export(NETWORK.eval(), (torch.ones(2, 64),)), written)
    return written.getvalue()


FILES = {
    "torchscript": scripted,
    "torch.save": checkpoint,
    "torch.save before 1.6": lambda: checkpoint(_use_new_zipfile_serialization=False),
    "pt2": exported,
}


@cache
def file_of(name: str) -> bytes:
    return FILES[name]()


def without_directory(data: bytes) -> bytes:
    return data[: data.index(b"PK\x01\x02")] if b"PK\x01\x02" in data else data


@pytest.mark.parametrize("name", FILES)
def test_all_tensors_of_a_whole_file_are_saved(name):
    for data in (file_of(name), without_directory(file_of(name))):
        report, found = salvaged(data)
        assert report.ok
        assert found.keys() == STATE.keys()
        assert all(torch.equal(found[key], value) for key, value in STATE.items())


@pytest.mark.parametrize("name", ["torchscript", "torch.save", "pt2"])
@pytest.mark.parametrize("damage", ["flip", "hole"])
def test_a_damaged_record_is_lost_and_no_other(name, damage):
    data = bytearray(file_of(name))
    at = data.index(STATE["2.weight"].numpy().tobytes()) + 100
    data[at : at + 3000] = bytes([data[at] ^ 1]) + data[at + 1 : at + 3000]
    if damage == "hole":
        data[at : at + 3000] = bytes(3000)
    report, found = salvaged(bytes(data))
    assert [lost.name for lost in report.lost] == ["2.weight"]
    assert found.keys() == STATE.keys() - {"2.weight"}
    assert all(torch.equal(value, STATE[key]) for key, value in found.items())


def test_records_keep_their_own_names_where_none_is_told():
    data = file_of("torchscript")
    report, found = salvaged(data[: data.index(STATE["2.weight"].numpy().tobytes())])
    assert not any(tensor.is_named for tensor in report.saved)
    assert [lost.name for lost in report.lost] == ["data/7"]
    assert found["data/0"].numpy().tobytes() == STATE["0.weight"].numpy().tobytes()


def test_the_names_of_a_cut_checkpoint_are_known():
    data = file_of("torch.save")
    report, found = salvaged(data[: data.index(STATE["2.weight"].numpy().tobytes())])
    assert {*found} == {*STATE} - {"2.weight", "2.bias"}
    assert [lost.name for lost in report.lost] == ["2.weight", "2.bias"]


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
@pytest.mark.parametrize("number", [1 << 33, 2**64 - 1, -(1 << 100)])
def test_names_stand_beside_numbers_of_any_size(options, number):
    """Such as steps, times in nanoseconds, and seeds."""
    report, found = salvaged(checkpoint({"seed": number, "w": torch.ones(3)}, **options))
    assert report.ok
    assert [(name, value.tolist()) for name, value in found.items()] == [("w", [1.0, 1.0, 1.0])]


def test_a_record_inside_of_a_damaged_one_is_none_of_the_archive():
    """A cut record that is an archive has records of the same names."""
    data = file_of("pt2")
    inner = data.index(b"PK\x03\x04", data.index(b"sample_inputs/model.pt"))
    _, found = salvaged(data[: inner + 900])
    assert found.keys() == STATE.keys()


def test_archives_in_records_are_looked_into():
    data = (FIXTURES / "pt2" / "shared-2.8.pt2").read_bytes()
    whole, _ = salvaged(data)
    report, found = salvaged(data[: int(len(data) * 0.8)])
    assert "output.weight" in found
    assert {tensor.name for tensor in report.saved} <= {tensor.name for tensor in whole.saved}


FORMS = {
    "transposed": torch.arange(12.0).reshape(3, 4).t(),
    "part": torch.arange(10)[3:7],
    "expanded": torch.ones(1).expand(5),
    "complex": torch.tensor([1 + 2j, 3j]),
    "bfloat16": torch.ones(3, dtype=torch.bfloat16),
    "empty": torch.empty(0, 3),
    "number": torch.tensor(7),
    "__metadata__": torch.ones(2),
}


def test_forms_of_tensors():
    _, found = salvaged(checkpoint(FORMS))
    expected = {name.replace("__metadata__", "__metadata__~"): t for name, t in FORMS.items()}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def saved_module(value: float) -> bytes:
    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.full((2,), value))
            self.u = torch.nn.Parameter(torch.full((2,), value + 0.5))

        def forward(self, x: torch.Tensor):
            return x

    written = io.BytesIO()
    torch.jit.save(torch.jit.script(Pair()), written)
    return written.getvalue()


SPLICES = {
    "to the same byte": lambda first, second, cut: first[:cut] + second[cut:],
    "to the start": lambda first, second, cut: first[:cut] + second,
    "of an end": lambda first, second, cut: first[cut:] + second,
    "of a start": lambda first, second, cut: first + second[:cut],
}


@pytest.mark.parametrize("name", SPLICES)
def test_no_archive_has_values_of_another(name):
    first, second = saved_module(1.0), saved_module(2.0)
    several = 0
    for cut in range(0, len(first), 50):
        try:
            report, found = salvaged(SPLICES[name](first, second, cut))
        except tsarchive.FormatError:
            continue
        named = {tensor.name for tensor in report.saved if tensor.is_named}
        own = {int(found[key][0]) for key in named & {"w", "u"}}
        others = {int(found[key][0]) for key in named & {"archive 2/w", "archive 2/u"}}
        assert len(own) <= 1
        assert len(others) <= 1
        several += bool(own and others)
        assert report.ok == (report.archives == 1 and not report.lost)
    assert several or name == "to the same byte"


def test_a_record_of_another_file_is_lost():
    report, found = salvaged(saved_module(1.0)[:150] + saved_module(2.0)[150:])
    assert found["u"].tolist() == [2.5, 2.5]
    assert [(lost.name, lost.reason.partition(":")[2]) for lost in report.lost] == [
        ("w", " it is of another file")
    ]


def test_archives_one_behind_the_other_are_both_saved():
    report, found = salvaged(file_of("torch.save") + file_of("torchscript"))
    assert (report.archives, report.ok, report.lost) == (2, False, ())
    for prefix in ("", "archive 2/"):
        assert all(torch.equal(found[prefix + key], value) for key, value in STATE.items())


def test_an_archive_behind_one_that_is_cut_anywhere_is_saved():
    """Also where the cut is in a header, or where the data of a record begins."""
    first, second = saved_module(1.0), saved_module(2.0)
    for cut in range(len(first)):
        _, found = salvaged(first[:cut] + second)
        values = [(key.removeprefix("archive 2/"), each.tolist()) for key, each in found.items()]
        own = [pair for pair in values if pair[1] and pair[1][0] >= 2]
        assert own == [("w", [2.0, 2.0]), ("u", [2.5, 2.5])], cut


def test_an_example_of_a_program_is_none_of_its_tensors():
    data = file_of("pt2")
    for front in range(0, data.index(b"PK\x03\x04", data.index(b"sample_inputs/model.pt")), 50):
        try:
            report, _ = salvaged(data[front:])
        except tsarchive.FormatError:
            continue
        assert {tensor.name for tensor in report.saved if tensor.is_named} <= STATE.keys()


VALUES = {key: torch.full((4,), value) for key, value in {"a": 1.0, "b": 2.0, "c": 3.0}.items()}
MOVES = {
    "inserted": lambda data, at: data[: at + 4] + b"\x09\x09\x09\x41" + data[at + 4 :],
    "deleted": lambda data, at: data[:at] + data[at + 8 :],
    "appended": lambda data, at: data + bytes(4),
    "cut": lambda data, at: data[:-3],
}


@pytest.mark.parametrize("name", MOVES)
def test_bytes_that_moved_in_a_file_without_checksums(name):
    data = checkpoint(VALUES, _use_new_zipfile_serialization=False)
    last = max(data.index(value.numpy().tobytes()) for value in VALUES.values())
    report, found = salvaged(MOVES[name](data, last))
    assert not report.has_checksums
    assert len(found) == 2
    assert all(torch.equal(VALUES[key], tensor) for key, tensor in found.items())
    assert {lost.name for lost in report.lost} == VALUES.keys() - found.keys() != set()


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_lost_and_no_others(layout):
    sparse = getattr(torch.eye(3), layout)()
    report, found = salvaged(checkpoint({"s": sparse, "d": torch.ones(1)}))
    assert [*found] == ["d"]
    assert [(lost.name, lost.reason.split(",")[0]) for lost in report.lost] == [
        ("s", "it is sparse")
    ]


def test_a_file_of_sparse_tensors_alone_is_not_called_damaged():
    with pytest.raises(tsarchive.FormatError, match="sparse") as raised:
        tsarchive.salvage(io.BytesIO(checkpoint({"s": torch.eye(3).to_sparse()})), io.BytesIO())
    assert "Download" not in (raised.value.hint or "")


def test_other_dtypes_are_bytes_and_told_in_the_metadata():
    out = io.BytesIO()
    quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    report = tsarchive.salvage(io.BytesIO(checkpoint({"q": quantized})), out)
    found, metadata = parsed(out.getvalue())
    assert found["q"].view(torch.int8).tolist() == quantized.int_repr().tolist()
    assert json.loads(metadata["tsarchive"]) == {"q": {"dtype": "qint8", "shape": [4]}}
    assert report.saved[0].dtype == "qint8"


def test_safetensors_reads_the_files(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    out = tmp_path / "out.safetensors"
    tsarchive.salvage(io.BytesIO(file_of("torch.save")[:-500]), out)
    found = safetensors.load_file(out)
    assert all(torch.equal(value, STATE[key]) for key, value in found.items())


@pytest.mark.parametrize("name", ["state.pte", "data.ptd"])
def test_files_of_executorch(name):
    data = (FIXTURES / "executorch" / name).read_bytes()
    whole, all_of_them = salvaged(data)
    assert whole.ok
    report, found = salvaged(data[:-4])
    assert len(report.saved) + len(report.lost) == len(whole.saved)
    assert all(torch.equal(value, all_of_them[key]) for key, value in found.items())


@pytest.mark.parametrize("name", FILES)
def test_whatever_is_left_is_right(name):
    """Cut and damaged at random places: what is saved under a name is what it was."""
    draw, data = random.Random(name), file_of(name)
    for _ in range(15):
        damaged = bytearray(data[: draw.randrange(len(data) // 4, len(data))])
        at = draw.randrange(len(damaged))
        if name != "torch.save before 1.6":  # which has no checksums
            damaged[at : at + 50] = bytes(50)
        try:
            _, found = salvaged(bytes(damaged))
        except tsarchive.ArchiveError:
            continue
        for key in found.keys() & STATE.keys():
            assert torch.equal(found[key], STATE[key])


_CHECKPOINT = file_of("torch.save")
VALUES_ALONE = _CHECKPOINT[: _CHECKPOINT.index(STATE["0.weight"].numpy().tobytes())]


def test_an_order_of_dimensions_that_is_not_known(monkeypatch):
    """A file of ExecuTorch may tell an order that is none."""
    made = view._info
    monkeypatch.setattr(
        view, "_info", lambda *args, **more: replace(made(*args, **more), strides=())
    )
    data = (FIXTURES / "executorch" / "data.ptd").read_bytes()
    with pytest.raises(tsarchive.FormatError, match="no tensor is whole"):
        tsarchive.salvage(io.BytesIO(data), io.BytesIO())


NOTHING = {
    "empty": (b"", "an empty file"),
    "text": (b"hello" * 100, "not a zip archive"),
    "web page": (b"<!DOCTYPE html><html></html>", "a web page"),
    "no tensors": ((ARCHIVES / "empty_module.pt").read_bytes(), "no tensor is found"),
    "all lost": (VALUES_ALONE, "no tensor is whole"),
    "bundle": ((FIXTURES / "executorch" / "linear.bpte").read_bytes()[:700], "elements"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_where_nothing_is_left_nothing_is_written(name, tmp_path):
    data, words = NOTHING[name]
    out = tmp_path / "out.safetensors"
    with pytest.raises(tsarchive.FormatError, match=words):
        tsarchive.salvage(io.BytesIO(data), out)
    assert [*tmp_path.iterdir()] == []


def test_a_file_is_replaced_by_force_alone(tmp_path):
    out = tmp_path / "out.safetensors"
    out.write_text("mine")
    with pytest.raises(tsarchive.CallError, match="force=True"):
        tsarchive.salvage(io.BytesIO(file_of("torch.save")), out)
    assert out.read_text() == "mine"
    tsarchive.salvage(io.BytesIO(file_of("torch.save")), out, force=True)
    assert parsed(out.read_bytes())[0].keys() == STATE.keys()


def test_the_command(tmp_path):
    source, out = tmp_path / "net.pt", tmp_path / "out.safetensors"
    source.write_bytes(file_of("torch.save"))
    assert document("tensors", source, "--salvage", out)["lost"] == []
    assert error("tensors", source, "--salvage", out)["hint"].endswith("--force")
    source.write_bytes(file_of("torch.save")[:-4096])
    found = document("tensors", source, "--salvage", out, "--force", code=1)
    assert found["lost"]
    assert {"name", "dtype", "shape", "nbytes", "is_named"} == found["saved"][0].keys()
    shown = run("tensors", source, "--salvage", out, "--force")
    assert shown.exit_code == 1
    assert f"lost: {found['lost'][0]['name']}" in shown.stdout
    source.write_bytes(VALUES_ALONE)
    assert "no tensor is whole" in error("tensors", source, "--salvage", out, "--force")["message"]
    assert parsed(out.read_bytes())[0]  # of before
    assert run("tensors", source, "--salvage", out, "--sort", "name").exit_code == 2
    assert run("tensors", source, "--force").exit_code == 2


def test_other_files_are_not_called_otherwise(tmp_path):
    source = tmp_path / "net.pt"
    source.write_bytes(file_of("torch.save"))
    refused = run("tensors", source, "--salvage", tmp_path / "out.npz")
    assert refused.exit_code == 2
    assert "*.safetensors" in refused.stderr


def test_the_command_tells_of_several_archives(tmp_path):
    source, out = tmp_path / "net.pt", tmp_path / "out.safetensors"
    source.write_bytes(file_of("torch.save") * 2)
    shown = run("tensors", source, "--salvage", out)
    assert shown.exit_code == 1
    assert "parts of 2 archives are in the file" in shown.stdout


def test_torch_is_not_imported(tmp_path):
    source = tmp_path / "net.pt"
    source.write_bytes(file_of("torchscript")[:-500])
    code = f"""
import sys
import tsarchive
tsarchive.salvage({str(source)!r}, {str(tmp_path / "out")!r})
assert "torch" not in sys.modules
"""
    done = process("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
