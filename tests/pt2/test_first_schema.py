"""PT2 archives that torch 2.1 and 2.2 wrote: they load, run and verify."""

from __future__ import annotations

import copy
import io
import json
import zipfile

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT
from tests.support.pt2_running import close
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.findings import Nature, Severity

OLD = ROOT / "fixtures" / "pt2_old"
PATHS = sorted(OLD.glob("*/*.pt2"))
PROGRAM = "serialized_exported_program.json"
by_path = pytest.mark.parametrize("path", PATHS, ids=[f"{p.parent.name}-{p.stem}" for p in PATHS])


def changed(path, tmp_path, change):
    """A copy of an archive with another program."""
    target = tmp_path / path.name
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copied:
        for name in source.namelist():
            data = source.read(name)
            if name == PROGRAM:
                program = json.loads(data)
                change(program)
                data = json.dumps(program).encode()
            copied.writestr(name, data)
    return target


def test_both_versions_are_there():
    assert {path.parent.name for path in PATHS} == {"2.1.2", "2.2.2"}


@by_path
def test_it_gives_what_the_old_torch_gave(path):
    args, kwargs, expected = torch.load(path.with_suffix(".io.pt"), weights_only=True)
    module = tsarchive.load(path)
    with torch.no_grad():
        found = [copy.deepcopy(module(*args, **kwargs)) for _ in expected]
    assert close(found, expected)  # which another kind of processor rounds


@by_path
def test_nothing_is_wrong_with_it(path):
    findings = tsarchive.verify(path).findings
    assert [finding for finding in findings if finding.severity > Severity.INFO] == []


@by_path
def test_its_tensors_are_those_of_its_state(path):
    with zipfile.ZipFile(path) as source:
        state = torch.load(io.BytesIO(source.read("serialized_state_dict.json")), weights_only=True)
    with tsarchive.open(path) as archive:
        assert {name: tuple(found.shape) for name, found in archive.tensors.items()} == {
            name: tuple(tensor.shape) for name, tensor in state.items()
        }


FIRST = OLD / "2.1.2" / "counter.pt2"


def test_a_program_that_holds_tensors_is_named(tmp_path):
    def change(program):
        program["graph_module"]["graph"]["constants"] = {"_tensor_constant0": "UEsDBA=="}

    path = changed(FIRST, tmp_path, change)
    with pytest.raises(UnsupportedError, match="made of numbers"):
        tsarchive.load(path)
    (found,) = [f for f in tsarchive.verify(path).findings if f.severity > Severity.INFO]
    assert (found.rule, found.nature) == ("program-version", Nature.OTHER_KIND)


def test_a_program_without_a_signature_is_malformed(tmp_path):
    path = changed(FIRST, tmp_path, lambda program: program["graph_module"].pop("signature"))
    with pytest.raises(FormatError, match="is not as torch"):
        tsarchive.load(path)


def test_versions_between_are_named(tmp_path):
    """Of torch 2.3: never a damaged file."""
    path = changed(FIRST, tmp_path, lambda program: program.update(schema_version=3))
    with pytest.raises(UnsupportedError, match="schema version 3"):
        tsarchive.load(path)
