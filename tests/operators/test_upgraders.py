"""Operators whose meaning changed: the table, and when code of an archive means the old one."""

from __future__ import annotations

import pytest
import torch

from tests.support.fresh_registry import NAMES_OF_TORCH
from tests.support.frontend import function_of, importer_of, method_text, torch_functions_of, walk
from tsarchive.errors import UnknownOperatorError
from tsarchive.ir.schema import parse_schema
from tsarchive.operators.upgraders import UPGRADERS

OPERATORS = torch._C._get_operator_version_map()


def test_the_table_is_torch_s():
    theirs = {
        name: (entry.bumped_at_version, entry.upgrader_name, parse_schema(entry.old_schema))
        for name, (entry,) in OPERATORS.items()
    }
    ours = {
        name: (entry.bumped_at, entry.upgrader, parse_schema(entry.old_schema))
        for name, entry in UPGRADERS.items()
    }
    for name, (bumped_at, upgrader, schema) in theirs.items():
        assert ours[name][:2] == (bumped_at, upgrader)
        assert ours[name][2].arguments == schema.arguments
    assert not (ours.keys() - theirs.keys()) & NAMES_OF_TORCH


PARAMETERS = "x: Tensor, y: Tensor, s: Optional[str]"
CALLS = [
    ("torch.div(x, y)", "div_Tensor_0_3", 3),
    ("torch.div(x, 2)", "div_Scalar_0_3", 3),
    ("torch.div_(x, y)", "div__Tensor_0_3", 3),
    ("torch.div_(x, 2)", "div__Scalar_0_3", 3),
    ("torch.div(x, y, out=y)", "div_out_0_3", 3),
    ("torch.div(x, y, rounding_mode=s)", "div_Tensor_mode_0_3", 3),
    ("torch.div(x, 2, rounding_mode=s)", "div_Scalar_mode_0_3", 3),
    ("torch.full([2], 1)", "full_0_4", 4),
    ("torch.full([2], 1, out=x)", "full_out_0_4", 4),
    ("torch.linspace(0, 1)", "linspace_0_7", 7),
    ("torch.linspace(0, 1, 5)", "linspace_0_7", 7),
    ("torch.logspace(0, 1)", "logspace_0_8", 8),
    ("torch.gelu(x)", "gelu_0_9", 9),
    ("torch.gelu(x, out=y)", "gelu_out_0_9", 9),
]


def upgraders_of(text: str, name: str, version: int) -> list[str]:
    graph = function_of(text, name, version=version).graph
    return [node.upgrader for node in walk(graph) if node.upgrader]


@pytest.mark.parametrize(("call", "upgrader", "last"), CALLS)
def test_methods_of_older_archives_mean_the_old_operator(call, upgrader, last):
    text = method_text(PARAMETERS, f"return {call}")
    assert upgraders_of(text, "M.f", last) == [upgrader]
    torch_functions_of(text, version=last)


@pytest.mark.parametrize(("call", "upgrader", "last"), CALLS)
def test_from_the_next_version_on_they_mean_the_current_one(call, upgrader, last):
    text = method_text(PARAMETERS, f"return {call}")
    if call in ("torch.linspace(0, 1)", "torch.logspace(0, 1)"):
        with pytest.raises(UnknownOperatorError, match="'steps' is missing"):
            upgraders_of(text, "M.f", last + 1)
    else:
        assert upgraders_of(text, "M.f", last + 1) == []


def test_unchanged_operators_have_no_upgrader():
    assert upgraders_of(method_text(PARAMETERS, "return torch.divide(x, y)"), "M.f", 1) == []
    assert upgraders_of(method_text("i: int", "return torch.div(i, i)"), "M.f", 1) == []


def test_free_functions_mean_the_current_operator():
    text = f"def f({PARAMETERS}):\n  return torch.div(x, y)\n"
    assert upgraders_of(text, "f", 1) == []


def test_closures_mean_the_current_operator():
    body = """def __forked_function():
  return torch.div(x, y)
z = fork(__forked_function)
return torch.gelu(x)"""
    assert upgraders_of(method_text(PARAMETERS, body), "M.f", 1) == ["gelu_0_9"]


def test_hooks_mean_the_current_operator():
    text = method_text(PARAMETERS, "return torch.gelu(x)").replace(
        "  def f(", '  __forward_hooks__ = ["f", ]\n  def f('
    )
    (hook,) = importer_of(text, version=1).find_class("__torch__.M").forward_hooks
    assert not any(node.upgrader for node in walk(hook.graph))
