"""Weights as safetensors, with the structure of the model beside them."""

from __future__ import annotations

import io
import json
import struct

import pytest
import torch
from torch import nn

import tsarchive
from tests.converting.comparing import texts
from tests.support.archives import FIXTURES, saved
from tests.support.processes import torch_process
from tests.support.safetensors_files import parsed
from tsarchive import weights_export
from tsarchive.ir.names import unmangled


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.conv = nn.Conv2d(3, 4, (2, 3), stride=2)
        self.out = nn.Linear(4, 5)
        self.out.weight = self.embedding.weight
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())
        self.names = ["a", "b"]
        self.limit = float("inf")

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return self.out(self.embedding(x)) * scale + self.conv(self.turned.new_ones(3, 4, 5)).sum()


def converted(source, tmp_path, **options):
    """Return the tensors, the structure, and the conversion."""
    path = tmp_path / "net.safetensors"
    done = tsarchive.convert(source, path, **options)
    structure = json.loads((tmp_path / "net.json").read_text(), parse_constant=pytest.fail)
    tensors, metadata = parsed(path.read_bytes())
    assert metadata == {"format": "pt"}
    assert done.data == str(tmp_path / "net.json")
    assert done.nbytes == path.stat().st_size
    return tensors, structure, done


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
        assert found[name].dtype is tensor.dtype


@pytest.fixture
def tied(tmp_path):
    torch.manual_seed(0)
    module = Tied().eval()
    path = tmp_path / "net.pt"
    path.write_bytes(saved(torch.jit.script(module)))
    return module, path


def test_every_tensor_of_the_state_is_there(tied, tmp_path):
    module, path = tied
    tensors, _, done = converted(path, tmp_path)
    assert_same(tensors, module.state_dict())
    Tied().load_state_dict(tensors)
    assert (done.kind, done.file_kind, done.notes) == ("safetensors", "torchscript", ())


def test_the_structure(tied, tmp_path):
    module, path = tied
    _, structure, _ = converted(path, tmp_path)
    assert (structure["schema"], structure["version"]) == ("tsarchive.structure", 1)
    assert (structure["kind"], structure["weights"]) == ("torchscript", "net.safetensors")
    root = structure["root"]
    assert root["methods"] == ["forward(x: Tensor, scale: float=2.0) -> Tensor"]
    assert [child["name"] for child in root["children"]] == [n for n, _ in module.named_children()]
    assert unmangled(root["children"][1]["class"]) == "__torch__.torch.nn.modules.conv.Conv2d"
    assert structure["shared"] == [["embedding.weight", "out.weight"]]
    rows = {row["name"]: row for row in structure["tensors"]}
    assert [*rows["conv.weight"]["shape"]] == [4, 3, 2, 3]
    assert (rows["turned"]["dtype"], rows["turned"]["role"]) == ("float32", "buffer")
    assert {row["stored"] for row in structure["tensors"]} == {"yes"}
    conv = structure["values"]["conv"]["constants"]
    assert (conv["stride"], conv["kernel_size"]) == ({"tuple": [2, 2]}, {"tuple": [2, 3]})
    assert structure["values"][""]["attributes"]["names"] == {"list": ["a", "b"]}
    assert structure["values"][""]["attributes"]["training"] is False
    assert "limit" in str(structure["values"][""])


def test_programs(tmp_path):
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    program = torch.export.export(module, (torch.ones(4, 3),))
    tsarchive.save(program, tmp_path / "net.pt2")
    for source, kind in ((program, "exported program"), (tmp_path / "net.pt2", "pt2")):
        tensors, structure, done = converted(source, tmp_path)
        assert_same(tensors, module.state_dict())
        assert (done.file_kind, structure["kind"]) == (kind, "pt2")
        assert [child["name"] for child in structure["root"]["children"]] == ["0", "1"]


def test_one_of_several_models(tmp_path):
    modules = {"one": nn.Linear(3, 2), "two": nn.Linear(2, 2)}
    programs = {
        name: torch.export.export(module, (torch.ones(4, module.in_features),))
        for name, module in modules.items()
    }
    both, _, _ = converted(programs, tmp_path)
    assert_same(
        both, {f"{n}.{k}": v for n, m in modules.items() for k, v in m.state_dict().items()}
    )
    tsarchive.save(programs, tmp_path / "net.pt2")
    alone, _, _ = converted(tmp_path / "net.pt2", tmp_path, model="two")
    assert_same(alone, modules["two"].state_dict())
    with pytest.raises(tsarchive.MissingRecordError, match="three"):
        tsarchive.convert(tmp_path / "net.pt2", tmp_path / "x.safetensors", model="three")


def test_programs_of_executorch(tmp_path):
    source = FIXTURES / "executorch" / "linear.pte"
    tensors, structure, done = converted(source, tmp_path)
    with tsarchive.open(source) as archive:
        assert tensors.keys() == archive.tensors.keys()
    assert (done.file_kind, structure["kind"]) == ("pte", "pte")


