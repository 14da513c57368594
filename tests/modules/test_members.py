"""What methods read of modules: what stands there when they read it, wherever Python put it."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.comparing import equal
from tests.support.running import our_module
from tsarchive.errors import ScriptError
from tsarchive.run.linkage import source_of

X = torch.arange(6.0).reshape(2, 3)


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2
        self.weight = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("total", torch.full((3,), 0.5))

    def forward(self, x: torch.Tensor):
        return x * self.weight + self.total * self.factor


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 3
        self.first, self.second = Part(), Part()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("total", torch.ones(3))

    def forward(self, x: torch.Tensor):
        """Reads its members and those of its parts before and after a call."""
        before = self.weight * self.total * self.factor + self.second.weight
        y = self.first(x)
        after = self.weight * self.total * self.factor
        return self.second(y) + before + after + self.second.weight * self.second.factor


@pytest.fixture
def eager() -> nn.Module:
    return Whole()


@pytest.fixture
def ours(eager) -> nn.Module:
    return our_module(torch.jit.script(copy.deepcopy(eager)))


def other() -> torch.Tensor:
    return torch.tensor([5.0, 6.0, 7.0])


def put_elsewhere(module: nn.Module, table: str, name: str) -> None:
    """As weight norm and replicas do it."""
    del getattr(module, table)[name]
    object.__setattr__(module, name, other())


def put_other_tables(module: nn.Module) -> None:
    for name in ("_parameters", "_buffers", "_modules"):
        module.__dict__[name] = dict(module.__dict__[name])
    module._buffers["total"] = other()


def scale_by_property(module: nn.Module) -> None:
    nn.utils.parametrize.register_parametrization(module, "weight", Scaled())


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * 10


CHANGES = {
    "a number": lambda whole: setattr(whole, "factor", 7),
    "a parameter": lambda whole: setattr(whole, "weight", nn.Parameter(other())),
    "a buffer": lambda whole: setattr(whole, "total", other()),
    "an item of a table": lambda whole: whole._buffers.update(total=other()),
    "a parameter elsewhere": lambda whole: put_elsewhere(whole, "_parameters", "weight"),
    "a buffer elsewhere": lambda whole: put_elsewhere(whole, "_buffers", "total"),
    "a parameter behind a property": scale_by_property,
    "the tables": put_other_tables,
    "a number of a part": lambda whole: setattr(whole.second, "factor", 7),
    "a parameter of a part": lambda whole: setattr(whole.second, "weight", nn.Parameter(other())),
    "a part's elsewhere": lambda whole: put_elsewhere(whole.second, "_parameters", "weight"),
    "a part's behind a property": lambda whole: scale_by_property(whole.second),
    "a hook": lambda whole: whole.second.register_forward_hook(lambda m, args, y: y * 3),
    "a forward": lambda whole: setattr(whole.second, "forward", torch.exp),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_in_the_middle_of_a_method_are_seen(eager, ours, change):
    """Of everything that it has not read yet; and by the calls after it."""
    for module in (eager, ours):
        changed = []

        def once(part, arguments, whole=module, changed=changed):
            if not changed:
                changed.append(change(whole))

        module.first.register_forward_pre_hook(once)
    for _ in range(3):
        assert equal(ours(X), eager(X))


class Scope(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 1

    @torch.jit.export
    def __enter__(self):
        self.factor = 5

    @torch.jit.export
    def __exit__(self, type: Any, value: Any, traceback: Any):
        self.factor = 100


class Scoped(nn.Module):
    def __init__(self):
        super().__init__()
        self.scope = Scope()

    def forward(self, x: torch.Tensor):
        with self.scope:
            y = x * self.scope.factor
        return y + self.scope.factor


def test_attributes_are_read_again_behind_a_with():
    scripted = torch.jit.script(Scoped())
    assert equal(our_module(scripted)(X), scripted(X))


@pytest.mark.parametrize(("table", "name"), [("_parameters", "weight"), ("_buffers", "total")])
def test_members_that_are_gone(eager, ours, table, name):
    for module in (eager, ours):
        module(X)
        del getattr(module, table)[name]
        with pytest.raises(AttributeError if module is eager else ScriptError, match=name):
            module(X)


@pytest.mark.parametrize("place", ["first", "second"])
def test_parts_of_other_classes(eager, ours, place):
    def derived(part: nn.Module) -> nn.Module:
        made = copy.copy(part)
        made.__class__ = type("Derived", (type(part),), {"weight": property(lambda _: other())})
        made._parameters = {}
        return made

    for module in (eager, ours):
        module(X)
        module._modules[place] = derived(module._modules[place])
    assert equal(ours(X), eager(X))


def test_a_part_by_a_weak_reference(eager, ours):
    parts = [eager.second, ours.second]
    for module, part in zip((eager, ours), parts, strict=True):
        part.factor = 11
        module._modules["second"] = weakref.proxy(part)
    assert equal(ours(X), eager(X))


def test_copies_read_their_own(eager, ours):
    for module in (eager, ours):
        module(X)
    copies = [copy.deepcopy(module) for module in (eager, ours)]
    replicas = [module._replicate_for_data_parallel() for module in (eager, ours)]
    for module in (*copies, *replicas):
        module.factor = 9
        module._buffers = {"total": other()}
    for one, two in (copies, replicas):
        one._parameters = two._parameters = {"weight": other()}
        assert equal(two(X), one(X))
    assert equal(ours(X), eager(X))


def test_functions_of_the_state(eager, ours):
    state = {"weight": other(), "second.weight": other(), "first.total": other()}
    for _ in range(2):
        expected = torch.func.functional_call(eager, state, (X,))
        assert equal(torch.func.functional_call(ours, state, (X,)), expected)
        assert equal(ours(X), eager(X))


def test_a_method_asks_once_for_its_dictionary(ours):
    method = type(ours).tsarchive_class.methods["forward"]
    text = source_of(ours.tsarchive_classes.compiler.function(method).compile())
    assert text.count("self.__dict__") == 1
