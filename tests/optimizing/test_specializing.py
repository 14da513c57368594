"""Bodies for calls like the example, attention as one operator, images with channels last."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import tsarchive
from tsarchive import optimizing
from tsarchive.optimizing.measuring import compared

from .test_optimize import check, done, saved


class Attention(nn.Module):
    """Attention that is written out, with a mask of some kind."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.read = nn.Linear(8, 24)

    def mask(self, length: int):
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        if self.kind == "rows":
            mask = mask | torch.ones(length, length, dtype=torch.bool).triu(0)
        return mask

    def forward(self, x):
        batch, length = x.size(0), x.size(1)
        joined = self.read(x).view(batch, length, 3, 2, 4)
        query, key, value = joined.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(query, key.transpose(-2, -1)) / 4**0.5
        if self.kind != "none":
            scores = scores.masked_fill(self.mask(length), -math.inf)
        mixed = torch.matmul(torch.softmax(scores, dim=-1), value)
        return mixed.transpose(1, 2).reshape(batch, length, 8)


@pytest.mark.parametrize("form", ["script", "trace"])
@pytest.mark.parametrize(("kind", "is_one"), [("causal", True), ("none", True), ("rows", False)])
def test_attention_is_one_operator_where_no_row_is_masked(kind, is_one, form, each_way_pays):
    torch.manual_seed(0)
    live, x = Attention(kind).eval(), torch.randn(2, 5, 8)
    module = torch.jit.script(live) if form == "script" else torch.jit.trace(live, x)
    optimized = tsarchive.optimize(module, args=x)
    assert ("attention as one operator" in done(optimized)) is is_one
    calls = [(x,), (torch.randn(2, 5, 8),), (torch.randn(1, 5, 8),), (torch.randn(2, 7, 8),)]
    check(module, optimized, *calls, (x.double(),), (torch.randn(5, 8),))


