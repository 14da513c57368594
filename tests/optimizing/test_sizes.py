"""Sizes in tensors become numbers in optimized modules by the rule of generated code."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

import tsarchive
from tests.run.test_traced_sizes import USES, WRONG_IN_TORCH, archive_of_use
from tests.support.running import check_same

from .test_optimize import check, saved

NUMBERS = (-(2**63), -7, 0, 1, 2, 2**63 - 1)


@pytest.mark.parametrize(("body", "is_number"), USES)
def test_numbers_are_those_of_torch(body, is_number):
    data = archive_of_use(body)
    theirs = torch.jit.load(io.BytesIO(data))
    optimized = tsarchive.optimize(tsarchive.load(io.BytesIO(data)))
    written = torch.jit.load(io.BytesIO(saved(optimized)))
    if is_number:
        assert "NumToTensor" not in written.f.code
    for n in NUMBERS:
        if not any(text in body for text in WRONG_IN_TORCH):
            check_same(theirs.f, optimized.f, n)
            check_same(theirs.f, written.f, n)


class Positions(nn.Module):
    def forward(self, x):
        rest = torch.div(x.size(0) - 3, 2, rounding_mode="trunc")
        return x + torch.arange(x.size(1)), torch.full((2,), x.size(0) * 3), x[: 4 - rest]


def test_scalars_and_quotients_of_differences_are_numbers():
    x = torch.randn(4, 6)
    module = torch.jit.trace(Positions().eval(), x)
    assert "aten::ScalarImplicit" in str(module.graph)
    optimized = tsarchive.optimize(module)
    check(module, optimized, (x,), (torch.randn(1, 3),), (torch.randn(9, 2),))
    code = torch.jit.load(io.BytesIO(saved(optimized))).code
    assert "NumToTensor" not in code
