"""``assert_no_jitter``: what passes, and what a failure says."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

import tsarchive
from tsarchive.testing import assert_no_jitter


class Counting(nn.Module):
    """Every save counts itself, so no two are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.saves = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.saves

    @torch.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        self.saves += 1
        return self.saves, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.saves = state[0]
        self.training = state[1]


class Doubling(Counting):
    """The state is the same until it is read back."""

    @torch.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        return self.saves, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.saves = state[0] * 2 + 1
        self.training = state[1]


def test_modules_without_jitter(tmp_path):
    module = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert_no_jitter(module)
    assert_no_jitter(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)))
    tsarchive.save(module, tmp_path / "module.pt")
    assert_no_jitter(tsarchive.load(tmp_path / "module.pt"), map_location="cpu")


@pytest.mark.parametrize(
    ("make", "process"), [(Counting, "saving twice"), (Doubling, "save, load and save")]
)
def test_a_failure_names_the_record_and_shows_both_sides(make, process):
    with pytest.raises(AssertionError) as caught:
        assert_no_jitter(torch.jit.script(make()))
    text = str(caught.value)
    assert text.startswith(f"{process} gives different bytes: data.pkl differs from byte ")
    assert "\n  first:  b'" in text
    assert "\n  second: b'" in text


class Deciding(nn.Module):
    """What is asked of the type is known once the code is read back."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        anything: Any = x
        return x + 1 if isinstance(anything, torch.Tensor) else x


def test_code_that_its_graphs_print_otherwise_fails():
    module = torch.jit.script(Deciding())
    with pytest.raises(AssertionError, match="printing code from its graphs gives"):
        assert_no_jitter(module)
    assert_no_jitter(module, graph=False)


def test_a_plain_module_is_an_error_of_its_own():
    with pytest.raises(tsarchive.SaveError, match="has no TorchScript code"):
        assert_no_jitter(nn.ReLU())


def filled() -> torch.jit.ScriptModule:
    module = nn.Linear(2, 2)
    nn.init.constant_(module.weight, 0.5)
    nn.init.zeros_(module.bias)
    return torch.jit.script(module)


@pytest.mark.long("test_modules_without_jitter")
def test_the_canonical_form_in_fresh_processes():
    assert_no_jitter(filled(), canonical=True)


@pytest.mark.parametrize("digest", ["9f86d0", "sha256:" + 64 * "0", 64 * "0" + "\n"])
def test_a_digest_that_is_none(digest):
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        assert_no_jitter(filled(), digest=digest)


def test_a_digest_is_told_and_then_held():
    with pytest.raises(AssertionError, match="the digest of the canonical form is") as told:
        assert_no_jitter(filled(), digest="")
    digest = re.search("[0-9a-f]{64}", str(told.value))[0]
    assert_no_jitter(filled(), digest=digest.upper())
    other = filled()
    nn.init.ones_(other.bias)
    with pytest.raises(AssertionError, match=f"not {digest}"):
        assert_no_jitter(other, digest=digest)
