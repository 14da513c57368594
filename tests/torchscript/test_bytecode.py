"""Programs of bytecode, which the lite interpreter of torch runs, beside code and alone."""

from __future__ import annotations

import io
import warnings
import zipfile

import pytest
import torch
from torch.jit.mobile import _load_for_lite_interpreter

import tsarchive
from tests.support.archives import ROOT, saved
from tests.support.auditing import rules_of, zip_of
from tests.support.command_line import document, error
from tests.support.comparing import equal
from tsarchive.errors import ArchiveError
from tsarchive.findings import Nature
from tsarchive.pickler import dumps

OLD = ROOT / "fixtures" / "old"
PATHS = sorted(OLD.glob("*/*.ptl"))
PLAIN = OLD / "1.13.1" / "phone_plain_lite.ptl"
PACKED = OLD / "1.13.1" / "phone_lite.ptl"
# torch 1.8 wrote the constants of bytecode a second time.
TWICE = OLD / "1.8.1" / "phone_lite.ptl"
X = torch.linspace(-1, 1, 50).reshape(2, 1, 5, 5)


def records_of(source):
    with tsarchive.open(source) as archive:
        return {name: archive.read(name) for name in archive.records}


def of_bytecode(records):
    return {name: data for name, data in records.items() if name.startswith("bytecode")}


def saved_records(module, **options):
    return records_of(io.BytesIO(saved(module, **options)))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_is_saved_byte_for_byte(path):
    before, after = records_of(path), saved_records(tsarchive.load(path))
    assert "bytecode.pkl" in before
    lost = {name for name in before if before[name] != after.get(name)}
    assert lost <= {"data.pkl", ".data/serialization_id"}  # the first save changes what it names


def test_storages_of_its_own_are_saved():
    names = set(of_bytecode(records_of(TWICE)))
    assert len(names) > 1
    assert names <= set(saved_records(tsarchive.load(TWICE)))


def with_debug_records(path):
    """An archive of torch with a record that tells of instructions of bytecode."""
    records = records_of(path)
    return zip_of({**records, "mobile_debug_handles.pkl": dumps(())})


def test_its_debug_records_go_with_those_of_the_code():
    module = tsarchive.load(io.BytesIO(with_debug_records(PLAIN)))
    assert "mobile_debug_handles.pkl" in saved_records(module)
    without = saved_records(module, debug=False)
    assert "bytecode.pkl" in without
    assert not any("debug" in name for name in without)


def test_it_runs_with_weights_that_were_changed():
    module = tsarchive.load(PLAIN)
    before = module(X)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5).add_(0.25)
    lite = _load_for_lite_interpreter(io.BytesIO(saved(module)))
    assert equal(lite.forward(X), module(X).detach())
    assert not equal(module(X), before)


def test_the_canonical_form_has_none():
    assert not of_bytecode(saved_records(tsarchive.load(PLAIN), canonical=True))


def test_of_a_module_that_was_moved_there_is_none():
    """Its constants are where they were. Where nothing of the code moves, it stays."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert of_bytecode(saved_records(tsarchive.load(PACKED, map_location="cpu")))
        assert of_bytecode(saved_records(tsarchive.load(PLAIN, map_location="meta")))
    module = tsarchive.load(PACKED, map_location="meta")
    with pytest.warns(UserWarning, match="bytecode"):
        assert not of_bytecode(saved_records(module))


# Archives without code, which the lite interpreter takes as well


def without_code(path, *others):
    records = records_of(path)
    kept = {n: d for n, d in records.items() if not n.startswith("code/") and n not in others}
    return zip_of(kept)


@pytest.fixture(params=[(), ("constants.pkl",)], ids=["with-constants", "without-constants"])
def alone(request, tmp_path):
    path = tmp_path / "alone.ptl"
    path.write_bytes(without_code(PLAIN, *request.param))
    return path


def test_the_lite_interpreter_takes_them(alone):
    expected = _load_for_lite_interpreter(str(PLAIN)).forward(X)
    assert equal(_load_for_lite_interpreter(str(alone)).forward(X), expected)


def test_they_are_told_by_name(alone):
    assert tsarchive.open(alone).kind == "bytecode"
    for verb in (tsarchive.load, tsarchive.decompile, tsarchive.check_jitter):
        given = (alone, alone.with_name("out")) if verb is tsarchive.decompile else (alone,)
        with pytest.raises(ArchiveError, match="bytecode for the lite interpreter"):
            verb(*given)
    assert "bytecode" in error("tree", alone)["message"]
    findings = tsarchive.verify(alone).findings
    assert {finding.nature for finding in findings} >= {Nature.OTHER_KIND}
    assert not any(finding.nature is Nature.BROKEN for finding in findings)


def test_their_tensors_are_listed(alone):
    with tsarchive.open(alone) as archive, tsarchive.open(PLAIN) as whole:
        assert dict(archive.tensors).keys() == dict(whole.tensors).keys()
    listed = document("tensors", alone)["tensors"]
    assert [row["name"] for row in listed][:2] == ["conv.weight", "conv.bias"]


def test_tensors_in_packed_layers_are_listed(tmp_path):
    path = tmp_path / "alone.ptl"
    path.write_bytes(without_code(PACKED))
    with tsarchive.open(path) as archive:
        names = [name.rpartition(".")[2] for name in archive.tensors]
    assert set(names) == {"weight", "bias"}


def test_what_they_can_do_is_told(tmp_path):
    tables = (("operators", (("aten::save", "", 2), ("aten::relu", "", 1))), ("constants", ()))
    bytecode = dumps((4, ("__torch__.Net.forward", tables)))
    records = {"data.pkl": dumps(None), "bytecode.pkl": bytecode, "version": b"3\n"}
    report = tsarchive.audit(io.BytesIO(zip_of(records)))
    assert {use.operator for use in report.operators} == {"aten::save", "aten::relu"}
    assert not report.ok
    assert rules_of(report)


def test_code_without_bytecode_is_torchscript(tmp_path):
    path = tmp_path / "net.pt"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records_of(PLAIN).items():
            if not name.startswith("bytecode"):
                archive.writestr(f"net/{name}", data)
    assert tsarchive.open(path).kind == "torchscript"
    assert equal(tsarchive.load(path)(X), tsarchive.load(PLAIN)(X))
