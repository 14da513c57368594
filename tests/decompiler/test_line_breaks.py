"""Ints of decompiled programs: those that grow wrap as in TorchScript, others are Python's."""

from __future__ import annotations

import importlib
import io
import itertools
import re

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import torch_loaded, torch_saved

_numbers = itertools.count()


class Hash(nn.Module):
    def forward(self, text: str) -> int:
        h = 0
        for c in text:
            h = h * 31 + ord(c)
        return h


class HashInMethod(nn.Module):
    def step(self, h: int, x: int) -> int:
        return (h ^ x) * 16777619

    def forward(self, text: str) -> int:
        h = 7
        for c in text:
            h = self.step(h, ord(c))
        return h + h


def mixed(h: int, x: int) -> int:
    return (h + x) * 65599


def twice_mixed(h: int, x: int) -> int:
    return mixed(h, x) + 1


class HashInFunctions(nn.Module):
    def forward(self, text: str) -> int:
        h, i = 5, 0
        while i < len(text):
            h = twice_mixed(h, ord(text[i]))
            i += 1
        return h


class GrowingAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.seed = 1

    def forward(self, text: str) -> int:
        for _ in text:
            self.seed = self.seed + self.seed + self.seed
        return self.seed - 1


class Generator(nn.Module):
    """Grows from call to call, in no loop of this class."""

    def __init__(self):
        super().__init__()
        self.state = 12345

    def next(self) -> int:
        self.state = self.state * 1103515245 + 12345
        return self.state

    def forward(self, text: str) -> int:
        return self.next() + self.next() * 3 + self.next() + len(text)


class Fibonacci(nn.Module):
    def forward(self, text: str) -> int:
        a, b = 1, 1
        for _ in range(3 * len(text)):
            a, b = b, a + b
        return a


class Products(nn.Module):
    def forward(self, text: str) -> list[int]:
        found = [3]
        for c in text:
            found.append(found[-1] * ord(c))
        return found


class Passed(nn.Module):
    """A value that has grown, given to a function, and from one to another."""

    def grown(self, text: str) -> int:
        h = 1
        for c in text:
            h = (h << 5) + h + ord(c)
        return h

    def finished(self, h: int) -> int:
        return h * 7 + h

    def forward(self, text: str) -> int:
        return self.finished(self.grown(text)) * 5


class Scrambled(nn.Module):
    """No loop, and factors of less than 32 bits."""

    def forward(self, text: str) -> int:
        x = len(text) + 1
        x = ((x >> 16) ^ x) * 73244475
        x = ((x >> 16) ^ x) * 73244475
        return (x >> 16) ^ x + x * x


WRAPPING = (
    Hash, HashInMethod, HashInFunctions, GrowingAttribute, Generator, Fibonacci, Products, Passed,
    Scrambled,
)  # fmt: skip


class Sizes(nn.Module):
    def half(self, n: int, by: int) -> int:
        return (n + 2 * by - 1) // 2 + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, w = x.size(0) // 2, x.size(1) * 3
        total, sign, at = h * w, 1, 0
        while at < 3:
            h = self.half(h, w)
            total = total + h * w - at * 2
            sign = sign * -1
            at += 1
        return x + total * sign


class Search(nn.Module):
    def forward(self, items: list[int], wanted: int) -> int:
        low, high = 0, len(items)
        while low < high:
            middle = (low + high) // 2
            if items[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        return low


class Bounded(nn.Module):
    def forward(self, text: str) -> int:
        h = 0
        for c in text:
            h = (h * 31 + ord(c)) % 1000003
        return h


@pytest.fixture
def decompiled(tmp_path, monkeypatch):
    """Decompiles a module; the model and the code."""
    monkeypatch.syspath_prepend(tmp_path)

    def decompile(data: bytes):
        name = f"decompiled_ints_{next(_numbers)}"
        tsarchive.decompile(io.BytesIO(data), tmp_path / name)
        importlib.invalidate_caches()
        texts = [path.read_text() for path in (tmp_path / name).rglob("*.py")]
        return importlib.import_module(name).load(), "\n".join(texts)

    return decompile


@pytest.mark.parametrize("module", WRAPPING)
def test_ints_that_grow_wrap(module, decompiled):
    data = torch_saved(torch.jit.script(module()))
    model, text = decompiled(data)
    assert {"mul_int", "add_int"} & {*re.findall(r"\w+", text)}
    theirs = torch_loaded(data)
    for given in ("", "a", "a" * 40, "tokenizer" * 9):
        assert model(given) == theirs(given)


@pytest.mark.parametrize(
    ("module", "inputs"),
    [(Sizes, (torch.ones(4, 5),)), (Search, ([1, 3, 5], 4)), (Bounded, ("text",))],
)
def test_sizes_and_counters_are_plain(module, inputs, decompiled):
    data = torch_saved(torch.jit.script(module()))
    model, text = decompiled(data)
    assert not {"mul_int", "add_int", "sub_int"} & {*re.findall(r"\w+", text)}
    assert torch.as_tensor(model(*inputs)).equal(torch.as_tensor(torch_loaded(data)(*inputs)))
