"""Random programs: their packages run as torch.jit runs the archives."""

from __future__ import annotations

import importlib
import io
import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings

import tsarchive
from tests.support.archives import torch_loaded, torch_saved
from tests.support.comparing import equal
from tests.support.random_programs import archive_of
from tests.support.running import check_same_as_either
from tests.support.suite import examples
from tsarchive.testing import programs

_numbers = itertools.count()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore")  # programs warn as they please
@given(program=programs())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_programs(folder, program):
    data = archive_of(program)
    name = f"decompiled_program_{next(_numbers)}"
    tsarchive.decompile(io.BytesIO(data), folder / name)
    importlib.invalidate_caches()
    ours = importlib.import_module(name).load()
    for inputs in program.inputs:
        check_same_as_either(torch_loaded(data), torch_loaded(data), ours, *inputs)


class LeavesOut(torch.nn.Module):
    """Arithmetic that torch's executor does not do, which shows in dtypes and for nan."""

    def forward(self, mask: torch.Tensor, x: float, items: list[torch.Tensor]):
        seen = mask * 1
        kept = (mask + 0) & mask.logical_not()
        return seen, kept, (mask + 1) * 1, x == x, x != x, len([mask, kept]), items[0] * 1


def test_what_torch_leaves_out(folder):
    data = torch_saved(torch.jit.script(LeavesOut()))
    tsarchive.decompile(io.BytesIO(data), folder / "decompiled_leaves_out")
    importlib.invalidate_caches()
    ours = importlib.import_module("decompiled_leaves_out").load()
    inputs = torch.tensor([True, False]), float("nan"), [torch.tensor([True])]
    expected = torch_loaded(data)(*inputs)
    assert equal(expected, ours(*inputs))
    assert (expected[0].dtype, expected[1].dtype) == (torch.int64, torch.bool)
