"""Modules are found where they are now: renamed, moved, added, removed, or of another class."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import torch_saved

torch.manual_seed(0)
A, B, C = (nn.Linear(3, 3) for _ in range(3))
LINEAR, SEQUENTIAL = "__torch__.torch.nn.modules.linear.", "__torch__.torch.nn.modules.container."


def of_weight(module: nn.Linear) -> nn.Linear:
    """The module with one other element of its weight."""
    other = copy.deepcopy(module)
    with torch.no_grad():
        other.weight[0, 0] += 1
    return other


class Named(nn.Module):
    """Modules by name, which are called one after the other; the code names each."""

    def __init__(self, **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)


def told(before: nn.Module, after: nn.Module, *, code: bool = False):
    """The changes; those of code that calls the modules only where they are asked for."""
    sides = (io.BytesIO(torch_saved(torch.jit.script(each))) for each in (before, after))
    changes = tsarchive.diff(*sides).changes
    is_code = {"code", "constant"}
    return [(c.kind, c.where, c.before, c.after) for c in changes if code or c.kind not in is_code]


# What stands before, what stands after, and the changes that are told.
TABLE = {
    "nothing": (lambda: Named(a=A, b=B), lambda: Named(a=A, b=B), []),
    "renamed": (
        lambda: Named(a=A, b=B), lambda: Named(a=A, c=B), [("module", "c", "b", "c")],
    ),
    "renamed inside": (
        lambda: Named(a=Named(x=A, y=B)), lambda: Named(a=Named(x=A, z=B)),
        [("module", "a.z", "a.y", "a.z")],
    ),
    "renamed with all inside": (
        lambda: Named(a=Named(x=A, y=Named(z=B))), lambda: Named(b=Named(x=A, y=Named(z=B))),
        [("module", "b", "a", "b")],
    ),
    "moved": (
        lambda: Named(a=Named(x=A), b=Named(y=B, z=C)),
        lambda: Named(a=Named(x=A, z=C), b=Named(y=B)),
        [("module", "a.z", "b.z", "a.z")],
    ),
    "wrapped": (
        lambda: Named(a=A), lambda: Named(a=Named(inner=A)),
        [("module", "a", None, "a"), ("module", "a.inner", "a", "a.inner")],
    ),
    "added": (lambda: Named(a=A), lambda: Named(a=A, b=Named(x=B)), [("module", "b", None, "b")]),
    "removed": (lambda: Named(a=A, b=Named(x=B)), lambda: Named(a=A), [("module", "b", "b", None)]),
    "put in front": (
        lambda: nn.Sequential(A, nn.ReLU(), B), lambda: nn.Sequential(C, A, nn.ReLU(), B),
        [
            ("module", "0", None, "0"), ("module", "1", "0", "1"), ("module", "2", "1", "2"),
            ("module", "3", "2", "3"),
        ],
    ),
    "of another class": (
        lambda: nn.Sequential(nn.ReLU(), A), lambda: nn.Sequential(nn.GELU(), A),
        [("class", "0", "__torch__.torch.nn.modules.activation.ReLU",
          "__torch__.torch.nn.modules.activation.GELU")],
    ),
    "removed from the middle": (
        lambda: nn.Sequential(A, nn.ReLU(), B), lambda: nn.Sequential(A, B),
        [("module", "1", "2", "1"), ("module", "1", "1", None)],
    ),
    "renamed with another weight": (
        lambda: Named(a=A, b=Named(x=B, y=C)), lambda: Named(a=A, c=Named(x=B, y=of_weight(C))),
        [("module", "c", "b", "c"), ("tensor values", "c.y.weight")],
    ),
    "first one removed, another weight of the last": (
        lambda: nn.Sequential(A, B, C), lambda: nn.Sequential(B, of_weight(C)),
        [("module", "0", "1", "0"), ("module", "0", "0", None), ("module", "1", "2", "1"),
         ("tensor values", "1.weight")],
    ),
    "shared": (
        lambda: Named(a=A, b=A), lambda: Named(c=A, b=A), [("module", "c", "a", "c")],
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("name", TABLE)
def test_modules(name):
    before, after, expected = TABLE[name]
    changes = told(before(), after())
    assert [c[: len(known)] for c, known in zip(changes, expected, strict=False)] == expected
    assert len(changes) == len(expected)


def test_two_modules_in_the_place_of_each_other_are_two_changes():
    changes = told(nn.Sequential(A, nn.ReLU(), B), nn.Sequential(nn.ReLU(), A, B), code=True)
    assert changes == [("module", "0", "1", "0"), ("module", "1", "0", "1")]


def test_a_constant_of_a_class_is_told_once():
    sides = (nn.Conv2d(1, 1, 3, stride=stride) for stride in (1, 2))
    changes = [change for change in told(*sides, code=True) if not change[0].startswith("tensor")]
    assert changes == [("constant", "stride", (1, 1), (2, 2))]


def test_what_calls_a_module_that_is_added_is_told():
    before, after = nn.Sequential(A), nn.Sequential(A, B)
    kinds = [kind for kind, where, *_ in told(before, after, code=True) if where != "1"]
    assert set(kinds) == {"code"}


def test_a_renamed_module_changes_no_code():
    """The code that calls it, and the tensors in it, are the same but for the name."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = A
            self.second = B

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x)) + self.second.weight

    before = Net

    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = A
            self.other = B

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.other(self.first(x)) + self.other.weight

    Other.__name__ = Other.__qualname__ = "Net"
    assert told(before(), Other(), code=True) == [("module", "other", "second", "other")]
