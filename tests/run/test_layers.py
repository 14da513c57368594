"""Calls of layers, whose operator runs in place of their method while nobody can tell."""

from __future__ import annotations

import traceback

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations, parametrize, prune

from tests.support.archives import loaded, torch_loaded, torch_saved
from tsarchive import Limits, Policy, PolicyError
from tsarchive.run.linkage import source_of

X = torch.linspace(-1, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8)


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.act(self.norm(self.conv(x))))
        return self.linear(torch.flatten(x, 1))


def traced() -> bytes:
    torch.manual_seed(0)
    module = Layered().eval()
    module.norm.running_mean.normal_()
    return torch_saved(torch.jit.trace(module, X))


def text_of(module) -> str:
    forward = module.tsarchive_class.methods["forward"]
    return source_of(module.tsarchive_classes.compiler.function(forward).compile())


def test_operators_of_layers_run_in_the_code_that_calls_them():
    data = traced()
    module = loaded(data)
    assert torch.equal(module(X), torch_loaded(data)(X))
    text = text_of(module)
    for name in ("_convolution", "batch_norm", "relu", "adaptive_avg_pool2d", "linear"):
        assert f"= aten_{name}(" in text


def test_gradients_are_those_of_the_methods():
    data = traced()
    slopes = []
    for module in (loaded(data), torch_loaded(data)):
        module(X).square().sum().backward()
        slopes.append({name: p.grad for name, p in module.named_parameters()})
    assert slopes[0].keys() == slopes[1].keys()
    assert all(torch.equal(slopes[0][name], slopes[1][name]) for name in slopes[0])


def test_methods_are_called_where_there_are_limits():
    module = loaded(traced(), limits=Limits(steps=1000))
    module(X)
    assert "batch_norm(" not in text_of(module)


NAMES = ["conv", "norm", "act", "pool", "linear"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_called", [False, True])
def test_hooks_run(name, is_called):
    module, seen = loaded(traced()), []
    if is_called:
        module(X)
    layer = getattr(module, name)
    handles = [
        layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape)),
        layer.register_forward_hook(lambda _, given, result: result * 0),
    ]
    doubled = module(X)
    assert len(seen) == 1
    for handle in handles:
        handle.remove()
    assert not torch.equal(module(X), doubled)
    assert len(seen) == 1


def test_hooks_of_all_modules_run():
    module, seen = loaded(traced()), []
    module(X)
    handle = register_module_forward_hook(lambda one, _, __: seen.append(one.original_name))
    try:
        module(X)
    finally:
        handle.remove()
    kinds = ["Conv2d", "BatchNorm2d", "ReLU", "AdaptiveAvgPool2d", "Linear", "Layered"]
    assert seen == kinds


def test_other_methods_and_modules_take_the_place_of_layers():
    data = traced()
    module, other = loaded(data), loaded(data)
    module(X)
    module.act.forward = lambda x: x
    other.act = nn.Identity()
    assert torch.equal(module(X), other(X))
    assert not torch.equal(module(X), loaded(data)(X))


def masked(layer: nn.Module) -> None:
    prune.custom_from_mask(layer, "weight", torch.zeros_like(layer.weight))


def parametrized(layer: nn.Module) -> None:
    parametrize.register_parametrization(layer, "weight", Zero())


def moved(layer: nn.Module) -> None:
    weight = layer._parameters.pop("weight")
    layer.__dict__["weight"] = torch.zeros_like(weight)


