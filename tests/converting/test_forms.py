"""``convert`` to the canonical form, and without debug records."""

from __future__ import annotations

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, FIXTURES, records_of, saved
from tests.support.command_line import document, error
from tests.support.features import stores_weights_apart


@pytest.fixture
def exported(tmp_path):
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),)), path)
    return path


@pytest.mark.parametrize("form", [{"canonical": True}, {"debug": False}], ids=str)
@pytest.mark.parametrize("name", ["sequential", "class_shared", "complex_numbers"])
def test_forms_are_those_that_save_writes(name, form, tmp_path):
    source, out = ARCHIVES / f"{name}.pt", tmp_path / "out.pt"
    tsarchive.convert(source, out, **form)
    assert records_of(out.read_bytes()) == records_of(saved(tsarchive.load(source), **form))
    assert torch.jit.load(out).code == torch.jit.load(source).code or form == {"canonical": True}


@stores_weights_apart
@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_programs_have_these_forms_too(exported, suffix, tmp_path):
    plain, bare, again = (tmp_path / f"{name}{suffix}" for name in ("plain", "bare", "again"))
    tsarchive.convert(exported, plain)
    tsarchive.convert(exported, bare, debug=False)
    assert bare.stat().st_size < plain.stat().st_size
    assert not [name for name in records_of(bare.read_bytes()) if name.endswith(".debug_pkl")]
    tsarchive.convert(exported, bare, canonical=True)
    tsarchive.convert(bare, again, canonical=True)
    assert bare.read_bytes() == again.read_bytes()
    assert torch.equal(tsarchive.load(bare)(x := torch.ones(4, 3)), tsarchive.load(plain)(x))


def test_the_canonical_form_of_an_older_torch(tmp_path):
    source, out = FIXTURES / "legacy" / "classes-1.2.0.pt", tmp_path / "out.pt"
    tsarchive.convert(source, out, for_torch="1.13", canonical=True)
    first = out.read_bytes()
    tsarchive.convert(out, out, for_torch="1.13", canonical=True)
    assert out.read_bytes() == first


def test_the_canonical_form_leaves_extra_files_out(tmp_path):
    source, out = tmp_path / "net.pt", tmp_path / "out.pt"
    module = torch.jit.script(torch.nn.Linear(3, 2))
    torch.jit.save(module, source, _extra_files={"note": "1"})
    assert document("convert", source, out, "--canonical")["kind"] == "torchscript"
    assert out.read_bytes() == saved(torch.jit.load(source), canonical=True)
    document("convert", source, source, "--no-debug")
    with tsarchive.open(source) as archive:
        assert dict(archive.extra_files) == {"note": b"1"}
        assert not [name for name in archive.records if name.endswith(".debug_pkl")]


@pytest.mark.parametrize(
    ("option", "argument"), [("--canonical", "canonical"), ("--no-debug", "debug")]
)
def test_programs_of_executorch_have_no_such_form(exported, option, argument, tmp_path):
    found = error("convert", exported, tmp_path / "net.pte", option)
    assert found["hint"] == f"Leave out {option}"
    assert not (tmp_path / "net.pte").exists()
    with pytest.raises(tsarchive.CallError, match=f"Leave out the argument {argument}"):
        tsarchive.convert(exported, tmp_path / "net.pte", **{argument: argument == "canonical"})
