"""Modules in which a whole container is one constant: its items get ranges of their own later."""

import enum
import sys
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor, nn


class Suit(enum.Enum):
    """Short names: a member whose text is long gets a statement when it is read back."""

    A = "clubs"
    B = "hearts"


# The name of a module counts for the length: this one is known by a short one as well.
Suit.__module__ = "held"
sys.modules["held"] = sys.modules[__name__]


class Plain(NamedTuple):
    number: int
    name: str


class WithList(NamedTuple):
    number: int
    sizes: list[int]


class Held(nn.Module):
    def __init__(self, held: Any):
        super().__init__()
        self.held = held

    def forward(self, x: Tensor):
        return self.held


class HeldBesideEqualConstants(Held):
    """Of equal constants of a function, the first one gives its place to all."""

    def forward(self, x: Tensor):
        y = x * 2 + 1
        text = str(1.5) + "a" + str(None) + str(True)
        held = self.held
        return y * 3, text, held, self.held, str(7) + "b" + str(False), 1, "a"


class HeldByFork(Held):
    """In a closure, tuples of numbers are not folded."""

    def inside(self, x: Tensor):
        return x + 1, self.held, x * 2

    def forward(self, x: Tensor):
        return torch.jit.wait(torch.jit.fork(self.inside, x))


_ONE = torch.ones(1)
HELD: tuple[Any, ...] = (
    (["a"], 1), ("a", {"b": 1.5}), ["a"], {"a": 1}, [[1]], [(1, "a")], {1: [2]},
    {1: _ONE}, [_ONE], [_ONE, torch.zeros(2), _ONE], (_ONE, 1), [(_ONE, 1)], {"a": {1: _ONE}},
    [Suit.B], {"a": Suit.A}, (Suit.A, 1), [(Suit.A, 1)], (Suit.A, [1]),
    [Suit.A, Suit.B] * 3,
    WithList(1, [2]), [WithList(1, [2])], Plain(1, "a"), ([Plain(1, "a")], Plain(2, "b")),
    (WithList(1, [2]), _ONE), ((1, (2, "a")), [1]),
    [("",)], ((True,), (False,)), [(("a",), 1)], ((None, 1), ["a"]), [(float("inf"), "a")],
    ["é"], ("é", [1]), (["1"], "2 (3"), ["(", ")", "[1"], [("(", 2)], (True, [2]), ((), [1]),
    [-1, 7], [float("inf"), float("-inf"), float("nan"), -2.5], [[1.5] * 3] * 9,
)  # fmt: skip
# In a closure, the parts of a complex number are added when the text is read back.
HELD_OUTSIDE_CLOSURES = ([2j], [1 + 2j, -3 - 4j], (2j, [1]), (_ONE, (1, "a"), [2j]))
HOLDERS = (Held, HeldBesideEqualConstants, HeldByFork)


class Optionals(nn.Module):
    numbers: list[int | None]
    tensors: list[Tensor | None]

    def __init__(self):
        super().__init__()
        self.numbers = [1, None]
        self.tensors = [_ONE, None]


class OptionalNumbers(Optionals):
    def forward(self, x: Tensor):
        return self.numbers


class OptionalTensors(Optionals):
    def forward(self, x: Tensor):
        return self.tensors


class DeviceInTuple(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = (torch.device("cpu"), 1)

    def forward(self, x: Tensor):
        return self.held, "cpu"


class Looped(nn.Module):
    """Loops over lists that are one constant."""

    def __init__(self):
        super().__init__()
        self.weights = [_ONE, torch.zeros(2)]
        self.sizes = [1, 2, 3]

    def forward(self, x: Tensor):
        for weight in self.weights:
            x = x + weight * self.sizes[1] if bool(weight.sum() > 1) else x - self.weights[0]
        return x, self.sizes, self.weights


class Members(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in Suit:
            x = x + 1
        return x


class EnumeratedMembers(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, list[str]]:
        for at, suit in enumerate(Suit):
            x = x + at * len(suit.value)
        for suit, step in zip(Suit, [1, 2]):  # noqa: B905  # has no argument "strict" in torch
            if suit == Suit.B:
                x = x * step
        return x, [suit.name for suit in Suit]


class ForkedMembers(nn.Module):
    def inside(self, x: Tensor):
        for suit in Suit:
            x = x + len(suit.value)
        return x, (Suit.A, 1), (1, 2.5, "a"), [(1, 2)], x.to(torch.device("cpu"))

    def forward(self, x: Tensor):
        forked = torch.jit.fork(self.inside, x)
        return torch.jit.wait(forked), [suit for suit in Suit], "a", 1, 2.5


class AfterComplexParts(nn.Module):
    """The real part of a complex number is a number like others; its sign may be an operator."""

    def __init__(self):
        super().__init__()
        self.held = [-1.0 + 2j, 5.0 - 7j]

    def forward(self, x: Tensor):
        first = self.held[0]
        x = x * 5.0 * -1.0 * 1.0 - 7.0
        return x * (3.0 - 2j) + first - 2.0, x * 3.0


FROZEN = (
    OptionalNumbers, OptionalTensors, DeviceInTuple, Looped,
    Members, EnumeratedMembers, ForkedMembers, AfterComplexParts,
)  # fmt: skip
UNFROZEN = (Members, EnumeratedMembers, ForkedMembers, AfterComplexParts)


class LinearBeforeRecurrence(nn.Module):
    """Frozen, its weights get other numbers when torch reads its own text back."""

    def __init__(self):
        super().__init__()
        self.before = nn.Linear(4, 4)
        self.recurrence = nn.LSTM(4, 4)

    def forward(self, x: Tensor):
        return self.recurrence(self.before(x))


RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)


# No complex numbers: torch fails on an assertion where two tuples of them are constants.
_LEAVES = (
    st.integers(-9, 9),
    st.floats(0.5, 4, width=16),
    st.text("a(é1", max_size=3),
    st.booleans(),
    st.sampled_from(Suit),
    st.integers(1, 3).map(torch.ones),
)


def _containers(kinds: st.SearchStrategy) -> st.SearchStrategy:
    """Strategies of strategies: the items of a list or dict have one type, those of a tuple not."""
    return st.one_of(
        kinds.map(lambda item: st.lists(item, min_size=1, max_size=3)),
        kinds.map(lambda item: st.dictionaries(st.text("ab", max_size=2), item, min_size=1)),
        st.lists(kinds, min_size=1, max_size=3).map(lambda items: st.tuples(*items)),
    )


held_values = st.recursive(st.sampled_from(_LEAVES), _containers, max_leaves=6).flatmap(
    lambda kind: kind
)
