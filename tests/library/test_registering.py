"""Classes of other libraries than torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.support.archives import loaded, saved
from tsarchive.errors import CallError
from tsarchive.library import known, outcomes, recovered, register


class Scaled(nn.Module):
    """A layer as a library may define it."""

    def __init__(self, size: int, factor: float = 1.0, shift: bool = True) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.rand(size))
        self.shift = nn.Parameter(torch.rand(size)) if shift else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x * self.weight * self.factor
        return found if self.shift is None else found + self.shift


class Deep(nn.Module):
    """Makes as many layers as it is told."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(700, 1) for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


@pytest.fixture(autouse=True)
def _none_registered(monkeypatch):
    monkeypatch.setattr(known, "_registered", {})


def archived(*arguments: Any) -> Any:
    return loaded(saved(torch.jit.script(Scaled(*arguments))))


def test_a_class_that_is_not_registered_stays():
    (row,) = outcomes(archived(4))
    assert row.reason == "its class is of no library that is known here"


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((4,), {}), ((3, 2.0), {"factor": 2.0}), ((4, 1.0, False), {"shift": False})],
)
def test_a_registered_class_comes_back(arguments, keywords):
    register(Scaled)
    found = recovered(archived(*arguments))
    assert found is not None
    assert found.qualified_name == f"{__name__}.Scaled"
    assert found.positional == arguments[:1]
    assert found.keywords == keywords


def test_a_network_has_objects_of_a_registered_class():
    register(Scaled)
    archive = saved(torch.jit.script(nn.Sequential(Scaled(4), nn.Linear(4, 3))))
    net, x = loaded(archive, modules="torch"), torch.rand(2, 4)
    assert type(net[0]) is Scaled
    assert torch.equal(net(x), loaded(archive)(x))


def test_the_number_of_layers_is_told_by_their_names():
    register(Deep)
    found = recovered(loaded(saved(torch.jit.script(Deep(3)))))
    assert found is not None
    assert found.positional == (3,)


def test_entry_points_register(monkeypatch):
    class Point:
        def load(self) -> Any:
            return lambda: register(Scaled)

    asked = []
    monkeypatch.setattr(known, "entry_points", lambda group: asked.append(group) or [Point()])
    known._ask_entry_points.cache_clear()
    assert recovered(archived(4)) is not None
    assert asked == ["tsarchive.library"]
    known._ask_entry_points.cache_clear()


def test_what_cannot_be_registered_is_refused():
    class Local(nn.Module):
        pass

    for wrong in (Local, int, Scaled(2)):
        with pytest.raises(CallError):
            register(wrong)
