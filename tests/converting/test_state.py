"""What modules hold during an export, and after it.

Annotations are values here, as torch.jit needs those of attributes.
"""

import pytest
import torch
from torch import Tensor

import tsarchive
from tests.converting.carried_state import holds_one_total
from tests.support.both_engines import both_of


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("total", torch.zeros(2))


class Sums:
    """An object that has a buffer of a module, and a number of its own."""

    def __init__(self, total: Tensor) -> None:
        self.total = total
        self.calls = 0

    def add(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


class SharesObject(Net):
    """A buffer is an attribute of an object, and a parameter and a buffer are items of tuples."""

    sums: Sums
    pair: tuple[Tensor, tuple[Tensor, list[Tensor]]]

    def __init__(self):
        super().__init__()
        self.sums = Sums(self.total)
        self.pair = (self.bias, (self.total, [self.total]))

    def forward(self, x: Tensor) -> Tensor:
        bias, rest = self.pair
        rest[0].mul_(2)
        return self.sums.add(x) + self.total * bias + rest[1][0]


@pytest.mark.parametrize("specialize", [False, True])
def test_buffers_in_objects_and_tuples_are_those_of_the_module(specialize):
    holds_one_total(torch.jit.script(SharesObject()), specialize=specialize)


class Changes(Net):
    """A call changes attributes of all kinds, and raises where it is told to."""

    sums: Sums
    pair: tuple[Tensor, list[Tensor]]
    counts: list[int]
    same: list[int]
    table: dict[str, Tensor]
    plain: Tensor

    def __init__(self):
        super().__init__()
        self.sums = Sums(self.total)
        self.pair = (self.total, [self.total])
        self.counts = [1]
        self.same = self.counts
        self.table = {"total": self.total}
        self.plain = torch.ones(2)

    def forward(self, x: Tensor, fails: bool) -> Tensor:
        self.counts.append(2)
        self.table["x"] = x
        self.pair[1].append(x)
        self.pair = (x, [x])
        self.sums.calls += 1
        self.sums.total = x
        self.plain.add_(self.bias)
        self.total = self.total + x
        self.training = False
        if fails:
            raise ValueError("told to")
        return self.total + self.plain * len(self.same)


def state_of(module: torch.nn.Module) -> list[object]:
    """The objects that a module holds, and what its tensors are."""
    sums, (first, rest) = module.sums, module.pair
    containers = [module.counts, module.same, module.table, rest]
    tensors = [module.total, module.plain, sums.total, first, *rest, *module.table.values()]
    held = [*map(id, [sums, *containers, *tensors]), [*module.counts], [*module.table], len(rest)]
    return [held, [(each.tolist(), each.requires_grad) for each in tensors], sums.calls,
            module.training]  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # which torch gives for each attribute
@pytest.mark.parametrize("fails", [False, True])
def test_an_export_leaves_the_module_as_it_was(fails):
    _, mine = both_of(torch.jit.script(Changes()))
    before = state_of(mine)
    arguments = (torch.ones(2), fails)
    if fails:
        with pytest.raises(tsarchive.ArchiveError, match="told to"):
            tsarchive.to_exported_program(mine, arguments)
    else:
        programs = [tsarchive.to_exported_program(mine, arguments) for _ in range(2)]
        one, other = ([str(each.graph), str(each.graph_signature)] for each in programs)
        assert one == other
    assert state_of(mine) == before
