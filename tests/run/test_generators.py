"""Generators in code are made once: the numbers they give go on from call to call."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.archives import torch_loaded, torch_saved
from tests.support.comparing import equal


class Random(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        first = torch.Generator(device="cpu", seed=5)
        second = torch.Generator(device="cpu", seed=5)
        drawn = torch.rand([2], generator=first)
        return drawn + torch.rand([2], generator=first), torch.rand([2], generator=second) + x


class Chosen(torch.nn.Module):
    """A seed that is not known before the call makes a new generator in each."""

    def forward(self, x: torch.Tensor, seed: int):
        return torch.rand([2], generator=torch.Generator(device="cpu", seed=seed)) + x


@pytest.mark.parametrize(
    ("module", "arguments"), [(Random(), ()), (Chosen(), (3,))], ids=["constant", "argument"]
)
def test_calls_one_after_the_other(module, arguments):
    data = torch_saved(torch.jit.script(module))
    theirs, ours = torch_loaded(data), tsarchive.load(io.BytesIO(data))
    x = torch.zeros(2)
    for _ in range(3):
        assert equal(theirs(x, *arguments), ours(x, *arguments))
