"""The canonical form of code in which types tell more once the text is read back."""

from __future__ import annotations

from typing import Any, Union

import pytest
import torch

import tsarchive
from tests.support.archives import loaded, records_of, saved, torch_loaded, torch_saved
from tests.support.running import check_same


def canonical(module) -> bytes:
    return saved(module, canonical=True)


def code_of(data: bytes) -> dict[str, str]:
    return {n: c.decode() for n, c in records_of(data).items() if n.endswith(".py")}


class Held:
    def __init__(self, number: int):
        self.number = number


class AnyTensor(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        a: Any = x
        if isinstance(a, torch.Tensor):
            return a
        return x


class UnionTensor(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        a: Union[int, torch.Tensor] = x  # noqa: UP007
        if isinstance(a, torch.Tensor):
            return a
        return x


class UnionObject(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        u: Union[Held, torch.Tensor] = Held(2)  # noqa: UP007
        if isinstance(u, torch.Tensor):
            return u
        return x


class Conditional(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        a: Any = x
        b = isinstance(a, torch.Tensor)
        c = 1 if b else 2
        return x + c


class TwoSteps(torch.nn.Module):
    """What the first condition decides, the next is decided by when that is read back."""

    def forward(self, x: torch.Tensor):
        a: Any = x
        b: Any = 3
        if isinstance(a, torch.Tensor):
            b = a
        if isinstance(b, torch.Tensor):
            return b
        return x


DECIDED = [AnyTensor, UnionTensor, UnionObject, Conditional, TwoSteps]


@pytest.mark.parametrize("kind", DECIDED)
def test_conditions_that_reading_decides(kind):
    module = torch.jit.script(kind())
    expected = canonical(module)
    assert canonical(loaded(expected)) == expected
    assert canonical(loaded(saved(module))) == expected
    (text,) = [text for text in code_of(expected).values() if f"class {kind.__name__}" in text]
    assert "isinstance" not in text
    settled = torch_saved(module)
    for _ in range(2):
        settled = torch_saved(torch_loaded(settled))
    (theirs,) = [text for text in code_of(settled).values() if f"class {kind.__name__}" in text]
    assert text.partition("  def forward")[2] == theirs.partition("  def forward")[2]
    check_same(module, torch_loaded(expected), torch.ones(2))


def test_code_that_never_settles_is_refused(monkeypatch):
    monkeypatch.setattr("tsarchive.formats.torchscript.saving._MOST_READINGS", 1)
    with pytest.raises(tsarchive.SaveError, match="no canonical form"):
        canonical(torch.jit.script(TwoSteps()))
