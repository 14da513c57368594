"""Random programs: their packages run as torch.jit runs the archives."""

from __future__ import annotations

import importlib
import io
import itertools

import pytest
import torch
from conftest import torch_loaded, torch_saved
from hypothesis import HealthCheck, given, settings
from running import check_same_as_either

import tsarchive
from tsarchive.testing import programs

_numbers = itertools.count()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore")  # programs warn as they please
@given(program=programs())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_programs(folder, program):
    data = torch_saved(torch.jit.script(program.module()))
    name = f"decompiled_program_{next(_numbers)}"
    tsarchive.decompile(io.BytesIO(data), folder / name)
    importlib.invalidate_caches()
    ours = importlib.import_module(name).load()
    for inputs in program.inputs:
        check_same_as_either(torch_loaded(data), torch_loaded(data), ours, *inputs)
