"""Packed parameters of every engine for quantized operators: some hold the weight they were given,
others make it anew, and torch's pickles differ by that."""

from __future__ import annotations

import io

import pytest
import torch
from torch.ao.nn import quantized

import tsarchive
from tests.support.archives import (
    comparable_records,
    expected_records,
    records_of,
    saved,
    torch_saved,
)

ENGINES = [name for name in torch.backends.quantized.supported_engines if name != "none"]
MODULES = {
    "linear": lambda: quantized.Linear(2, 2),
    "linear_without_bias": lambda: quantized.Linear(2, 2, bias_=False),
    "dynamic_linear": lambda: quantized.dynamic.Linear(2, 2),
    "conv1d": lambda: quantized.Conv1d(2, 2, 3),
    "conv2d": lambda: quantized.Conv2d(2, 2, 3),
    "transposed": lambda: quantized.ConvTranspose2d(2, 2, 3),
    "lstm": lambda: quantized.dynamic.LSTM(2, 2),
    "embedding": lambda: quantized.Embedding(10, 12),
}


@pytest.fixture(params=ENGINES)
def engine(request):
    previous = torch.backends.quantized.engine
    torch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = previous


@pytest.mark.filterwarnings("ignore:.*quantize.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated.*:DeprecationWarning")
@pytest.mark.parametrize("name", MODULES)
def test_records_equal_those_of_torch(engine, name):
    module = torch.jit.script(MODULES[name]())
    ours = saved(module)
    assert comparable_records(records_of(ours)) == comparable_records(expected_records(module))
    loaded = tsarchive.load(io.BytesIO(torch_saved(module)))
    assert records_of(saved(loaded))["data.pkl"] == records_of(ours)["data.pkl"]
    assert saved(loaded, canonical=True) == saved(module, canonical=True)
