"""Exported programs that are converted without an archive between, and what is not converted."""

import sys

import pytest
import torch
from torch import nn
from torch.export import export

import tsarchive
from tests.support.features import stores_weights_apart
from tsarchive.formats.pt2.exporter import exported_program
from tsarchive.formats.pt2.importer import sample_values
from tsarchive.formats.pt2.records import Records


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("shift", torch.ones(2), persistent=False)

    def forward(self, x, named):
        return self.linear(x) + self.shift * named["scale"]


ARGS = (torch.linspace(-1, 1, 8).view(2, 4), {"scale": torch.tensor(3.0)})


@pytest.fixture
def program():
    torch.manual_seed(0)
    return export(Net().eval(), ARGS)


@pytest.mark.parametrize("name", ["x.pt", "x.pt2"])
def test_a_program_becomes_an_archive(tmp_path, program, name):
    done = tsarchive.convert(program, tmp_path / name)
    assert done.file == done.file_kind == "exported program"
    assert done.nbytes == (tmp_path / name).stat().st_size
    expected = program.module()(*ARGS)
    assert torch.equal(tsarchive.load(tmp_path / name)(*ARGS), expected)
    if name == "x.pt":
        assert torch.equal(torch.jit.load(tmp_path / name)(*ARGS), expected)


def test_a_program_takes_no_arguments(tmp_path, program):
    with pytest.raises(tsarchive.CallError, match="nothing is traced"):
        tsarchive.convert(program, tmp_path / "x.pt2", args=ARGS)


def test_only_programs_of_executorch_have_data_files(tmp_path, program):
    with pytest.raises(tsarchive.CallError, match="have data beside them"):
        tsarchive.convert(program, tmp_path / "x.pt2", data=tmp_path / "x.ptd")


def test_files_of_executorch_are_not_converted(tmp_path):
    (tmp_path / "x.pte").write_bytes(b"\x20\0\0\0ET12" + bytes(64))
    with pytest.raises(tsarchive.UnsupportedError, match=r"a .pte file is not converted"):
        tsarchive.convert(tmp_path / "x.pte", tmp_path / "x.pt")


def test_the_package_is_named_where_it_is_absent(tmp_path, program, monkeypatch):
    monkeypatch.setitem(sys.modules, "executorch.exir", None)
    with pytest.raises(tsarchive.UnsupportedError, match="the executorch package") as caught:
        tsarchive.convert(program, tmp_path / "x.pte")
    assert caught.value.hint == 'pip install "tsarchive[executorch]"'


@stores_weights_apart
def test_a_loaded_program_is_handed_to_torch_with_what_it_holds_now(tmp_path, program):
    tsarchive.save(program, tmp_path / "x.pt2")
    module = tsarchive.load(tmp_path / "x.pt2")
    with torch.no_grad():
        module.linear.weight.mul_(2)
    found = exported_program(module)
    assert found.graph_signature.user_inputs == program.graph_signature.user_inputs
    assert torch.equal(found.module()(*ARGS), module(*ARGS))
    assert torch.equal(found.state_dict["linear.weight"], program.state_dict["linear.weight"] * 2)


@stores_weights_apart
def test_one_of_several_models_is_handed_over(tmp_path, program):
    other = export(nn.ReLU(), (torch.ones(3),))
    tsarchive.save({"net": program, "relu": other}, tmp_path / "x.pt2")
    found = exported_program(tsarchive.load(tmp_path / "x.pt2", model="relu"))
    assert torch.equal(found.module()(-torch.ones(3)), torch.zeros(3))
    assert found.state_dict == {}


def test_example_inputs_are_read_without_unpickling(tmp_path, program):
    tsarchive.save(program, tmp_path / "x.pt2")
    with tsarchive.open(tmp_path / "x.pt2") as archive:
        (x, named), kwargs = sample_values(Records(archive.container), "model")
    assert torch.equal(x, ARGS[0])
    assert torch.equal(named["scale"], ARGS[1]["scale"])
    assert kwargs == {}