class Zero(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0


@pytest.mark.parametrize("change", [masked, parametrized, moved])
def test_tensors_are_found_where_python_code_put_them(change):
    module = loaded(traced())
    module(X)
    change(module.linear)
    assert torch.equal(module(X), module.linear.bias.expand(2, -1))


def test_weight_norm_is_seen():
    module = loaded(traced())
    expected = module(X)
    parametrizations.weight_norm(module.linear)
    assert torch.allclose(module(X), expected)
    with torch.no_grad():
        module.linear.parametrizations.weight.original0.zero_()
    assert torch.equal(module(X), module.linear.bias.expand(2, -1))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reading = Reading()

    def forward(self, x: torch.Tensor, reads: bool) -> torch.Tensor:
        if reads:
            x = self.reading(x)
        return x


class Reading(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.from_file("no such file", False, x.size(0))


class Squaring(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.square(x)


def test_the_policy_decides_where_the_method_runs():
    module = loaded(torch_saved(torch.jit.script(Branches())))
    assert torch.equal(module(X, False), X)
    with pytest.raises(PolicyError):
        module(X, True)
    module = Branches()
    module.reading = Squaring()
    policy = Policy.trusted().forbid("aten::square")
    module = loaded(torch_saved(torch.jit.script(module)), policy=policy)
    assert torch.equal(module(X, False), X)
    with pytest.raises(PolicyError, match=r"Squaring\.forward"):
        module(X, True)


class One(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(2, -1)  # in the first layer


class Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mv(x, self.weight)  # in the second layer


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = One()
        self.other = Other()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.one(x)  # calls the first layer
        return self.other(y)  # calls the second layer


@pytest.mark.parametrize("has_hook", [False, True])
@pytest.mark.parametrize(
    ("x", "which"), [(torch.ones(3), "first"), (torch.ones(2, 3), "second")], ids=["one", "other"]
)
def test_errors_name_both_lines(x, which, has_hook):
    module = loaded(torch_saved(torch.jit.script(Both())))
    assert module(torch.ones(2, 4)).tolist() == [4.0, 4.0]
    if has_hook:
        module.one.register_forward_hook(lambda *_: None)
        module.other.register_forward_hook(lambda *_: None)
    for _ in range(2):
        with pytest.raises(RuntimeError) as raised:
            module(x)
        shown = [f.line for f in traceback.extract_tb(raised.tb) if f.filename == __file__]
        calling, inside = [line for line in shown if "layer" in line]
        assert calling.endswith(f"# calls the {which} layer")
        assert inside.endswith(f"# in the {which} layer")


class Scripted(nn.Module):
    """Layers that decide by constants, flags and dimensions, or call functions that do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.25)
        self.scale = nn.LayerNorm([3, 3])
        self.hard = nn.Hardswish()
        self.linear = nn.Linear(3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.act(self.norm(self.conv(x))))
        return self.linear(self.hard(self.scale(self.drop(x))))


def scripted(module: nn.Module) -> bytes:
    torch.manual_seed(0)
    return torch_saved(torch.jit.script(module))


def state_after(module, x):
    torch.manual_seed(1)
    result = module(x)
    result.square().sum().backward()
    return [result, *(p.grad for p in module.parameters()), *module.buffers()]


@pytest.mark.parametrize("is_training", [False, True], ids=["eval", "train"])
def test_scripted_layers_give_what_their_methods_give(is_training):
    data = scripted(Scripted())
    for _ in range(2):
        ours, theirs = (m.train(is_training) for m in (loaded(data), torch_loaded(data)))
        pairs = zip(state_after(ours, X), state_after(theirs, X), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


def test_scripted_layers_run_in_the_code_that_calls_them():
    module = loaded(scripted(Scripted())).eval()
    module(X)
    text = text_of(module)
    names = ("conv2d", "batch_norm", "relu", "max_pool2d", "dropout", "layer_norm", "hardswish")
    for name in names:
        assert f"= aten_{name}(" in text, name
    assert "not own['training']:" in text


def test_modes_are_changed_between_calls():
    data = scripted(Scripted())
    ours, theirs = loaded(data), torch_loaded(data)
    for is_training in (False, True, False):
        results = []
        for module in (ours, theirs):
            module.train(is_training)
            torch.manual_seed(3)
            results.append(module(X))
        assert torch.equal(*results)
        assert torch.equal(ours.norm.running_mean, theirs.norm.running_mean)


def test_what_fits_no_condition_fails_in_the_method():
    module = loaded(scripted(Scripted())).eval()
    module(X)
    with pytest.raises(ValueError, match="expected 4D input"):
        module(X[0])


@pytest.mark.parametrize("name", ["conv", "norm", "act", "pool", "drop", "linear"])
def test_hooks_of_scripted_layers_run(name):
    module, seen = loaded(scripted(Scripted())).eval(), []
    expected = module(X)
    hook = getattr(module, name).register_forward_hook(lambda *given: seen.append(len(given)))
    assert torch.equal(module(X), expected)
    hook.remove()
    module(X)
    assert seen == [3]


def test_the_policy_decides_over_branches_that_are_not_taken():
    policy = Policy.trusted().forbid("aten::add_.Tensor").forbid("aten::add_.Scalar")
    module = loaded(scripted(Scripted()), policy=policy).eval()
    with pytest.raises(PolicyError, match="BatchNorm2d"):
        module(X)


def inner(x: torch.Tensor, inplace: bool) -> torch.Tensor:
    if inplace:
        return torch.relu_(x)
    return x.view(2, -1)  # in the inner function


class Outer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.middle(x)  # in forward

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        return inner(x, False)  # in the method


class Calling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.outer = Outer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(x) + 1  # in the caller


@pytest.mark.parametrize("has_hook", [False, True])
def test_errors_name_each_line_on_the_way(has_hook):
    module = loaded(scripted(Calling()))
    assert torch.equal(module(torch.ones(4)), torch.full((2, 2), 2.0))
    if has_hook:
        module.outer.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError) as raised:
        module(torch.ones(3))
    shown = [f for f in traceback.extract_tb(raised.tb) if f.filename == __file__]
    found = [(f.name, f.line.partition("# ")[2]) for f in shown if "# in " in f.line]
    assert found == [
        ("forward", "in the caller"),
        ("forward", "in forward"),
        ("middle", "in the method"),
        ("inner", "in the inner function"),
    ]


class Parent(nn.Module):
    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.child = child

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.child(x)


@pytest.mark.parametrize("length", [3, 300])
def test_chains_of_methods_are_followed_some_steps(length):
    class Chain(torch.jit.ScriptModule):
        """Of its own, because methods are defined once for a class."""

    child = Chain()
    child.define("def m0(self, x):\n    return torch.relu(x)\n")
    for i in range(1, length):
        child.define(f"def m{i}(self, x):\n    return self.m{i - 1}(x)\n")
    child.define(f"def forward(self, x):\n    return self.m{length - 1}(x)\n")
    module = loaded(scripted(Parent(child)))
    assert torch.equal(module(X), torch.relu(X))
    assert ("aten_relu(" in text_of(module)) == (length == 3)
