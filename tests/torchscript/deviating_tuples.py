"""Modules in which tuples have elements of wider types than their text tells."""

from typing import Any

import torch
from torch import Tensor, nn

# torch.jit reads annotations at run time: one name for the type that all of these have.
Step = tuple[int, Tensor | None]


class Appends(nn.Module):
    def forward(self, x: Tensor):
        steps: list[Step] = [(1, None)]
        steps.append((2, x))
        return steps


class AppendsNone(nn.Module):
    def forward(self, x: Tensor):
        steps = torch.jit.annotate(list[Step], [(1, x)])
        steps.append((2, None))
        return steps


class SetsItem(nn.Module):
    def forward(self, x: Tensor):
        steps: dict[str, Step] = {"a": (1, None)}
        steps["b"] = (2, x)
        return steps


class SetsAttribute(nn.Module):
    steps: list[Step]

    def __init__(self):
        super().__init__()
        self.steps = []

    def forward(self, x: Tensor):
        self.steps = torch.jit.annotate(list[Step], [(1, None)])
        self.steps.append((2, x))
        return self.steps


class Nests(nn.Module):
    def forward(self, x: Tensor):
        first: list[Step] = [(1, None)]
        return [first, first]


class BranchesToLists(nn.Module):
    def forward(self, x: Tensor) -> list[Step]:
        if x.numel() > 2:
            return [(1, None)]
        return [(1, x)]


class BranchesToTuples(nn.Module):
    def forward(self, x: Tensor) -> tuple[int, Any, int | str]:
        if x.numel() > 2:
            return x.numel(), 1, 2
        return x.numel(), "a", "b"


class CarriesTuple(nn.Module):
    def forward(self, x: Tensor, n: int = 2):
        hidden: Tensor | None = None
        step = (0, hidden)
        for i in range(n):
            step = (i, x)
        return step


class CarriesList(nn.Module):
    def forward(self, x: Tensor, n: int = 2):
        steps: list[Step] = [(1, None)]
        longer: list[Step] = []
        for _ in range(n):
            steps = longer
        return steps


class KeepsVariable(nn.Module):
    def forward(self, x: Tensor):
        hidden: Tensor | None = None
        steps = [(hidden, 1)]
        steps.append((x, 2))
        return steps


class Searches(nn.Module):
    def forward(self, x: Tensor, n: int = 2):
        beams: list[tuple[int, float, tuple[Tensor, Tensor] | None]] = [(0, 0.0, None)]
        for i in range(n):
            found: list[tuple[int, float, tuple[Tensor, Tensor] | None]] = []
            for token, score, state in beams:
                kept = x if state is None else state[0] + 1
                found.append((token + i, score + 0.5, (kept, x)))
            beams = found
        return beams


class HidesAnnotateInTuples(nn.Module):
    def forward(self, x: Tensor, n: int = 2):
        annotate = n + 1
        steps: list[Step] = [(annotate, None)]
        steps.append((annotate, x))
        return steps


class LongReturn(nn.Module):
    def forward(self, x: Tensor) -> list[Step]:
        return [(1, x), (2, x), (3, x), (4, x), (5, x), (6, x)]


class Indexes(nn.Module):
    def forward(self, n: int = 1):
        pair: tuple[int | None, int | None] = (None, n)
        return pair[n]


class ReadsBack(nn.Module):
    """Wide tuples in places that need no help."""

    steps: list[Step]

    def __init__(self):
        super().__init__()
        self.steps = torch.jit.annotate(list[Step], [(1, None)])

    def last(self, steps: list[Step]) -> tuple[Step, Step]:
        return steps[-1], (0, None)

    def forward(self, x: Tensor) -> list[tuple[int, Tensor | None, int | str]]:
        self.steps = [(2, None), (3, x)]
        self.steps.append((3, x))
        step = self.last(self.steps)[0]
        if x.numel() > 1:
            step = (4, None)
        hidden = step[1]
        kept = [(1, None), (2, None)]
        return [(len(kept), hidden, 1), (4, None, "a")]
