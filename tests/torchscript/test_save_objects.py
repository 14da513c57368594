"""What we save of script objects, lists and tuples that a live module holds in other values.

torch's bindings give copies of these, on which ``__getstate__`` is not the scripted method, and
which do not tell that two are one object.
"""

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tsarchive
from tests.support.archives import records_of, torch_loaded, torch_saved


class Packed:
    """Is pickled by its own methods, as other values than its attributes."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.uses = 0

    def __getstate__(self) -> tuple[Tensor, int]:
        return self.weight.t(), self.uses

    def __setstate__(self, state: tuple[Tensor, int]) -> None:
        self.weight = state[0].t()
        self.uses = state[1]


class Pair:
    """Its state holds another object with a state."""

    def __init__(self, packed: Packed) -> None:
        self.packed = packed

    def __getstate__(self) -> tuple[Packed, int]:
        return self.packed, 1

    def __setstate__(self, state: tuple[Packed, int]) -> None:
        self.packed = state[0]


class Log:
    def __init__(self, lines: list[int]) -> None:
        self.lines = lines


class Book:
    """Holds one object in several ways."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.numbered = (1, log)
        self.several = [log]


class Packs(nn.Module):
    """Objects with a state in containers."""

    maybe: Packed | None

    def __init__(self) -> None:
        super().__init__()
        first, second = Packed(torch.ones(2, 3)), Packed(torch.zeros(3, 2))
        self.first = first
        self.several = [first, second]
        self.named = {"first": first, "second": second}
        self.nested = [[first], [second]]
        self.numbered = (1, second)
        self.maybe = second
        self.pairs = [Pair(first)]

    def forward(self) -> list[Tensor]:
        return [
            self.first.weight,
            self.several[1].weight,
            self.named["second"].weight,
            self.nested[1][0].weight,
            self.numbered[1].weight,
            self.pairs[0].packed.weight,
        ]


class Books(nn.Module):
    """One object in a list, and within it in a tuple and a list."""

    def __init__(self) -> None:
        super().__init__()
        book = Book(Log([1]))
        self.book = book
        self.books = [book]

    def forward(self) -> tuple[list[int], list[int], list[int], list[int]]:
        self.book.log.lines.append(2)
        other = self.books[0]
        lines = self.book.several[0].lines
        return self.book.log.lines, self.book.numbered[1].lines, lines, other.log.lines


class Lines(nn.Module):
    """One list in attributes, tuples and optionals, once it has run."""

    maybe: list[int] | None
    log: Log | None
    logs: dict[str, Log | None]
    other: tuple[int, list[int] | None]

    def __init__(self) -> None:
        super().__init__()
        self.lines = [1]
        self.numbered = (1, [1])
        self.twice = ((2, [1]), [3])
        self.maybe = None
        self.log = None
        self.logs = {}
        self.other = (0, None)

    def forward(self) -> tuple[list[int], list[int], list[int], int]:
        found = self.log
        if found is None:
            log = Log(self.lines)
            self.log = log
            self.logs["log"] = log
            self.maybe = self.lines
            self.numbered = (1, self.lines)
            self.twice = (self.numbered, self.lines)
            self.other = (2, self.lines)
        self.lines.append(5)
        maybe, named = self.maybe, self.logs["log"]
        assert maybe is not None
        assert named is not None
        named.lines.append(6)
        return maybe, self.numbered[1], self.twice[0][1], len(named.lines)


class Keeper:
    """Its state is a list that others hold, and one that it makes and holds twice."""

    def __init__(self, lines: list[int]) -> None:
        self.lines = lines

    def __getstate__(self) -> tuple[list[int], list[int], list[int]]:
        made = [7]
        return self.lines, made, made

    def __setstate__(self, state: tuple[list[int], list[int], list[int]]) -> None:
        self.lines = state[0]


