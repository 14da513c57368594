"""Properties of script classes and modules are properties of the decompiled classes."""

import importlib
import io

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import torch_loaded, torch_saved
from tests.support.comparing import equal


@torch.jit.script
class Box:
    def __init__(self, x: int):
        self.x = x

    @property
    def size(self) -> int:
        return self.x + 1

    @size.setter
    def size(self, value: int):
        self.x = value * 2

    @property
    def only_read(self) -> str:
        return str(self.x)


class Holder(nn.Module):
    box: Box

    def __init__(self):
        super().__init__()
        self.box = Box(3)
        self.k = 2
        self.scale = nn.Parameter(torch.ones(2))
        self.other = torch.ones(2)

    @property
    def doubled(self) -> int:
        return self.k * 2

    @doubled.setter
    def doubled(self, value: int) -> None:
        self.k = value

    @property
    def weight(self) -> torch.Tensor:
        return self.other

    @weight.setter
    def weight(self, value: torch.Tensor) -> None:
        self.other = value

    def forward(self, x: int) -> tuple[int, int, str, torch.Tensor]:
        self.box.size = x + self.doubled
        self.doubled = self.box.size
        if x > 3:
            self.doubled = self.doubled + 1
        self.weight = self.scale
        return self.box.size, self.doubled, self.box.only_read, self.weight * 2


def test_properties(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    data = torch_saved(torch.jit.script(Holder()))
    tsarchive.decompile(io.BytesIO(data), tmp_path / "decompiled_properties")
    importlib.invalidate_caches()
    model = importlib.import_module("decompiled_properties").load()
    theirs = torch_loaded(data)
    for x in (1, 5, 2):
        found, expected = model(x), theirs(x)
        assert found[:3] == expected[:3]
        assert torch.equal(found[3], expected[3])
    model.doubled = 7
    assert (model.k, model.doubled) == (7, 14)
    model.box.size = 4
    assert (model.box.x, model.box.size) == (8, 9)
    classes = type(model), type(model.box)
    assert [isinstance(vars(c)[name], property) for c in classes for name in _own(c)] == [True] * 3


def _own(class_: type) -> list[str]:
    return [name for name in ("doubled", "size", "only_read") if name in vars(class_)]


class Spelled(nn.Module):
    """Names that Python changes inside of classes, and names that modules have themselves."""

    def __init__(self):
        super().__init__()
        self.k = 2

    @property
    def _hidden(self) -> int:
        return self.k + 1

    @property
    def __private(self) -> int:
        return self.k + 2

    @property
    def type(self) -> int:
        return self.k + 3

    @property
    def mode(self) -> int:
        return self.k

    @mode.setter
    def mode(self, value: int) -> None:
        self.k = value

    def forward(self, x: int) -> int:
        self.mode = x
        return self._hidden + self.type


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.filterwarnings("ignore:The TorchScript type system doesn't:UserWarning")
@pytest.mark.parametrize(
    ("build", "given"),
    [(Spelled, 5), (lambda: torch.fx.symbolic_trace(Linear()), torch.ones(1, 2))],
    ids=["spelled", "graph_module"],
)
def test_getters_have_the_names_of_the_archive(build, given, request, tmp_path, monkeypatch):
    name = f"decompiled_{request.node.callspec.id}"
    monkeypatch.syspath_prepend(tmp_path)
    data = torch_saved(torch.jit.script(build()))
    tsarchive.decompile(io.BytesIO(data), tmp_path / name)
    importlib.invalidate_caches()
    model, theirs = importlib.import_module(name).load(), torch_loaded(data)
    assert equal(model(given), theirs(given))
    getters = [name for name in theirs._c._method_names() if name.endswith("_getter")]
    assert getters
    for getter in getters:
        assert getattr(model, getter)() == theirs._c._get_method(getter)()
