"""Expressions read as the original ones: signs of objects, numbers and tensors, names, calls."""

from __future__ import annotations

import copy
import importlib
import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tsarchive
from tests.decompiler.test_statements import code_of, written  # noqa: F401
from tests.decompiler.test_text import without_comments
from tests.support.archives import torch_saved


class Row:
    def __init__(self, values: list[int]):
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> int:
        return self.values[i]

    def __setitem__(self, i: int, value: int) -> None:
        self.values[i] = value

    def __contains__(self, value: int) -> bool:
        return value in self.values

    def __call__(self, n: int) -> int:
        return self.values[0] + n

    def __eq__(self, other: Row) -> bool:
        return self.values == other.values

    def joined(self, other: Row) -> Row:
        return Row(self.values + other.values)


class Objects(nn.Module):
    def forward(self, x: list[int]) -> tuple[int, int, bool, bool]:
        row = Row(x)
        row[0] = row[1] + len(row)
        long = row.joined(Row([3]))
        last = long.__getitem__(-1)
        return row(2), last, 3 in row, row == long


class Numbers(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        y = (1 - x) + 2 / x + 3 * x
        z = torch.where(0.5 < x, y, torch.neg(x) + 1)  # noqa: SIM300
        z[:, 0] = z[:, 1]
        w = F.max_pool2d(z[None], 2).sum() + F.avg_pool2d(z[None], [1, 2])
        return w.mT @ x[:, :1].T.mT + n


class Tables(nn.Module):
    def forward(
        self, x: torch.Tensor, table: dict[str, torch.Tensor], at: torch.Tensor
    ) -> tuple[torch.Tensor, list[str]]:
        keys: list[str] = []
        for key in table.keys():  # noqa: SIM118
            x = x + table[key][at]
            keys += [key]
        return x, keys


class Refined(nn.Module):
    def forward(self, x: torch.Tensor, h2: torch.Tensor | None, twice: bool) -> torch.Tensor:
        if twice:  # noqa: SIM108
            g1 = x * 2
        else:
            g1 = None
        if h2 is not None:
            x = x + h2
        if twice:
            assert g1 is not None
            x = x + g1
        return x


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("0", nn.Sigmoid())
        self.register_buffer("scale-of-x", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, "0")(x) * getattr(self, "scale-of-x")


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x / 2, x * 2


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = torch.zeros(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, self.state = halves(x)
        more, state = halves(self.state)
        self.state = state + more
        return out + self.state


class Still(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        return y + x


class Masks(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x[x == 0] = x.mean()
        x[x > 0.5] = 1.5
        x[:, x[0] < 0.3] = 2
        x[:, n] *= -1
        x[torch.tensor([0, 1]), torch.tensor([1, 0])] = x[0, :2] + 1
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        rows, columns = torch.meshgrid(s, x[0], indexing="ij")
        return u @ v, torch.linalg.norm(x) + rows, torch.einsum("ij,ij->i", x, columns)


class Shown(nn.Module):
    def forward(self, x: torch.Tensor, n: int, w: float) -> tuple[str, str, float, float]:
        return f"{n} of {x.shape}", str([n, 2]), float(max(n // 2, 1)), -w / 2


class Counting(nn.Module):
    def forward(self, x: int) -> int:
        count = 0
        while x != 1:
            x = 3 * x + 1 if x % 2 else x // 2
            count += 1
            if count > 90:
                return -1
        return count


class Empty(nn.Module):
    def forward(self, texts: list[str]) -> list[tuple[str, int]]:
        if len(texts) == 0:
            return []
        return [(text, 1) for text in texts]


LINES = [
    (Objects, "row[0] = row[1] + len(row)"),
    (Objects, "long = row.joined(Row([3]))"),
    (Objects, "last = long.__getitem__(-1)"),
    (Objects, "return row(2), last, 3 in row, row == long"),
    (Objects, "def __eq__(self, other: Row) -> bool:  # type: ignore[override]"),
    (Numbers, "y = 1 - x + 2 / x + 3 * x"),
    (Numbers, "z = torch.where(0.5 < x, y, torch.neg(x) + 1)"),
    (Numbers, "z[:, 0] = z[:, 1]"),
    (Numbers, "F.max_pool2d(z[None], [2, 2]).sum()"),
    (Numbers, "F.avg_pool2d(z[None], (1, 2))"),
    (Numbers, "return w.mT @ x[:, :1].T.mT + n"),
    (Tables, "x = x + table[key][at]"),
    (Tables, "keys += [key]"),
    (Refined, "assert g1 is not None\n            x = x + g1"),
    (Refined, "g1 = x * 2\n"),
    (Kept, "out, self.state = halves(x)"),
    (Kept, "more, state = halves(self.state)\n"),
    (Still, "with torch.no_grad():\n"),
    (Masks, "x[x == 0] = x.mean()\n"),
    (Masks, "x[x > 0.5] = 1.5\n"),
    (Masks, "x[:, lt] = 2\n"),
    (Masks, "x[:, n] *= -1\n"),
    (Masks, "x[torch.tensor([0, 1]), torch.tensor([1, 0])] = x[0, :2] + 1\n"),
    (Masks, "u, s, v = torch.linalg.svd(x, full_matrices=False)\n"),
    (Masks, 'rows, columns = torch.meshgrid(s, x[0], indexing="ij")\n'),
    (Masks, 'torch.linalg.norm(x) + rows, torch.einsum("ij,ij->i", x, columns)\n'),
    (Shown, 'f"{n} of {list(x.shape)}", str([n, 2]), float(max(n // 2, 1)), -w / 2\n'),
    (Counting, "count += 1\n"),
    (Empty, "            return []\n"),
    (Held, 'self.register_module("0", nn.Sigmoid())'),
    (Held, 'return getattr(self, "0")(x) * getattr(self, "scale-of-x")'),
]


@pytest.mark.parametrize(("class_", "line"), LINES)
def test_lines_are_as_they_were(class_, line, written):  # noqa: F811
    assert line in written(class_)


@pytest.mark.parametrize(
    ("class_", "arguments"),
    [
        (Objects, ([4, 5],)),
        (Numbers, (torch.rand(4, 4) + 0.1, 3)),
        (
            Tables,
            (torch.rand(3), {"a": torch.rand(5), "b": torch.rand(4)}, torch.tensor([0, 3, 1])),
        ),
        (Refined, (torch.rand(3), torch.rand(3), True)),
        (Held, (torch.rand(3),)),
        (Kept, (torch.rand(3),)),
        (Masks, (torch.linspace(0, 0.9, 9).reshape(3, 3), 1)),
        (Shown, (torch.rand(2, 3), 5, 0.3)),
        (Counting, (27,)),
        (Still, (torch.rand(3),)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_results_are_as_they_were(class_, arguments, tmp_path, monkeypatch):
    name = f"expressions_{class_.__name__.lower()}"
    code_of(class_(), tmp_path / name)
    monkeypatch.syspath_prepend(tmp_path)
    expected = torch.jit.script(class_())(*copy.deepcopy(arguments))
    found = importlib.import_module(name).load()(*copy.deepcopy(arguments))
    assert (found == expected) if isinstance(expected, int) else all(map(equal, found, expected))


def equal(found, expected) -> bool:
    if isinstance(expected, torch.Tensor):
        return torch.equal(found, expected)
    return found == expected


class Mixed(nn.Module):
    def forward(self, a):
        first, second = a.sin(), a.cos()
        return first * second + first


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = Mixed(), Mixed()

    def forward(self, a):
        y = self.one(a)
        z = self.other(a)
        return y.abs() - z


def test_classes_that_differ_in_names_of_variables_are_one(tmp_path):
    traced = torch.jit.trace(Mixing(), torch.rand(3))
    tsarchive.decompile(io.BytesIO(torch_saved(traced)), tmp_path)
    texts = [path.read_text() for path in tmp_path.rglob("*.py")]
    assert sum(text.count("class Mixed") for text in texts) == 1


class Traced(nn.Module):
    def forward(self, x):
        y = F.max_pool2d(1 - x, 2)
        y.add_(1.0)
        return F.max_pool2d(y, (1, 2), padding=(0, 1)) - y.clamp(max=2.0)[:, :, :2]


def test_calls_of_a_trace_leave_defaults_out(tmp_path):
    traced = torch.jit.trace(Traced(), torch.rand(1, 1, 4, 4))
    tsarchive.decompile(io.BytesIO(torch_saved(traced)), tmp_path)
    (text,) = (p.read_text() for p in tmp_path.rglob("*.py") if "class Traced(" in p.read_text())
    code = without_comments(text)
    for part in ("= 1 - x", "torch.max_pool2d(x, 2)", "y.add_(", "[1, 2], [], [0, 1])"):
        assert part in code
