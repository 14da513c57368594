"""Methods beside ``forward``: each is optimized, and they share weights and state."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn

import tsarchive
from tests.support.archives import loaded
from tests.support.running import hand_written, method
from tsarchive.errors import UnsupportedError
from tsarchive.optimizing.measuring import compared

from .test_optimize import done, left, needs_onednn, saved, trained


class Parts(nn.Module):
    """A network whose parts can be called, with state that one of its methods changes."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)
        self.drop = nn.Dropout()
        self.scale, self.calls = 2.0, 0
        self.register_buffer("total", torch.zeros(2))

    @torch.jit.export
    def features(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.layer(x))).mean([2, 3])

    @torch.jit.export
    def classify(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.head(self.drop(x)) * scale * self.scale

    @torch.jit.export
    def learn(self, x: Tensor) -> int:
        self.total += self.classify(self.features(x), 1.0).sum(0)
        self.calls += 1
        return self.calls

    @torch.jit.export
    def rescale(self, scale: float) -> None:
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.features(x), 1.0) + self.total


def calls_of(run, x):
    """What calls give that follow each other, some of which change the module."""
    before = run(x)
    found = [
        before,
        run.features(x),
        run.classify(run.features(x), 3.0),
        run.learn(x),
        run.learn(x),
    ]
    run.rescale(0.5)
    return [*found, run(x), run.classify(run.features(x))]


@needs_onednn
@pytest.mark.parametrize("has_example", [False, True])
@pytest.mark.parametrize("pays", [False, True])
def test_every_public_method(has_example, pays, always_quicker, request):
    if pays:
        request.getfixturevalue("each_way_pays")
    x = torch.randn(2, 3, 6, 6)
    module = torch.jit.script(trained(Parts(), 2, 3, 6, 6))
    optimized = tsarchive.optimize(module, args=x if has_example else None)
    assert done(optimized)["batch normalization"] == 3
    assert {name for name, _ in optimized.named_buffers()} == {"total"}
    data = saved(optimized)
    with torch.no_grad():
        expected = calls_of(copy.deepcopy(module), x)
        loaded = tsarchive.load(io.BytesIO(data)), torch.jit.load(io.BytesIO(data))
        for run in (optimized, *loaded):
            given = calls_of(run, x)
            assert compared(expected, given).agree
    names = [name for name in dir(optimized.packed_weights) if name.startswith("weight_")]
    assert names[0] == "weight_0"
    assert tsarchive.check_jitter(io.BytesIO(data)).stable


class Named(nn.Module):
    """Members with the names that packed weights would have."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 16, 3)
        self.packed_weights_ = 2

    @torch.jit.export
    def packed_weights(self, x: Tensor) -> Tensor:
        self.packed_weights_ += 1
        return self.layer(x) + self.packed_weights_

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@needs_onednn
def test_names_of_members_stay_theirs(always_quicker):
    module, x = torch.jit.script(Named().eval()), torch.randn(1, 3, 8, 8)
    optimized = tsarchive.optimize(module, args=x)
    data = saved(optimized)
    assert hasattr(optimized, "packed_weights__")
    with torch.no_grad():
        expected = copy.deepcopy(module).packed_weights(x)
        for run in (optimized, tsarchive.load(io.BytesIO(data)), torch.jit.load(io.BytesIO(data))):
            assert compared(expected, run.packed_weights(x)).agree
            assert compared(module(x), run(x)).agree


class Helped(nn.Module):
    """Helpers that nobody calls from outside, and no ``forward``."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def _inner(self, x: Tensor) -> Tensor:
        return self.layer(x)

    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return self._inner(x) + 1


def test_modules_without_forward():
    module, x = torch.jit.script(Helped().eval()), torch.randn(2, 3)
    optimized = tsarchive.optimize(module)
    assert done(optimized)["call inlined"] == 2
    with torch.no_grad():
        assert compared(module.encode(x), optimized.encode(x)).agree
        theirs = torch.jit.load(io.BytesIO(saved(optimized)))
        assert compared(module.encode(x), theirs.encode(x)).agree
    assert not hasattr(optimized, "_inner")


FUNCTION_AS_VALUE = hand_written(
    method(
        "f = unchecked_cast(Any, __torch__.tests.support.running.g)\nreturn f",
        "forward(self, x: Tensor) -> Any",
    )
    + "def g(x: Tensor) -> Tensor:\n  return x\n"
)


def test_what_the_first_call_raises_is_raised_also_where_it_is_not_supported():
    module, x = loaded(FUNCTION_AS_VALUE).eval(), torch.ones(2)
    with pytest.raises(UnsupportedError, match="takes the function") as direct:
        module(x)
    with pytest.raises(UnsupportedError) as raised:
        tsarchive.optimize(module, args=x)
    assert str(raised.value) == str(direct.value)


def test_code_that_takes_a_function_for_a_value_stays_as_it_is():
    optimized = tsarchive.optimize(loaded(FUNCTION_AS_VALUE).eval())
    assert not done(optimized)
    assert left(optimized) == {"all: the code takes a function for a value": 1}


def test_errors_of_the_example_are_those_of_the_model():
    module = torch.jit.script(nn.Linear(3, 3).eval())
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tsarchive.optimize(module, args=torch.randn(2, 5))