class Shelf:
    """Its state is an object with a state, that others hold."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper

    def __getstate__(self) -> Keeper:
        return self.keeper

    def __setstate__(self, state: Keeper) -> None:
        self.keeper = state


class Room(nn.Module):
    """A module with a state, of a list and objects that its owner holds."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [1]
        self.keeper = Keeper([1])
        self.shelf = Shelf(Keeper([1]))

    @torch.jit.export
    def put(self, lines: list[int], keeper: Keeper) -> None:
        self.lines = lines
        self.keeper = keeper
        self.shelf = Shelf(keeper)

    @torch.jit.export
    def all(self) -> tuple[list[int], list[int], list[int]]:
        return self.lines, self.keeper.lines, self.shelf.keeper.lines

    @torch.jit.export
    def __getstate__(self) -> tuple[list[int], Keeper, Shelf, bool]:
        return self.lines, self.keeper, self.shelf, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[list[int], Keeper, Shelf, bool]) -> None:
        self.lines = state[0]
        self.keeper = state[1]
        self.shelf = state[2]
        self.training = state[3]


class House(nn.Module):
    """Shares a list and an object with the states of two modules, once it has run."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [1]
        self.first = Room()
        self.second = Room()
        self.is_shared = False

    def forward(self) -> tuple[list[int], tuple[list[int], list[int], list[int]]]:
        if not self.is_shared:
            keeper = Keeper(self.lines)
            self.first.put(self.lines, keeper)
            self.second.put(self.lines, keeper)
            self.is_shared = True
        self.lines.append(3)
        return self.first.all()[2], self.second.all()


class Keys(nn.Module):
    """Objects and lists under keys of any type, and a list that is empty in two places."""

    by_tensor: dict[Tensor, Keeper]
    by_number: dict[float, Keeper]
    by_complex: dict[complex, list[int]]
    empty: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.by_tensor = {}
        self.by_number = {}
        self.by_complex = {}
        self.empty = []
        self.other = Keeper([2])

    def forward(self) -> tuple[list[int], list[int], int]:
        keeper = self.other
        if len(self.by_tensor) == 0:
            self.other.lines = self.empty
            self.by_tensor[torch.ones(2)] = keeper
            self.by_number[float("nan")] = keeper
            self.by_number[1.5] = keeper
            self.by_complex[complex(1, 2)] = self.empty
            return self.empty, self.empty, len(keeper.lines)
        self.empty.append(1)
        for key in self.by_number:
            if key == 1.5:
                keeper = self.by_number[key]
        return keeper.lines, self.by_complex[complex(1, 2)], len(self.other.lines)


def used(class_: type[nn.Module]) -> Any:
    module = torch.jit.script(class_())
    module()
    return module


def data_records(data: bytes) -> dict[str, bytes]:
    records = records_of(data)
    return {name: records[name] for name in records if name.startswith("data")}


@pytest.mark.parametrize("class_", [Packs, Books, Lines, House, Keys])
class TestHeldObjects:
    def test_data_equals_that_of_torch(self, class_: type[nn.Module]) -> None:
        module = used(class_)
        theirs = torch_saved(torch_loaded(torch_saved(module)))
        assert data_records(self.saved(module)) == data_records(theirs)

    def test_the_archive_runs_as_the_module(self, class_: type[nn.Module]) -> None:
        module = used(class_)
        ours = self.saved(module)
        expected = [repr(module()) for _ in range(2)]
        for loaded in (torch_loaded(ours), tsarchive.load(io.BytesIO(ours))):
            assert [repr(loaded()) for _ in range(2)] == expected

    def test_both_forms_come_back(self, class_: type[nn.Module]) -> None:
        module = used(class_)
        for canonical in (False, True):
            ours = self.saved(module, canonical=canonical)
            again = self.saved(tsarchive.load(io.BytesIO(ours)), canonical=canonical)
            assert records_of(ours) == records_of(again)

    def saved(self, module: Any, *, canonical: bool = False) -> bytes:
        buffer = io.BytesIO()
        tsarchive.save(module, buffer, canonical=canonical)
        return buffer.getvalue()