class Asking(nn.Module):
    """Code that asks what it was given, of which the answers are known for the example."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, scale: int = 2, mode: str = "plain", mask: torch.Tensor | None = None):
        parts: list[torch.Tensor] = []
        if x.dim() != 3:
            raise ValueError("three dimensions are needed")
        for place in range(x.size(1)):
            parts.append(self.layer(x[:, place]) * scale)
        if x.requires_grad:
            parts.append(x[:, 0])
        y = torch.stack(parts, 1)
        if mode == "double":
            y = y + y
        if mask is not None:
            y = y * mask
        return y, y.size(1), x.dtype == torch.float32


def test_other_calls_run_the_body_as_it_was(each_way_pays):
    torch.manual_seed(0)
    module, x = torch.jit.script(Asking().eval()), torch.randn(2, 3, 4)
    optimized = tsarchive.optimize(module, args=(x,))
    assert done(optimized)["value known for calls like the example"]
    calls = [
        (x,), (x, 3), (x, 2, "double"), (x, 2, "plain", torch.zeros(4)), (torch.randn(1, 7, 4),),
        (torch.randn(2, 0, 4),), (torch.randn(2, 4),), (x.double(),),
    ]  # fmt: skip
    check(module, optimized, *calls)


def test_gradients_of_the_input_take_the_body_as_it_was(each_way_pays):
    torch.manual_seed(0)
    module, x = torch.jit.script(Asking().eval()), torch.randn(2, 3, 4)
    optimized = tsarchive.optimize(module, args=(x,))
    wanting = torch.randn(2, 3, 4, requires_grad=True)
    expected, given = module(wanting)[0].detach(), optimized(wanting)[0].detach()
    assert given.size(1) == 4
    assert compared(expected, given).agree


class Branching(nn.Module):
    """Sizes that depend on numbers, which no example tells."""

    def forward(self, x):
        kept = x[x > 0]
        y = torch.ones(2) if kept.size(0) > 3 else torch.zeros(3)
        for _ in range(int(x.sum())):
            y = torch.cat([y, y])
        return y, y.size(0), kept.size(0)


def test_what_depends_on_numbers_stays_unknown(each_way_pays):
    module = torch.jit.script(Branching().eval())
    example = torch.ones(5) / 5
    optimized = tsarchive.optimize(module, args=example)
    check(module, optimized, (example,), (-example,), (torch.ones(5),), (torch.zeros(5),))


class Writing(nn.Module):
    """Attention whose query changes before the values are read."""

    def forward(self, x):
        query, key, value = x + x.size(0), x * 2, x.clone()
        weights = torch.softmax(torch.matmul(query, key.transpose(-2, -1)), -1)
        if bool(x.sum() > 0):
            query.zero_()
        return torch.matmul(weights, value), query


def test_attention_stays_where_code_writes_to_its_query(each_way_pays):
    module, example = torch.jit.script(Writing().eval()), -torch.rand(2, 5, 4)
    optimized = tsarchive.optimize(module, args=example)
    assert "attention as one operator" not in done(optimized)
    check(module, optimized, (example,), (-example,))


class Filling(nn.Module):
    """An operator that gives a tensor other sizes, or does not."""

    def forward(self, x):
        y = torch.empty(0)
        if bool(x.sum() > 0):
            torch.add(x, x, out=y)
        return x + y.numel()


def test_sizes_of_tensors_that_are_filled_stay_unknown(each_way_pays):
    module, example = torch.jit.script(Filling().eval()), torch.ones(3)
    optimized = tsarchive.optimize(module, args=example)
    check(module, optimized, (example,), (-example,))


class AskingForGradient(nn.Module):
    def forward(self, x):
        return x * 2 if x.requires_grad else x * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_tensors_that_require_gradients_are_not_like_the_example(dtype, each_way_pays):
    module, example = torch.jit.script(AskingForGradient().eval()), torch.ones(3, dtype=dtype)
    optimized = tsarchive.optimize(module, args=example)
    check(module, optimized, (example,), (torch.ones(3, dtype=dtype, requires_grad=True),))


class Picture(nn.Module):
    """Images among code that sees the order of numbers, or not."""

    def __init__(self, sees):
        super().__init__()
        self.sees = sees
        self.layer, self.up = nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 2, 2)

    def forward(self, x):
        y = torch.relu(self.layer(x))
        z = self.up(y)
        if self.sees == "strides":
            y = y.as_strided([2, 4], [4, 1])
        if self.sees == "random":
            y = y + torch.rand_like(y)
        if self.sees == "writes":
            y.view(-1)[0] = 1.0
        return y, [z, y.view(y.size(0), -1)]


@pytest.mark.parametrize("form", ["script", "trace"])
@pytest.mark.parametrize("sees", ["nothing", "strides", "random", "writes"])
def test_channels_are_last_where_nobody_sees_it(sees, form, each_way_pays, never_quicker):
    torch.manual_seed(0)
    live, x = Picture(sees).eval(), torch.randn(2, 3, 6, 6)
    module = torch.jit.script(live) if form == "script" else torch.jit.trace(
        live, x, check_trace=False, strict=False
    )  # fmt: skip
    optimized = tsarchive.optimize(module, args=x)
    assert ("convolution with its channels last" in done(optimized)) is (sees == "nothing")
    check(module, optimized, (x,), (torch.randn(1, 3, 9, 5),), (torch.randn(3, 6, 6),))
    if sees == "nothing":
        for expected, given in zip(module(x)[1], optimized(x)[1], strict=True):
            assert expected.stride() == given.stride()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("form", ["script", "trace"])
def test_views_of_attention_are_one_view_each(form, each_way_pays):
    torch.manual_seed(0)
    live, x = Encoder().eval(), torch.randn(1, 5, 8)
    module = (
        torch.jit.script(live) if form == "script" else torch.jit.trace(live, x, check_trace=False)
    )
    with torch.no_grad():
        optimized = tsarchive.optimize(module, args=x)
    assert done(optimized)["value known for calls like the example"]
    if form == "trace":
        assert done(optimized)["views as one"] == 6
    check(module, optimized, (x,), (torch.randn(3, 5, 8),), (torch.randn(1, 4, 8),))


def test_both_bodies_have_one_packed_weight(each_way_pays, monkeypatch):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch is built without oneDNN")
    monkeypatch.setattr(optimizing.packing, "times_of", lambda *_: [1.0, 0.5])
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            y = self.layer(x)
            return y.flatten(1) if y.dim() == 4 else y

    module, x = torch.jit.script(Net().eval()), torch.randn(2, 3, 6, 6)
    optimized = tsarchive.optimize(module, args=x)
    assert done(optimized)["value known for calls like the example"]
    weights = [name for name in dir(optimized.packed_weights) if name.startswith("weight_")]
    assert weights == ["weight_0"]
    check(module, optimized, (x,), (torch.randn(1, 3, 8, 8),))
    assert saved(optimized)


class TakenTwice(nn.Module):
    """A list that a loop reads and that is needed behind it; in a branch torch.jit frees it."""

    def forward(self, x):
        parts: list[torch.Tensor] = []
        for place in range(x.size(0)):
            parts.append(x[place])
        total = torch.zeros_like(x[0])
        for place in range(len(parts)):
            total = total + parts[place]
        return parts, total


class Rounds(nn.Module):
    """A tensor of which the same is true."""

    def forward(self, x, rounds: int):
        twice = x * x.dim()
        total = x
        for _ in range(rounds):
            total = total + twice
        return twice, total


@pytest.mark.parametrize(("module", "more"), [(TakenTwice(), ()), (Rounds(), (2,))])
def test_no_branch_holds_what_torch_jit_would_free_early(module, more, each_way_pays):
    module, x = torch.jit.script(module.eval()), torch.randn(3, 2)
    optimized = tsarchive.optimize(module, args=(x, *more))
    check(module, optimized, (x, *more), (torch.randn(4, 2), *more))


class Plain(nn.Module):
    def forward(self, count: int, given: int | str):
        if isinstance(given, str):
            return [given + "!"] * count
        return [str(given + 1)]


@pytest.mark.parametrize("given", [1, "a"])
def test_values_of_several_types_are_left(given, each_way_pays):
    module = torch.jit.script(Plain().eval())
    optimized = tsarchive.optimize(module, args=(2, given))
    check(module, optimized, (2, given), (3, 7), (1, "b"))


class Alone(nn.Module):
    def forward(self):
        return [place for place in range(3)]


def test_no_arguments(each_way_pays):
    module = torch.jit.script(Alone().eval())
    check(module, tsarchive.optimize(module, args=()), ())
