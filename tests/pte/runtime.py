"""Programs made by the executorch package and run in its runtime: the oracle of these tests."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.export import export

from tests.support.executorch_files import flattened

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # experimental, all of it
    pytest.importorskip("executorch.exir", reason="only the runtime itself can tell")
    from executorch.exir import (
        EdgeCompileConfig,
        ExecutorchBackendConfig,
        to_edge,
    )
    from executorch.runtime import Runtime

# Kernels of the runtime sum in another order than those of torch.
RELATIVE, ABSOLUTE = 1e-4, 5e-5


UNCHECKED = EdgeCompileConfig(_check_ir_validity=False)


def made(module, inputs, shapes=None, config=None):
    """The bytes of a program."""
    program = export(module.eval(), inputs, dynamic_shapes=shapes, strict=True)
    edge = to_edge(program, compile_config=UNCHECKED)
    return edge.to_executorch(config or ExecutorchBackendConfig()).buffer


def of_runtime(data: bytes, method="forward"):
    loaded = Runtime.get().load_program(data).load_method(method)
    # Results are over the memory of the method.
    return lambda *given: [
        v.clone() if isinstance(v, torch.Tensor) else v for v in loaded.execute(list(given))
    ]


def assert_same(found, expected):
    torch.testing.assert_close(
        flattened(found), list(expected), rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True
    )


class Of(nn.Module):
    """A module that is a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def x(*shape):
    return torch.randn(shape)


def ints(high, *shape):
    return torch.randint(0, high, shape)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.out = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (4, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).flatten(2)
        return x + self.out(x)
