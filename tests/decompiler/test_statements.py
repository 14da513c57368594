"""Statements read as the original ones: stores, conditions, tensors of numbers, names."""

from __future__ import annotations

import importlib
import io
import math
from functools import cache

import pytest
import torch
from torch import nn

import tsarchive
from tests.decompiler.test_text import without_comments
from tests.support.archives import torch_saved


class Stores(nn.Module):
    def forward(
        self, x: torch.Tensor, keys: list[int]
    ) -> tuple[dict[int, int], dict[str, torch.Tensor]]:
        counts: dict[int, int] = {}
        means: dict[str, torch.Tensor] = {}
        means["whole"] = x.abs().mean()
        for key in keys:
            if key in counts:
                counts[key] += 1
            else:
                counts[key] = counts.get(key, 0) + 1
        return {key: counts[key] for key in keys}, means


class Conditions(nn.Module):
    def forward(self, n: int, text: str, x: float) -> int:
        if not n != 3:  # noqa: SIM202
            return 0
        if not n < 5 and not x < 2.0:
            return 1
        if n > 0:  # noqa: SIM102
            if text == "b":
                n = n + 2
        return n


def code_of(module: nn.Module, folder) -> str:
    """The code of the module of a package where the class of ``module`` is, without comments."""
    data = torch_saved(torch.jit.script(module))
    tsarchive.decompile(io.BytesIO(data), folder)
    name = f"class {type(module).__name__}("
    texts = [path.read_text() for path in sorted(folder.rglob("*.py"))]
    return without_comments(next(text for text in texts if name in text))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The code of a module, by its class: it is decompiled once."""
    folder = tmp_path_factory.mktemp("statements")
    return cache(lambda class_: code_of(class_(), folder / class_.__name__))


@pytest.mark.parametrize(
    "line",
    [
        'means["whole"] = x.abs().mean()',
        "counts[key] += 1",
        "counts[key] = counts.get(key, 0) + 1",
        "return {key: counts[key] for key in keys}, means",
    ],
)
def test_stores_hold_what_they_store(line, written):
    assert line in written(Stores)


CONDITIONS = [
    "if not n != 3:",
    "if not n < 5 and (not x < 2.0):",
    "if n > 0:\n            if text ==",
]


@pytest.mark.parametrize("line", CONDITIONS)
def test_conditions_are_not_turned(line, written):
    """They are compiled otherwise, and numbers that are none are neither less than 2.0 nor more."""
    assert line in written(Conditions)


def test_conditions_hold_for_what_is_no_number(tmp_path, monkeypatch):
    module = Conditions()
    code_of(module, tmp_path / "conditioned")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module("conditioned").load()
    for arguments in [(3, "a", 1.0), (7, "a", math.nan), (4, "b", 3.0), (9, "b", 1.0)]:
        assert loaded(*arguments) == module(*arguments)


class Tensors(nn.Module):
    def forward(self, x: torch.Tensor, numbers: list[int], y: float) -> torch.Tensor:
        for i, number in enumerate(numbers):
            x[i] = max(1, number)
            x[i, 0] = y
        x[-1] = x[0] * 2.0
        x[1:2, 0] = True
        picked = x[:, [1, -1]] + x[0:2][[1, 0]][:, :2]
        return picked * torch.tensor(numbers, dtype=torch.long)


@pytest.mark.parametrize(
    "line",
    [
        "x[i] = max(1, number)",
        "x[i, 0] = y",
        "x[-1] = x[0] * 2.0",
        "x[1:2, 0] = True",
        "picked = x[:, [1, -1]] + x[:2][[1, 0]][:, :2]",
        "return picked * torch.tensor(numbers, dtype=torch.int64)",
    ],
)
def test_parts_of_tensors_are_assigned_and_taken_as_lists_say(line, written):
    assert line in written(Tensors)


def test_what_is_assigned_to_parts_is_the_same(tmp_path, monkeypatch):
    code_of(Tensors(), tmp_path / "assigned_parts")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module("assigned_parts").load()
    for dtype in (torch.float32, torch.float64, torch.int32, torch.bool):
        ours, theirs = (torch.arange(6).reshape(2, 3).to(dtype) for _ in range(2))
        expected = torch.jit.script(Tensors())(theirs, [3, 0], 2.5)
        assert torch.equal(loaded(ours, [3, 0], 2.5), expected)
        assert torch.equal(ours, theirs)


class Named(nn.Module):
    def forward(self, x: torch.Tensor, rows: list[tuple[int, int]]) -> torch.Tensor:
        x1, x2 = x.chunk(2, dim=-1)
        for step in range(len(rows)):
            x1 = x1 * step + step
        for row, (low, high) in enumerate(rows):
            x2 = x2 + row * low + row * high
        return torch.cat([x1, x2])


@pytest.mark.parametrize(
    "line",
    [
        "x1, x2 = x.chunk(2, dim=-1)",
        "for step in range(len(rows)):",
        "for row, (low, high) in enumerate(rows):",
    ],
)
def test_variables_have_the_names_that_lines_assign_to(line, written):
    assert line in written(Named)


class Inner(nn.Module):
    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 2.0
    ) -> torch.Tensor:
        return x * scale if mask is None else x * mask


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(
        self, x: torch.Tensor, text: str, table: dict[int, int]
    ) -> tuple[torch.Tensor, int]:
        x = self.inner(x) + self.inner(x, scale=3.0)
        x = x.clamp(max=4.0).float()
        mask = torch.matmul(x, torch.zeros(2, 2)).pow(2)
        words = 0
        for word in text.split(" "):
            if len(word) == 0:
                continue
            words += 1
        for _, value in table.items():
            words += value
        for key, _ in table.items():
            words += key
        return self.inner(x, mask), words


@pytest.mark.parametrize(
    "line",
    [
        "x = self.inner(x) + self.inner(x, scale=3.0)",
        "x = x.clamp(max=4.0).float()",
        "mask = torch.matmul(x, torch.zeros(2, 2)).pow(2)",
        'for word in text.split(" "):',
        "if len(word) == 0:",
        "for _, value in table.items():",
        "for key, _ in table.items():",
        "return self.inner(x, mask), words",
    ],
)
def test_calls_have_the_form_that_lines_have(line, written):
    assert line in written(Calls)
