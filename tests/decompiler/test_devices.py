"""Devices of decompiled packages: those of the code, of the weights, and of constants."""

from __future__ import annotations

import importlib
import io
import sys

import pytest
import torch
from torch import nn

import tsarchive
from tests.support import legacy_archives as legacy_support
from tests.support.archives import torch_saved
from tests.support.command_line import document
from tsarchive.container import Container, NewRecord, write_container


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        made = torch.zeros(4, device=x.device)
        return self.fc(x) + torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(20.0)[:4] + made


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.device = torch.device("cuda:0")
        self.table = [torch.ones(2)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.device) + self.table[0]


def on_cuda(data: bytes) -> bytes:
    """The archive as it would be if it had been traced on a GPU."""
    container = Container.open(io.BytesIO(data))
    out = io.BytesIO()
    records = []
    for name in container.records:
        if name == ".data/serialization_id":
            continue
        content = container.read(name)
        if name.endswith(".py"):
            content = content.replace(b'torch.device("cpu")', b'torch.device("cuda:0")')
        elif name.endswith(".pkl"):
            content = content.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0")
        records.append(NewRecord(name, content))
    write_container(out, records)
    return out.getvalue()


@pytest.fixture
def decompiled(tmp_path, monkeypatch):
    """Decompiles data; the package and its code."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def decompile(data: bytes, **options):
        name = f"package_{len(made)}_{tmp_path.name}"
        made.append(name)
        tsarchive.decompile(io.BytesIO(data), tmp_path / name, **options)
        importlib.invalidate_caches()
        texts = [path.read_text() for path in (tmp_path / name).rglob("[a-z]*.py")]
        return importlib.import_module(name), "\n".join(texts)

    yield decompile
    for name in list(sys.modules):
        if name.startswith(tuple(made)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def traced():
    return torch.jit.trace(Net(), torch.ones(2, 4))


def test_devices_stay_as_they_are_in_the_file(traced, decompiled):
    package, text = decompiled(on_cuda(torch_saved(traced)))
    assert 'torch.device("cuda:0")' in text
    assert 'torch.device("cpu")' not in text
    assert torch.equal(package.load().fc.weight, traced.fc.weight)


@pytest.mark.parametrize("map_location", ["cpu", torch.device("cpu")])
def test_code_moves_to_map_location(map_location, traced, decompiled):
    package, text = decompiled(on_cuda(torch_saved(traced)), map_location=map_location)
    assert "cuda" not in text
    x = torch.randn(2, 4)
    assert torch.equal(package.load()(x), traced(x))


def test_weights_and_constants_go_to_the_device(traced, decompiled):
    package, _ = decompiled(torch_saved(traced), map_location="meta")
    model = package.load()
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"meta"}
    assert model(torch.ones(2, 4, device="meta")).is_meta
    assert model.fc.weight.requires_grad
    constants = importlib.import_module(f"{package.__name__}._constants")
    package.load("cpu")
    assert torch.equal(constants.c0, torch.tensor([1.0, 2.0, 3.0, 4.0]))


def test_attributes(decompiled):
    data = torch_saved(torch.jit.script(Held()))
    package, _ = decompiled(data)
    assert package.load().device == torch.device("cuda:0")
    moved, _ = decompiled(data, map_location="meta")
    assert moved.load().device == torch.device("meta")
    assert moved.load().table[0].is_meta
    assert moved.load("cpu").table[0].tolist() == [1, 1]


def test_an_archive_of_before_torch_1_3(decompiled):
    model = legacy_support.model_of()
    model["tensors"][0]["device"] = "cuda:0"
    code = f'{legacy_support.FORWARD}  y = torch.to(x, torch.device("cuda:0"), 6, False, False)\n'
    records = {"code/m.py": f"{code}  return torch.add(y, self.weight, alpha=1)\n"}
    data = legacy_support.archive(model, **records).getvalue()
    package, text = decompiled(data)
    assert 'torch.device("cuda:0")' in text
    assert package.load().weight.tolist() == [1, 2]
    moved, text = decompiled(data, map_location="meta")
    assert "cuda" not in text
    assert moved.load()(torch.ones(2)).is_meta
    assert moved.load("cpu").weight.tolist() == [1, 2]


def test_no_device(traced, tmp_path):
    with pytest.raises(tsarchive.CallError, match="is not a device"):
        tsarchive.decompile(
            io.BytesIO(torch_saved(traced)), tmp_path / "package", map_location="gpu"
        )


def test_option_of_the_command(traced, tmp_path):
    archive = tmp_path / "net.pt"
    archive.write_bytes(on_cuda(torch_saved(traced)))
    package = tmp_path / "package"
    for options, expected in (((), True), (("--map-location", "cpu"), False)):
        found = document("decompile", archive, "-o", package, "--force", *options)
        names = [file["name"] for file in found["files"] if file["name"].endswith(".py")]
        assert any("cuda" in (package / name).read_text() for name in names) is expected
