"""Functions of torch.nn.functional in archives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.support.archives import loaded, saved
from tsarchive.ir.classes import FunctionType
from tsarchive.ir.graph import walk
from tsarchive.ir.names import unmangled
from tsarchive.library import recovered_function


class Calls(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(x)
        y = F.dropout(y, 0.3, self.training)
        y = F.leaky_relu(y, 0.2)
        return F.hardtanh(y)


def same_but_for_two(input: torch.Tensor, negative_slope: float = 0.01, inplace: bool = False):
    if inplace:
        return F.leaky_relu(input, negative_slope, True)
    return F.leaky_relu(input, negative_slope) * (2.0 if negative_slope == 2.0 else 1.0)


def functions_of(module: torch.nn.Module) -> dict[str, Any]:
    archived = loaded(saved(torch.jit.script(module))).tsarchive_class.methods["forward"]
    types = [node.output.type for node in walk(archived.graph.nodes) if node.is_constant]
    found = [type_.function for type_ in types if isinstance(type_, FunctionType)]
    return {function.name: function for function in found}


@pytest.mark.parametrize("name", ["relu", "dropout", "leaky_relu", "hardtanh"])
def test_functions_come_back(name):
    assert recovered_function(functions_of(Calls())[name]) == f"torch.nn.functional.{name}"


def test_a_name_alone_makes_no_function_of_torch(monkeypatch):
    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return same_but_for_two(x)

    monkeypatch.setattr(same_but_for_two, "__module__", "torch.nn.functional")
    monkeypatch.setattr(same_but_for_two, "__name__", "leaky_relu")
    (function,) = functions_of(Other()).values()
    assert unmangled(function.qualified_name) == "__torch__.torch.nn.functional.leaky_relu"
    assert recovered_function(function) is None


def test_functions_of_others_stay(monkeypatch):
    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return same_but_for_two(x)

    (function,) = functions_of(Other()).values()
    assert recovered_function(function) is None
