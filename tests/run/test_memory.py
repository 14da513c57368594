"""When tensors of a running function go: as early as torch.jit lets go of them."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.processes import torch_output_of
from tests.support.running import check_same, our_module, saved_and_loaded

SIZE = 1000


class Peak(TorchDispatchMode):
    """The most large tensors that are alive at once, counted when an operator has run."""

    def __init__(self):
        super().__init__()
        self.alive = weakref.WeakSet()
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.numel() >= SIZE:
            self.alive.add(result.untyped_storage())
            self.most = max(self.most, len(self.alive))
        return result


class Step(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.neg(x)
        z = torch.exp(y)
        return torch.abs(z)


class Chain(torch.nn.Module):
    """What a step is given goes while the step runs."""

    def __init__(self):
        super().__init__()
        self.steps = torch.nn.Sequential(Step(), Step(), torch.nn.Sequential(Step(), Step()))

    def forward(self, n: int) -> torch.Tensor:
        return self.steps(torch.ones([n]))


class Loop(torch.nn.Module):
    """What a loop carries goes in the turn that uses it, its first value too."""

    def forward(self, n: int) -> torch.Tensor:
        x = torch.ones([n])
        for _ in range(3):
            y = torch.neg(x)
            z = torch.exp(y)
            x = torch.abs(z)
        y = torch.neg(x)
        return torch.exp(y)


class Branch(torch.nn.Module):
    """What a branch gives to the code behind it is held under one name."""

    def forward(self, n: int) -> torch.Tensor:
        if n > 1:
            x = torch.neg(torch.ones([n]))
        else:
            x = torch.ones([2])
            x = torch.ones([n])
        y = torch.exp(x)
        z = torch.abs(y)
        return torch.neg(z)


class Swap(torch.nn.Module):
    """Two carried values take each other's place, and one of them is kept."""

    def forward(self, n: int) -> torch.Tensor:
        a, b = torch.ones([n]), torch.zeros([n])
        first = a
        for i in range(3):
            a, b = torch.add(b, a), a
            for _ in range(i):
                a, b = b, torch.neg(a)
        return torch.stack([first, a, b])


class Helper(torch.nn.Module):
    """Arguments that are given twice, used again, or kept in a list, stay."""

    def forward(self, n: int) -> torch.Tensor:
        x = torch.ones([n])
        y = both(x, x)
        z = both(y, x)
        held = [z]
        w = both(z, y)
        return both(w, held[0])


def both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = a + b
    return c * a


def most_alive(run) -> int:
    run(SIZE)
    with Peak() as peak:
        run(SIZE)
    return peak.most


def print_most_alive() -> None:
    """What the test below reads from a process of its own."""
    for class_ in (Chain, Loop, Branch):
        print(most_alive(our_module(torch.jit.script(class_()))))


@pytest.mark.long("test_results_stay_those_of_torch")
def test_two_tensors_of_a_chain_are_alive_at_once():
    """In a fresh process: where torch.compile has left its evaluation of frames on, as it does in
    threads that end inside it, Python itself keeps what is handed over until the call ends."""
    code = f"from {__name__} import print_most_alive; print_most_alive()"
    assert torch_output_of("-W", "ignore", "-c", code).split() == ["2"] * 3


@pytest.mark.parametrize("class_", [Chain, Loop, Branch, Swap, Helper])
def test_results_stay_those_of_torch(class_):
    scripted = torch.jit.script(class_())
    loaded = saved_and_loaded(scripted)
    for n in (0, 1, 3):
        check_same(scripted, loaded, n)


def test_arguments_of_the_caller_stay():
    class Given(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = Step()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step(x)

    x = torch.ones(3)
    module = our_module(torch.jit.script(Given()))
    assert torch.equal(module(x), module(x))
    assert x.tolist() == [1.0] * 3


def test_hooks_see_what_a_module_is_given():
    module = our_module(torch.jit.script(Chain()))
    seen = []
    module.steps[1].register_forward_hook(lambda _, given, result: seen.append((given, result)))
    module(3)
    ((given, result),) = seen
    assert torch.equal(result, Step()(given[0]))
