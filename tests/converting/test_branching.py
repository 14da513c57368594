"""Branches and loops that values of tensors decide, as cond and while_loop of a program."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor

import tsarchive
from tests.converting.carried_state import holds_one_total
from tests.support.both_engines import both_of
from tests.support.comparing import equal

HIGHER_ORDER = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(2, 2)
        self.register_buffer("total", torch.zeros(2))


class Parameters(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * 2 if bool(x.sum() > 0) else x - 1


class OneAssigns(Net):
    """A side that gives what the other leaves as it is."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        if bool(x.sum() > 0):
            y = torch.relu(self.linear(x))
        return y + 1


class WritesToOwn(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        z = y
        if bool(x.sum() > 0):
            y += 3
        return y + z


class WritesToBuffer(Net):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            self.total.add_(x)
        else:
            self.total[0] = 5.0
        return self.total + x


class WritesToArgument(Net):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x[0] > 0):
            x.mul_(2)
        return x + 0


class Elif(Net):
    """Ints beside tensors, and branches in branches."""

    def forward(self, x: Tensor) -> tuple[Tensor, int, float]:
        n, f = 0, 1.0
        if bool(x.sum() > 0):
            n += 1
            if bool(x[0] > 1):
                y, n = x * 2, n + 5
            else:
                y, f = x * 3, float(x[1])
        elif bool(x[1] < -5):
            y = x * 5
        else:
            y = -x
        return y * n, n, f


class Logic(Net):
    def forward(self, x: Tensor) -> Tensor:
        a, b = bool(x.sum() > 0), bool(x[0] > 1)
        c = (a and not b) or float(x.max()) > 7.5
        if c != (int(x[1]) == 1):
            return x * 2
        return x + int(a)


