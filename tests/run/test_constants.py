"""Constants without dimensions act as numbers in arithmetic, wherever torch lets them."""

from __future__ import annotations

import pytest
import torch

from tests.support.running import check_same, our_module, ours

DTYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.complex128)
OPERANDS = (
    torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), torch.tensor(2.0), torch.tensor(2),
    torch.tensor([1.0], dtype=torch.float16), torch.tensor([True]),
)  # fmt: skip


# Both forms of a choice are meant.
# ruff: noqa: SIM108


@torch.jit.script
def in_branches(x, c):
    if x.sum() > 0:
        y = x * c
    else:
        y = x + c
    return y


@torch.jit.script
def in_a_loop(x, c, n: int):
    for _ in range(n):
        x = x * c
    return x


@torch.jit.script
def carried(x, c, n: int):
    for _ in range(n):
        x = x * c
        c = c * 1
    return x


def divided(x, c):
    return x / c


@torch.jit.script
def in_a_fork(x, c):
    return torch.jit.wait(torch.jit.fork(divided, x, c))


@torch.jit.script
def chosen(x, c, d):
    if x.sum() > 1e9:
        e = c
    else:
        e = d
    return x * e


def uses(constant):
    """Functions of one tensor with constants in them, by what they show."""
    return {
        "mul": lambda x: x * constant(2),
        "add": lambda x: x + constant(3),
        "sub": lambda x: x - constant(2),
        "div": lambda x: x / constant(2),
        "alpha": lambda x: torch.add(x, constant(3), alpha=2),
        "left": lambda x: constant(2) * x,
        "left of sub": lambda x: constant(2) - x,
        "rsub": lambda x: torch.rsub(x, constant(2)),
        "rounding": lambda x: torch.div(x, constant(2), rounding_mode="floor"),
        "in place": lambda x: x.clone().mul_(constant(2)),
        "pow": lambda x: x ** constant(2),
        "eq": lambda x: x == constant(2),
        "maximum": lambda x: torch.maximum(x, constant(2)),
        "two constants": lambda x: x * (constant(2) * torch.tensor(1.5, dtype=torch.float64)),
        "negated": lambda x: x * (-constant(2)),
        "branches": lambda x: in_branches(x, constant(2)),
        "loop": lambda x: in_a_loop(x, constant(2), 3),
        "carried": lambda x: carried(x, constant(2), 3),
        "fork": lambda x: in_a_fork(x, constant(2)),
        "chosen": lambda x: chosen(x, constant(2), constant(3)),
        "one dimension": lambda x: x * constant([2]),
        "other name": lambda x: torch.true_divide(x, constant(2)),
    }


@pytest.mark.parametrize("use", uses(torch.tensor))
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:ComplexHalf")
def test_results_have_the_dtypes_of_torch(use):
    compared = 0
    for dtype in DTYPES:
        function = uses(lambda value, dtype=dtype: torch.tensor(value, dtype=dtype))[use]
        for x in OPERANDS:
            try:
                traced = torch.jit.trace(function, (x,), check_trace=False)
            except RuntimeError:
                continue  # eager torch does not have this combination
            mine = ours(traced)
            traced(x)  # the first call is not optimised
            check_same(traced, mine, x)
            compared += 1
    assert compared > 10


class Scaled(torch.nn.Module):
    def forward(self, x, scale):
        return x * scale


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scaled()

    def forward(self, x, scale):
        return self.inner(x, scale) + 1


class Outer(torch.nn.Module):
    """One submodule is given a constant, and later what is computed."""

    def __init__(self):
        super().__init__()
        self.nested = Nested()
        self.scaled = Scaled()

    def forward(self, x):
        half, two = (torch.tensor(value, dtype=torch.float64) for value in (0.5, 2.0))
        return self.nested(x, two), self.scaled(x, half), self.scaled(x, x.sum().double())


@pytest.mark.parametrize("x", OPERANDS, ids=lambda x: f"{x.dtype}-{x.dim()}")
def test_constants_reach_through_calls(x):
    traced = torch.jit.trace(Outer(), (x,), check_trace=False)
    traced(x)
    check_same(traced, our_module(traced), x)