def test_what_safetensors_lacks_is_told(tmp_path):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("wide", torch.ones(2, dtype=torch.complex128))
            self.register_buffer("plain", torch.ones(2))

        def forward(self) -> torch.Tensor:
            return self.wide * self.plain

    path = tmp_path / "net.pt"
    path.write_bytes(saved(torch.jit.script(Odd())))
    tensors, structure, done = converted(path, tmp_path)
    assert (
        tensors["wide"].numpy().tobytes() == torch.ones(2, dtype=torch.complex128).numpy().tobytes()
    )
    assert {row["name"]: row["stored"] for row in structure["tensors"]} == {
        "wide": "as bytes", "plain": "yes",
    }  # fmt: skip
    assert texts(done) == ("wide is written as bytes: safetensors has no complex128",)


class Lazy(nn.Module):
    """Tensors that are conjugated or negated when they are read, and the one that both share."""

    def __init__(self) -> None:
        super().__init__()
        plain = torch.complex(torch.arange(6.0), torch.arange(6.0) + 1).view(2, 3)
        self.register_buffer("plain", plain)
        self.register_buffer("conjugated", plain.conj())
        self.register_buffer("turned", plain.conj().t())
        self.register_buffer("negated", plain.conj().imag)
        self.register_buffer("doubles", plain.to(torch.complex128).conj().imag)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_conjugated_and_negated_tensors_have_their_values(tmp_path):
    module = Lazy()
    assert module.conjugated.is_conj()
    assert module.negated.is_neg()
    path = tmp_path / "lazy.pt"
    path.write_bytes(saved(torch.jit.script(module)))
    tensors, structure, _ = converted(path, tmp_path)
    assert_same(tensors, module.state_dict())
    assert structure["shared"] == []


def test_pieces_need_not_be_whole_elements():
    elements = struct.pack("<4f", 1, 2, -3, 4)
    pieces = [elements[:3], elements[3:9], elements[9:]]
    flipped = b"".join(weights_export._flipped(pieces, weights_export._signs(4, 1, {"neg"})))
    assert flipped == struct.pack("<4f", -1, -2, 3, -4)


def test_tensors_of_other_files_are_told(tmp_path):
    tensors, _, done = converted(FIXTURES / "executorch" / "state.pte", tmp_path)
    assert {*tensors} == {"count", "step.2"}
    assert texts(done) == ("net.weight is left out: its elements are in another file",)


def test_extra_files_are_told(tmp_path):
    path = tmp_path / "net.pt"
    tsarchive.save(torch.jit.script(nn.Linear(2, 2)), path, extra_files={"notes.txt": b"x"})
    _, _, done = converted(path, tmp_path)
    assert done.extra_files_left_out == ("notes.txt",)


def test_examples_are_left_out(tmp_path):
    tensors, structure, done = converted(FIXTURES / "executorch" / "linear.bpte", tmp_path)
    assert {*tensors} == {"forward.0", "forward.2"}
    assert len(done.notes) == len(structure["tensors"]) - len(tensors) == 2
    assert done.notes[0].text.endswith("it is an example, and no part of the model")


def test_sparse_tensors_are_left_out(tmp_path):
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("thin", torch.eye(3).to_sparse())
            self.register_buffer("plain", torch.ones(2))

        def forward(self) -> torch.Tensor:
            return self.plain

    path = tmp_path / "net.pt"
    path.write_bytes(saved(torch.jit.script(Sparse())))
    tensors, structure, done = converted(path, tmp_path)
    assert {*tensors} == {"plain"}
    assert {row["name"]: row["stored"] for row in structure["tensors"]} == {
        "thin": "no", "plain": "yes",
    }  # fmt: skip
    assert texts(done) == ("thin is left out: it is sparse, or quantized by channel",)


def test_files_without_tensors(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(saved(torch.jit.script(nn.ReLU())))
    with pytest.raises(tsarchive.UnsupportedError, match="no tensors to write"):
        tsarchive.convert(path, tmp_path / "x.safetensors")
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("options", [{"args": ()}, {"opset": 18}, {"canonical": True}])
def test_arguments_that_are_not_taken(options, tied, tmp_path):
    with pytest.raises(tsarchive.CallError, match="files of safetensors take no"):
        tsarchive.convert(tied[1], tmp_path / "x.safetensors", **options)


def test_an_error_while_writing_leaves_both_files(tied, tmp_path, monkeypatch):
    from tsarchive import weights_export

    def fails(*args):
        raise tsarchive.SaveError("no room")

    monkeypatch.setattr(weights_export, "write_safetensors", fails)
    (tmp_path / "net.json").write_text("as it was")
    with pytest.raises(tsarchive.SaveError):
        tsarchive.convert(tied[1], tmp_path / "net.safetensors")
    assert (tmp_path / "net.json").read_text() == "as it was"
    assert not (tmp_path / "net.safetensors").exists()


def test_the_same_file_gives_the_same_bytes(tied, tmp_path):
    _, path = tied
    converted(path, tmp_path)
    first = [(tmp_path / name).read_bytes() for name in ("net.safetensors", "net.json")]
    done = torch_process(
        "-c", "import sys, tsarchive; tsarchive.convert(*sys.argv[1:])", path, "net.safetensors",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / n).read_bytes() for n in ("net.safetensors", "net.json")] == first


def test_safetensors_reads_it(tied, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    module, path = tied
    tsarchive.convert(path, tmp_path / "net.safetensors")
    assert_same(safetensors.load_file(tmp_path / "net.safetensors"), module.state_dict())


def test_a_file_object_in_memory_is_no_destination(tied):
    with pytest.raises(TypeError):
        tsarchive.convert(tied[1], io.BytesIO())
