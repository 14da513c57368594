"""Training a loaded module: steps equal those of torch.jit to the bit."""

from __future__ import annotations

import copy

import pytest
import torch

from fixtures.modules import all_cases
from tests.support.both_engines import both_of, called
from tests.support.comparing import equal
from tests.support.networks import build, each_network
from tests.support.suite import is_long, sampled

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=False),
}
STEPS = 3


class Net(torch.nn.Module):
    """Layers whose results depend on the mode, on chance and on earlier batches."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(6)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(6, 6) for _ in range(2)])
        self.drop = torch.nn.Dropout(0.3)
        self.tied = torch.nn.Linear(6, 6)
        self.tied.weight = self.layers[0].weight
        self.frozen = torch.nn.Parameter(torch.ones(6), requires_grad=False)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.size(0)
        x = self.norm(x)
        for layer in self.layers:
            x = torch.nn.functional.dropout(torch.relu(layer(x)), 0.2, self.training)
        return self.drop(self.tied(x)) * self.frozen


def total(result) -> torch.Tensor | None:
    """The sum of all floats in a result that gradients flow to."""
    if isinstance(result, torch.Tensor):
        return result.sum() if result.requires_grad else None
    if isinstance(result, dict):
        result = list(result.values())
    found = [total(item) for item in result] if isinstance(result, list | tuple) else []
    found = [item for item in found if item is not None]
    return torch.stack([item.double() for item in found]).sum() if found else None


def trained(module, make_optimizer, inputs) -> list[object]:
    """Losses of some steps, and the state after them."""
    optimizer = make_optimizer(module.parameters())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = total(called(module, inputs, seed=step))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, dict(module.state_dict())]


@pytest.fixture(autouse=True)
def without_the_optimiser_of_torch():
    """Its gradient formulas differ from autograd's in the last bit."""
    with torch.jit.optimized_execution(False):
        yield


@pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_training_with_chance_and_statistics(make_optimizer):
    torch.manual_seed(0)
    theirs, mine = both_of(torch.jit.script(Net()))
    inputs = [torch.randn(8, 6)]
    expected = trained(theirs, make_optimizer, inputs)
    found = trained(mine, make_optimizer, inputs)
    assert equal(expected, found)
    assert mine.tied.weight is mine.layers[0].weight
    assert equal(called(mine.eval(), inputs), called(theirs.eval(), inputs))


@pytest.mark.sample(3, gaps="networks are slow, and tests of records and of bodies have them all")
@each_network
def test_training_of_networks(name, kind):
    module, inputs = build(name, kind)
    theirs, mine = both_of(module)
    if not hasattr(theirs, "forward"):
        pytest.skip("recurrent networks have several methods, none named forward")
    for each in (theirs, mine):
        if kind == "script":
            each.train()
    make = OPTIMIZERS["adam"]
    assert equal(trained(theirs, make, inputs), trained(mine, make, inputs))


def differentiable() -> list[object]:
    """Fixture modules with a parameter that their first call gives a gradient."""
    found = []
    for case in sampled(all_cases(), 60):
        module = case.build()
        if not isinstance(module, torch.nn.Module) or not case.inputs:
            continue
        if not any(parameter.requires_grad for parameter in module.parameters()):
            continue
        if total(called(module, case.inputs[0])) is not None:
            found.append(case)
    return found


def test_gradients_of_fixture_modules():
    cases = differentiable()
    assert len(cases) > (20 if is_long() else 5)
    for case in cases:
        gradients = []
        for module in both_of(case.build()):
            total(called(module, case.inputs[0])).backward()
            gradients.append([copy.copy(p.grad) for p in module.parameters()])
        assert equal(*gradients), case.name


def test_gradients_of_inputs():
    torch.manual_seed(0)
    gradients = []
    for module in both_of(torch.jit.script(Net().eval())):
        x = torch.ones(3, 6, requires_grad=True)
        module(x).square().sum().backward()
        gradients.append(x.grad)
    assert equal(*gradients)
