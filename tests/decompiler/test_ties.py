"""Models that are made without their weights: what is tied stays so, and tensors have values."""

from __future__ import annotations

import importlib
import io

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import torch_saved


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 3))
        self.register_buffer("table", torch.arange(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.table


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Tied(nn.Module):
    """Ties of layers, of classes of the package, below containers, and of whole modules."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(3, 3)
        self.head = nn.Linear(3, 3, bias=False)
        self.head.weight = self.embed.weight
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.layers[1].weight = self.layers[0].weight
        self.own = Own()
        self.other = Own()
        self.other.table = self.own.table
        self.mixed = Own()
        self.mixed.weight = self.layers[0].weight
        self.inner = Inner()
        self.again = Inner()
        self.alias = Own()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x) + self.other(x) + self.own(x) + self.mixed(x) + self.alias(x)
        for layer in self.layers:
            x = layer(x)
        return self.inner(x) + self.again(x) + self.embed.weight


def scripted() -> torch.jit.ScriptModule:
    """The model with modules at two paths, which scripting makes two modules of."""
    made = torch.jit.script(Tied())
    made._c.setattr("alias", made.own._c)
    made.layers._c.setattr("2", getattr(made.layers, "1")._c)
    return torch.jit.load(io.BytesIO(torch_saved(made)))


def tied_paths(model: nn.Module) -> list[list[str]]:
    """The paths of each tensor that has several."""
    paths: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        paths.setdefault(id(tensor), []).append(name)
    return sorted(sorted(names) for names in paths.values() if len(names) > 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the package ``ties_package``."""
    made = tmp_path_factory.mktemp("ties")
    archive = io.BytesIO(torch_saved(scripted()))
    tsarchive.decompile(archive, made / "ties_package")
    return made


def test_a_new_model_is_tied_as_the_archive(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    package = importlib.import_module("ties_package")
    expected = [
        ["again.first.weight", "again.second.weight"],
        ["alias.table", "other.table", "own.table"],
        ["alias.weight", "own.weight"],
        ["embed.weight", "head.weight"],
        ["inner.first.weight", "inner.second.weight"],
        ["layers.0.weight", "layers.1.weight", "layers.2.weight", "mixed.weight"],
        ["layers.1.bias", "layers.2.bias"],
    ]
    assert tied_paths(package.load()) == expected
    made = package.Tied()
    assert tied_paths(made) == expected
    assert made.alias is made.own
    assert made.layers[2] is made.layers[1]
    assert not made.mixed.table.any()
    made.load_state_dict(package.load().state_dict())
    x = torch.eye(3)
    assert torch.equal(made(x), package.load()(x))


def test_ties_read_as_people_write_them(folder):
    (file,) = folder.rglob("test_ties.py")
    text = file.read_text(encoding="utf-8")
    assert "self.head.weight = self.embed.weight\n" in text
    assert "self.alias = self.own\n" in text
    assert text.count("self.second.weight = self.first.weight\n") == 1
