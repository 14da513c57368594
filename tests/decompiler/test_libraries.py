"""Modules that are those of a library are written as objects of its classes."""

from __future__ import annotations

import ast
import importlib
import io

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import torch_saved
from tsarchive.decompiler.libraries import LibraryModules
from tsarchive.library import Recovered


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 2)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
        self.last = nn.ModuleList([nn.ReLU()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in self.last:
            x = module(x)
        return self.rest(self.second(self.first(x)))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("libraries") / "twice.pt"
    path.write_bytes(torch_saved(torch.jit.script(Twice())))
    return tsarchive.load(path)


def shown(tree: ast.expr | None) -> str | None:
    """The text of a tree; references show what they refer to."""
    return None if tree is None else ast.unparse(tree).replace("nn@torch.nn:", "nn")


def linear(module) -> Recovered | None:
    """Finds layers by name, and proves nothing."""
    if module.original_name != "Linear":
        return None
    return Recovered("elsewhere.layers.Linear", (module.in_features,), {"dtype": torch.float16})


def test_what_is_found_is_made_by_its_class(root):
    modules = LibraryModules(root, linear)
    made = shown(modules.made(root.first))
    assert made.startswith("Linear@elsewhere.layers:Linear(2, dtype=")
    assert made.endswith("float16)")
    assert shown(modules.class_(root.first.tsarchive_class)) == "Linear@elsewhere.layers:Linear"
    assert modules.made(root) is None
    assert set(modules.written.values()) == {"", "rest", "rest.0", "last", "last.0"}
    assert modules.copies == {"torch.nn.ReLU": 2}


def test_a_class_is_the_packages_where_one_of_its_modules_is(root):
    def first_alone(module):
        return linear(module) if module is root.first else None

    modules = LibraryModules(root, first_alone)
    assert modules.made(root.first) is not None
    assert modules.made(root.second) is None
    assert modules.class_(root.second.tsarchive_class) is None


def test_containers_of_torch_stay_so(root):
    modules = LibraryModules(root, lambda _: None)
    assert shown(modules.class_(root.rest.tsarchive_class)) == "nn.Sequential"
    assert shown(modules.class_(root.last.tsarchive_class)) == "nn.ModuleList"
    assert modules.class_(root.tsarchive_class) is None


class Head(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"left": Head(2), "0": Head(1)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, head in self.heads.items():
            x = head(x) * len(name)
        return x + self.heads["left"](x) * len(self.heads)


def test_a_dict_of_modules_stays_one(tmp_path, monkeypatch):
    scripted = torch.jit.script(Named())
    tsarchive.decompile(io.BytesIO(torch_saved(scripted)), tmp_path / "named_heads")
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("named_heads").load()
    assert type(model.heads) is nn.ModuleDict
    assert [*model.heads] == ["left", "0"]
    assert model.state_dict().keys() == scripted.state_dict().keys()
    x = torch.arange(4.0).view(2, 2)
    assert torch.equal(model(x), scripted(x))


def test_an_argument_that_a_call_cannot_say_is_refused(root):
    modules = LibraryModules(root, lambda m: Recovered("a.B", (object(),), {}))
    with pytest.raises(tsarchive.UnsupportedError, match="type object"):
        modules.made(root)


class Shared(nn.Module):
    """Its activation is one module in two places: traced code passes it to the container."""

    def __init__(self):
        super().__init__()
        act = nn.ReLU()
        self.body = nn.Sequential(nn.Linear(2, 2), act)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.body(x))


def test_a_container_with_code_of_its_own_keeps_it(tmp_path):
    x = torch.tensor([[-1.0, 2.0]])
    traced = torch.jit.trace(Shared(), x)
    (tmp_path / "shared.pt").write_bytes(torch_saved(traced))
    root = tsarchive.load(tmp_path / "shared.pt")
    assert LibraryModules(root, lambda _: None).class_(root.body.tsarchive_class) is None
