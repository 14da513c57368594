"""Sizes in tensors, as traces have them: the number stands in the place of the tensor."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.comparing import equal
from tests.support.registry_calls import archive_of
from tests.support.running import check_same, our_module, ours, source
from tsarchive.adopt.torch_jit import adopt_function

TENSORS = "prim_NumToTensor_Scalar"
HEADER = (
    "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
    "  def f(self: __torch__.M, n: int):\n"
)
# torch.jit takes the number out of a tensor that was written to since, and for a float too.
WRONG_IN_TORCH = ("add_", "float")


def halves(x):
    batch, channels, height, width = x.size()
    x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2)
    return x.contiguous().view(batch, channels, height, width)


def quarters(x):
    return x.reshape(x.size(0) // 2 // 2, -1), x.shape[1] // 3


def flat(x):
    return x.view(x.size(0), -1)


@pytest.mark.parametrize("function", [halves, quarters, flat])
def test_traces_compute_with_numbers(function):
    traced = torch.jit.trace(function, torch.rand(4, 6, 2, 2))
    for shape in ((4, 6, 2, 2), (8, 10, 3, 1), (4, 2, 1, 1)):
        x = torch.rand(shape)
        assert equal(ours(traced)(x), traced(x))


def test_no_tensor_is_made_for_a_size():
    text = source(adopt_function(torch.jit.trace(halves, torch.rand(4, 6, 2, 2))))
    assert TENSORS not in text
    assert "Int" not in text
    assert "size_1 // 2" in text


# What a function does with a tensor of n, and whether that may be a number.
USES = [
    ("return int(t)", True),
    ("return torch.add(int(t), int(t))", True),
    ("r = 0\n    if torch.gt(n, 1):\n      r = int(t)\n    else:\n      pass\n    return r", True),
    ("return torch.add(torch.ones([2]), int(t), alpha=t)", True),
    ("return torch.mul(torch.ones([2]), torch.neg(t))", False),
    ("return (torch.add(torch.ones([2]), 1, alpha=t), t)", False),
    ("return t", False),
    ("return (int(t), t)", False),
    ("return torch.add(int(torch.add_(t, 1)), int(t))", False),
    ("s = [t]\n    u = torch.add_(s[0], 1)\n    return int(t)", False),
    ("return float(t)", False),
    ("r = 0\n    if bool(t):\n      r = int(t)\n    else:\n      pass\n    return r", True),
    ("return bool(t)", True),
    *((f"return bool(torch.{name}(t, 2))", True) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    ("return (bool(torch.gt(t, torch.mul(t, t))), bool(torch.le(2, n)))", True),
    ("return bool(torch.gt(t, 1.5))", False),
    ("return int(torch.gt(t, 2))", False),
    ("return torch.gt(t, 2)", False),
    ("return int(torch.add(torch.eq(t, 2), t))", False),
    ("return (bool(torch.gt(t, 2)), torch.gt(t, 2))", False),
    ("return int(torch.rsub(t, 5))", True),
    ("return int(torch.rsub(torch.mul(t, 3), n))", True),
    ("return int(torch.rsub(t, 5, 2))", False),
    ("u = torch.tensor(0)\n    v = torch.mul(t, 3, out=u)\n    return (int(v), u)", False),
    ("return int(torch.div(torch.mul(t, t), 3, rounding_mode='trunc'))", True),
    ("return int(torch.floor_divide(t, t))", False),
    ("return int(torch.floor_divide(t, n))", False),
    ("return int(torch.mul(t, 3))", True),
    ("return int(torch.mul(t, n))", True),
    ("return int(torch.mul(t, t))", True),
    ("return int(torch.mul(t, 1.5))", False),
    ("return int(torch.mul(t, True))", True),
    ("return int(torch.add(torch.mul(t, 3), t))", True),
    ("return int(torch.add(t, t, alpha=2))", False),
    ("return int(torch.add(t, n))", True),
    ("return int(torch.sub(t, 5))", True),
    ("return int(torch.sub(torch.neg(t), 2))", True),
    ("return int(torch.neg(t))", True),
    ("return int(torch.remainder(t, 7))", True),
    ("return int(torch.remainder(t, -7))", False),
    ("return int(torch.remainder(t, 4611686018427387904))", False),
    ("return int(torch.floor_divide(t, 3))", True),
    ("return int(torch.div(t, 3, rounding_mode='trunc'))", True),
    ("return int(torch.div(t, 3, rounding_mode='floor'))", True),
    ("return int(torch.div(t, 3, rounding_mode=None))", False),
    ("return int(torch.div(t, 3))", False),
    ("u = torch.mul(t, 3)\n    return (int(u), torch.add(u, 1))", False),
    ("u = torch.mul(t, 3)\n    return (int(u), int(torch.add(u, u)), n * 2)", True),
    (
        "r = n\n    for i in range(3):\n      r = int(torch.add(torch.mul(t, r), i))\n    return r",
        True,
    ),
]


def archive_of_use(body):
    return archive_of(f"{HEADER}    t = ops.prim.NumToTensor(n)\n    {body}\n")


@pytest.mark.parametrize(("body", "is_number"), USES)
def test_tensors_that_something_else_sees_stay(body, is_number):
    data = archive_of_use(body)
    theirs, found = torch.jit.load(io.BytesIO(data)), tsarchive.load(io.BytesIO(data))
    method = type(found).tsarchive_class.methods["f"]
    assert (TENSORS not in source(method)) is is_number
    for n in (-(2**63), -7, 0, 1, 2, 2**63 - 1):
        if not any(text in body for text in WRONG_IN_TORCH):
            check_same(theirs.f, found.f, n)


def positions(x):
    return x + torch.arange(x.size(1)), torch.full((2,), x.size(0) * 3)


def test_scalars_are_the_numbers():
    traced = torch.jit.trace(positions, torch.rand(4, 6))
    assert "aten::ScalarImplicit" in str(traced.graph)
    for shape in ((4, 6), (1, 3)):
        x = torch.rand(shape)
        assert equal(ours(traced)(x), traced(x))
    text = source(adopt_function(traced))
    assert TENSORS not in text
    assert "ScalarImplicit(" not in text


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(8, 2)

    def forward(self, x):
        return self.inner(x, x, x)


def test_attention_makes_no_tensors_of_sizes():
    torch.manual_seed(0)
    traced = torch.jit.trace(Attention().eval(), torch.rand(3, 2, 8), check_trace=False)
    found = our_module(traced)
    for shape in ((3, 2, 8), (5, 1, 8)):
        x = torch.rand(shape)
        assert equal(found(x), traced(x))
    method = type(found.inner).tsarchive_class.methods["forward"]
    assert TENSORS not in source(method)


def test_a_module():
    class Shuffle(torch.nn.Module):
        def forward(self, x):
            return halves(x)

    traced = torch.jit.trace(Shuffle(), torch.rand(2, 4, 3, 3))
    x = torch.rand(3, 8, 2, 1)
    assert equal(our_module(traced)(x), traced(x))