class Alike(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = x.abs()
        if torch.equal(x, y):
            return x * 2
        return x / 2 if torch.allclose(-x, y) else x


class Lists(Net):
    def forward(self, x: Tensor) -> tuple[list[Tensor], dict[str, Tensor]]:
        if bool(x.sum() > 0):
            found, named = [x, x + 1], {"a": x * 2}
        else:
            found, named = [x - 1, -x], {"a": x}
        found.append(x)
        return found, named


class Layouts(Net):
    """Results in other layouts, and parts of tensors."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.outer(x, x + 1)
        return y.t() if bool(x.sum() > 0) else torch.cat([y, y])[1:3]


class Constant(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tensor([1.0, 2.0]) if bool(x.sum() > 0) else x * torch.tensor(3)


class Called(Net):
    """The tensor is taken apart in another function."""

    def is_large(self, x: Tensor) -> bool:
        return bool(x.sum() > 2)

    def forward(self, x: Tensor) -> Tensor:
        large = self.is_large(x)
        return self.linear(x) if not large else x


class While(Net):
    def forward(self, x: Tensor) -> Tensor:
        while float(x.abs().max()) > 0.1:
            x = x * 0.5
        return x


class WhileInPlace(Net):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        y = x * 1
        z, n = y, 0
        while bool(y.abs().max() < 10):
            y += 1
            n += 2
        return y, z, n


class Turns(Net):
    def forward(self, x: Tensor) -> Tensor:
        for turn in range(int(x.sum())):
            x = x + turn
        return x


class Break(Net):
    def forward(self, x: Tensor) -> Tensor:
        for turn in range(10):
            x = torch.tanh(self.linear(x)) + turn
            if bool(x.sum() > 2):
                break
        return x


class ReturnsInside(Net):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(5):
            x = x * 2
            if bool(x.sum() > 20):
                return x - 1
        return x


class BranchInLoop(Net):
    def forward(self, x: Tensor) -> Tensor:
        n = 0
        while bool(x.sum() < 9) and n < 20:
            x = x + 1 if bool(x[0] < x[1]) else self.linear(x) ** 2 + 0.5
            n += 1
            self.total.add_(x)
        return x + self.total * n


class Raises(Net):
    def forward(self, x: Tensor) -> Tensor:
        if bool((x < -50).any()):
            raise ValueError("too small")
        assert bool((x < 50).all()), "too large"
        y = x + 1
        if bool(y.sum() > 1):
            if bool(y[0] == 45):
                raise ValueError("wrong")
            y = y * 2
        return y


class Captured(Net):
    """Values of tensors from outside of branches and loops, which these take."""

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        most, count, large = float(x.max()), int(x.abs().sum()), bool(x[0] > 1)
        numbers = [count, 2]
        if bool(x.sum() > 0):
            y = x * most + numbers[0]
            while bool(y.sum() < 40):
                y = y + count + 1 if large else y.abs() + most
        else:
            y = x.new_ones(2) * count
            for turn in range(count):
                y = y + turn * most if not large else y - 1
        return y, most


class Swapped(Net):
    """Carried tensors change places, and constants are carried."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x * 1, x + 1
        while bool(a.sum() + 2 * b.sum() < 20):
            a, b = b, a + b.abs() + 1
        return a, b


class BufferOfBoth(Net):
    """Both sides and a loop write to a buffer, and assign it."""

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            self.total += 1
        else:
            self.total.sub_(x)
        n = 0
        while bool(self.total.sum() < 9) and n < 3:
            self.total += x.abs()
            n += 1
        return x + self.total


class AssignsItem(Net):
    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        found = [x * 1, x]
        if bool(x.sum() > 0):
            found[0] += 1
        return found[0] * 2, found


class NumbersInLists(Net):
    """Floats of tensors are in a list and a dict, which branches and loops take."""

    def forward(self, x: Tensor) -> tuple[Tensor, list[float]]:
        most, named = [float(x.max()), 2.0], {"a": float(x.min())}
        y = x * most[0] if bool(x.sum() > 0) else x - most[0] * most[1]
        n = 0
        while bool(y.sum().abs() < 100) and n < 3:
            y = y * most[0] + named["a"]
            n += 1
            if bool(y.sum() > 3):
                y = y - most[0]
        return y, most


class RaisesInOneSide(Net):
    """What an exception of a side tells of a number does not hold elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        count = int(x.abs().sum())
        if bool(x.sum() > 0):
            if count <= 1:
                raise ValueError("few")
            y = x * count
        else:
            y = x * 2
        return y + 1 if count > 1 else y - 1


class AttributeOfTensor(Net):
    """A tensor that is an attribute, no buffer, and that an export must not change."""

    def __init__(self):
        super().__init__()
        self.seen = torch.zeros(2)
        self.kept = [torch.zeros(2)]

    def forward(self, x: Tensor) -> Tensor:
        self.kept[0].add_(2)
        if bool(x.sum() > 0):
            self.seen.add_(1)
        return x + self.seen + self.kept[0]


class AsksBefore(Net):
    """A layout that is asked for where no branch decides it."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * x.stride(0) if x.is_contiguous() else x
        return y + 1 if bool(x.sum() > 0) else y - 1


class ListsAlike(Net):
    """Either of two lists, that nothing writes to later."""

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        one, two = [x, x + 1], [x * 2, x]
        found = one if bool(x.sum() > 0) else two
        return found[0] - one[1], found


CASES = [
    Parameters, OneAssigns, WritesToOwn, WritesToBuffer, WritesToArgument, Elif, Logic, Alike,
    Lists, Layouts, Constant, Called, While, WhileInPlace, Turns, Break, ReturnsInside,
    BranchInLoop, Raises, Captured, Swapped, BufferOfBoth, AssignsItem, NumbersInLists,
    RaisesInOneSide, AttributeOfTensor, AsksBefore, ListsAlike,
]  # fmt: skip
INPUTS = [[1.0, 1.5], [-1.0, -1.0], [2.0, 0.0], [0.05, -0.3], [-9.0, -7.0], [9.0, -1.0]]


def read_back(program):
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    return torch.export.load(stream)


def held(program):
    """The names of operators with graphs of their own, in all graphs of a program."""
    graphs = [g for g in program.graph_module.modules() if isinstance(g, torch.fx.GraphModule)]
    nodes = [node for graph in graphs for node in graph.graph.nodes]
    return {str(node.target) for node in nodes if node.target in HIGHER_ORDER}


def leaves(value):
    found = [torch.as_tensor(leaf) for leaf in torch.utils._pytree.tree_leaves(value)]
    return [leaf.to(torch.float64) for leaf in found]


@pytest.mark.parametrize("make", CASES)
@pytest.mark.filterwarnings("ignore")
def test_both_sides_are_in_the_program(make, tmp_path):
    scripted = torch.jit.script(make())
    theirs, mine = both_of(scripted)
    notes, path = [], tmp_path / "net.pt2"
    program = tsarchive.to_exported_program(mine, (torch.tensor(INPUTS[0]),), told=notes.append)
    assert held(program)
    assert all(make in (Raises, RaisesInOneSide) and note.kind == "decision" for note in notes)
    tsarchive.save(program, path)
    tsarchive.convert(path, tmp_path / "back.pt")
    runs = [
        program.module(), read_back(program).module(), tsarchive.load(path),
        torch.jit.load(tmp_path / "back.pt"),
    ]  # fmt: skip
    for run in runs:
        theirs = copy.deepcopy(scripted)
        for values in INPUTS:
            x, y = torch.tensor(values), torch.tensor(values)
            expected, found = theirs(x), run(y)
            torch.testing.assert_close(leaves(found), leaves(expected), equal_nan=True)
            assert equal(x, y)


@pytest.mark.parametrize(
    ("values", "message"),
    [([-60.0, 1.0], "too small"), ([60.0, 1.0], "too large"), ([44.0, 1.0], "wrong")],
)
def test_exceptions_are_assertions(values, message):
    _, mine = both_of(torch.jit.script(Raises()))
    notes = []
    program = tsarchive.to_exported_program(mine, (torch.ones(2),), told=notes.append)
    texts = [note.text for note in notes if note.kind == "decision" and note.is_checked]
    assert len(texts) == 3
    assert any(message in text for text in texts)
    for run in (program.module(), read_back(program).module()):
        with pytest.raises(RuntimeError, match=message):
            run(torch.tensor(values))


class RaisesInCall(Net):
    """A call raises, so the branch does; the other side appends to a list."""

    def check(self, x: Tensor) -> None:
        raise ValueError("not negative")

    def forward(self, x: Tensor) -> list[Tensor]:
        found = [x]
        if bool((x < 0).any()):
            self.check(x)
        else:
            found.append(x + 1)
        return found


def test_calls_that_raise_are_assertions():
    theirs, mine = both_of(torch.jit.script(RaisesInCall()))
    program = tsarchive.to_exported_program(mine, (torch.ones(2),))
    assert equal(program.module()(torch.ones(2)), theirs(torch.ones(2)))
    with pytest.raises(RuntimeError, match="not negative"):
        program.module()(-torch.ones(2))


class FoundPlaces(Net):
    """A size that depends on values decides, and is used in a branch."""

    def forward(self, x: Tensor) -> Tensor:
        places = (x > 0).nonzero()
        return x * 2 if places.size(0) > 1 else x + places.size(0)


@pytest.mark.parametrize("make", [Parameters, While, Break, Lists, FoundPlaces])
@pytest.mark.filterwarnings("ignore")
def test_open_sizes(make):
    theirs, mine = both_of(torch.jit.script(make()))
    shape = () if make in (Lists, FoundPlaces) else (2,)
    rows = torch.export.Dim("rows", min=2, max=64)
    run = tsarchive.to_exported_program(
        mine, (torch.ones(3, *shape),), dynamic_shapes=({0: rows},)
    ).module()
    for size, sign in ((3, 1), (5, -1), (2, 1)):
        x = torch.linspace(-0.5, 1.5, size * 2).reshape(size, 2)[:, : len(shape) + 1] * sign
        x = x.reshape(size, *shape) if shape else x[:, 0]
        torch.testing.assert_close(leaves(run(x.clone())), leaves(theirs(x.clone())))


class TruthAsResult(Net):
    def forward(self, x: Tensor) -> tuple[Tensor, bool]:
        return x + 1, bool(x.sum() > 0)


def test_bools_of_tensors_as_results(tmp_path):
    _, mine = both_of(torch.jit.script(TruthAsResult()))
    notes = []
    program = tsarchive.to_exported_program(mine, (torch.ones(2),), told=notes.append)
    assert [(note.kind, note.is_checked) for note in notes] == [("result", False)]
    assert "result 1 is a tensor that holds the bool" in notes[0].text
    tsarchive.save(program, tmp_path / "net.pt2")
    run = tsarchive.load(tmp_path / "net.pt2")
    assert [bool(run(torch.full((2,), sign))[1]) for sign in (1.0, -1.0)] == [True, False]


class Ranks(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if bool(x.sum() > 0) else x.sum()


class Texts(Net):
    def forward(self, x: Tensor) -> Tensor:
        text = "a"
        if bool(x.sum() > 0):
            text = "bc"
        return x + len(text)


class Appends(Net):
    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        if bool(x.sum() > 0):
            found.append(x * 2)
        return torch.cat(found)


class Assigns(Net):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            self.calls += 1
        return x + self.calls


class MayShare(Net):
    """What is written is the argument, or not."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        if bool(x.sum() > 0):
            y = x * 2
        y += 1
        return x + y


class Views(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        part = y[:1]
        if bool(x.sum() > 0):
            part += 1
            y = y * 2
        return y


class Grows(Net):
    def forward(self, x: Tensor) -> Tensor:
        while bool(x.sum() < 100):
            x = torch.cat([x, x])
        return x


class GrowsList(Net):
    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        while bool(x.sum() < 100):
            x = x.abs() + 1
            found.append(x)
        return torch.stack(found)


class WritesAfterLoop(Net):
    """Without a turn, what is written after the loop is the argument."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        while bool(y.sum() < 10):
            y = y.abs() * 2
        y += 1
        return x + y


class TwoNames(Net):
    """One tensor is carried under two names, and written to."""

    def forward(self, x: Tensor) -> Tensor:
        y, z = x * 1, x * 2
        while bool(y.sum() < 10):
            y += 1
            z = y
        return y + z


class ViewsOfOne(Net):
    def forward(self, x: Tensor) -> Tensor:
        z = x * 2
        y = z[0] if bool(x.sum() > 0) else z[1]
        z.add_(10)
        return y


class ViewsOfNew(Net):
    """Two results of a side are on one memory."""

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            z = x + 1
            y = z[0]
        else:
            z = x - 1
            y = z[1]
        y.add_(10)
        return z


class CopyOfCopy(Net):
    def forward(self, x: Tensor) -> Tensor:
        z = x * 3
        y = x - 1
        if bool(x.sum() > -50):
            y = z if bool(x.sum() > 0) else z + 1
        y.add_(1)
        return z


class EitherList(Net):
    def forward(self, x: Tensor) -> Tensor:
        one, two = [1, 2], [3, 4]
        found = one if bool(x.sum() > 0) else two
        found[0] = 10
        return x * one[0] + two[0]


class EitherDict(Net):
    def forward(self, x: Tensor) -> Tensor:
        one, two = {"a": 1}, {"a": 2}
        found = one if bool(x.sum() > 0) else two
        found["a"] = 10
        return x * one["a"] + two["a"]


class ListsInTuples(Net):
    def forward(self, x: Tensor) -> Tensor:
        one, two = [1.0], [2.0]
        found = (one, two) if bool(x.sum() > 0) else (two, one)
        found[0][0] = 10.0
        return x * one[0] + two[0]


class AppendsToOriginal(Net):
    def forward(self, x: Tensor) -> Tensor:
        one = [x]
        found = one if bool(x.sum() > 0) else [x + 1]
        one.append(x * 3)
        return x + len(found)


class TwoNamesOfNew(Net):
    """Both sides make a list and give it twice."""

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            found = [x]
            both = (found, found)
        else:
            found = [x + 1]
            both = (found, found)
        found.append(x)
        return x + len(both[0])


class AppendsInTuple(Net):
    def forward(self, x: Tensor) -> Tensor:
        found = [1]
        both = (found, 2)
        if bool(x.sum() > 0):
            both[0].append(1)
        return x * len(found)


def seventh(items: list[int]) -> int:
    return items[7]


class AppendsAndRaises(Net):
    def forward(self, x: Tensor) -> Tensor:
        found = [0]
        y = x
        if bool(x.sum() > 5):
            found.append(1)
            y = x * seventh(found)
        return y * len(found)


class AppendsBeforeRaise(Net):
    def forward(self, x: Tensor) -> Tensor:
        found = [1]
        if bool(x.sum() > 5):
            found.append(2)
            raise ValueError("too large")
        return x * len(found)


class AssignsAndRaises(Assigns):
    def forward(self, x: Tensor) -> Tensor:
        y = x
        if bool(x.sum() > 5):
            self.calls = 5
            y = x * seventh([1])
        return y * self.calls


class AsksLayout(Net):
    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        z = torch.outer(x, x)
        y = z.t() if bool(x.sum() > 0) else z
        return y, y.stride(0)


class AsksInLoop(Net):
    def forward(self, x: Tensor) -> Tensor:
        z = torch.outer(x, x + 1)
        n = 0
        while bool(z.sum() < 20) and n < 3:
            n += z.stride(0)
            z = (z + 2).t()
        return z * n


class CopiesOrShares(Net):
    """A copy or the tensor itself, as a layout has it that a branch decides."""

    def forward(self, x: Tensor) -> Tensor:
        z = torch.outer(x, x + 1)
        y = (z + 1).t() if bool(x.sum() > 0) else z + 2
        y.contiguous().add_(1)
        return y


class ViewAfterLoop(Net):
    def forward(self, x: Tensor) -> Tensor:
        z, n = x * 2, 0
        y = x[0]
        while bool(y < 30) and n < 2:
            y = z[n]
            n += 1
        z.add_(10)
        return y


class ListOfTurn(Net):
    """The first turn writes to a list that has another name."""

    def forward(self, x: Tensor) -> Tensor:
        one, n = [1], 0
        found = one
        while bool(x.sum() < 20) and n < 3:
            found[0] = n
            found = [n * 2]
            x = x + 10
            n += 1
        return x + one[0]


class ListAfterLoop(Net):
    def forward(self, x: Tensor) -> Tensor:
        one, two = [1], [2]
        while bool(x.sum() < 20):
            one = two
            x = x + 10
        two[0] = 7
        return x + one[0]


class SharesBuffer(Net):
    """A tensor is a buffer and an attribute."""

    def __init__(self):
        super().__init__()
        self.same = self.total

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(2)
        return x + self.same


class SharesAttribute(SharesBuffer):
    def forward(self, x: Tensor) -> Tensor:
        self.same.add_(2)
        return x + self.total


class SharesItems(Net):
    """A buffer and a parameter are items of a list and a dict, which the call changes as well."""

    def __init__(self):
        super().__init__()
        self.items = [self.total, torch.ones(2)]
        self.table = {"sum": self.total, "weight": self.linear.bias}

    def forward(self, x: Tensor) -> Tensor:
        self.items[0].add_(x)
        self.table["sum"].mul_(2)
        return self.total + self.items[1] * self.table["weight"]


class SharesView(SharesAttribute):
    """An attribute is a view of a buffer."""

    def __init__(self):
        super().__init__()
        self.same = self.total[:1]


MISFITS = {
    Ranks: r"for true it gives float32\[2\], for false float32\[\]",
    Texts: "for true it gives 'bc', for false 'a'",
    Appends: "the branch for true changes a list",
    Assigns: "the branch for true changes calls",
    MayShare: "writes to a tensor that is one or another, as the value of a tensor decides at",
    Views: "writes to one of several tensors on the same memory",
    Grows: r"it carries float32\[2\], which becomes float32\[4\]",
    WritesAfterLoop: "writes to a tensor that is one or another",
    TwoNames: "writes to one of several tensors on the same memory",
    GrowsList: "its body changes a list",
    ViewsOfOne: "writes to a tensor that is one or another",
    ViewsOfNew: "writes to a tensor that is one or another",
    CopyOfCopy: "writes to a tensor that is one or another",
    EitherList: "writes to a list that is one or another",
    EitherDict: "writes to a dict that is one or another",
    ListsInTuples: "writes to a list that is one or another",
    AppendsToOriginal: "writes to a list that is one or another",
    TwoNamesOfNew: "writes to a list that is one or another",
    AppendsInTuple: "the branch for true changes a list",
    AppendsAndRaises: "the branch for true changes a list",
    AppendsBeforeRaise: "the branch that raises changes a list",
    AssignsAndRaises: "the branch for true changes calls",
    AsksLayout: "asks for a layout, which the value of a tensor decides at",
    AsksInLoop: "in a layout of its own, and the code asks for one",
    CopiesOrShares: "writes to a tensor that is one or another",
    ViewAfterLoop: "writes to a tensor that is one or another",
    ListOfTurn: "writes to a list that is one or another",
    ListAfterLoop: "writes to a list that is one or another",
}


@pytest.mark.parametrize("make", MISFITS)
def test_what_a_program_cannot_hold_is_refused(make):
    _, mine = both_of(torch.jit.script(make()))
    with pytest.raises(tsarchive.UnsupportedError, match=MISFITS[make]) as info:
        tsarchive.to_exported_program(mine, (torch.ones(2),))
    assert "specialize" in info.value.hint
    assert "test_branching.py:" in str(info.value)
    assert not hasattr(mine, "calls") or mine.calls == 0
    specialized = tsarchive.to_exported_program(mine, (torch.ones(2),), specialize=True)
    assert not held(specialized)


@pytest.mark.parametrize("specialize", [False, True])
@pytest.mark.parametrize("make", [SharesBuffer, SharesAttribute, SharesItems])
def test_buffers_that_are_attributes_as_well_are_one_tensor(make, specialize):
    holds_one_total(torch.jit.script(make()), specialize=specialize)


@pytest.mark.parametrize("specialize", [False, True])
def test_writes_to_a_view_of_a_buffer_that_is_an_attribute_are_refused(specialize):
    _, mine = both_of(torch.jit.script(SharesView()))
    with pytest.raises(tsarchive.UnsupportedError, match="a program has them apart") as info:
        tsarchive.to_exported_program(mine, (torch.ones(2),), specialize=specialize)
    assert "test_branching.py:" in str(info.value)
    assert equal(mine.total, torch.zeros(2))
