"""Slices of tensors in Python's syntax, which are those of the operator."""

from __future__ import annotations

import pytest
import torch

from tests.support.comparing import equal
from tests.support.running import outcome, scripted, source, trusting
from tsarchive.adopt.torch_jit import adopt_function
from tsarchive.run.calls_from_python import public_function

X = torch.arange(24.0).view(4, 6)
INPUTS = [
    X, X[0], X[0, 0], X.view(2, 2, 6), X[:0], X.t(), X.to_sparse(), torch.nn.Parameter(X.clone()),
]  # fmt: skip
# A slice, and whether it is written as one.
SLICES = [
    ("x[n:]", True), ("x[:n]", True), ("x[n:-1]", True), ("x[-3:n]", True), ("x[1:9:2]", True),
    ("x[:, n:]", True), ("x[:, 1:3]", True), ("x[:, ::2]", True), ("x[:, -2:]", True),
    ("x[:, :, n:]", True), ("x[n:, 1:]", True), ("x[:, n:0]", True), ("x[m:]", False),
    ("x[::n]", False), ("torch.slice_copy(x, 0, 1, 2)", False),
]  # fmt: skip


def function_of(text: str):
    return scripted(f"def f(x, n: int, m: Optional[int]):\n  return {text}\n")


@pytest.mark.parametrize(("text", "is_written"), SLICES)
def test_slices_are_those_of_the_operator(text, is_written):
    theirs = function_of(text)
    function = adopt_function(theirs)
    assert ("if type(x) is Tensor" in source(function)) is is_written
    ours = public_function(function, trusting().compiler)
    for x in INPUTS:
        for n in (0, 1, 2, -1, 7):
            kind, found = outcome(ours, x, n, None)
            expected_kind, expected = outcome(theirs, x, n, None)
            assert kind == expected_kind, (x.shape, n, found, expected)
            if kind == "result":
                assert equal(found, expected)


def test_slices_are_views():
    ours = public_function(adopt_function(function_of("x[:, n:]")), trusting().compiler)
    x = X.clone()
    ours(x, 2, None).zero_()
    assert x[:, 2:].abs().sum() == 0
    assert equal(x[:, :2], X[:, :2])
    assert ours(x, 0, None)._is_view()


@pytest.mark.parametrize("text", ["x[:, 1:3]", "x[1:]", "x[:, n]"])
def test_gradients_of_slices(text):
    theirs = function_of(text)
    ours = public_function(adopt_function(theirs), trusting().compiler)
    slopes = []
    for run in (ours, theirs):
        x = X.clone().requires_grad_()
        run(x * 1, 1, None).square().sum().backward()
        slopes.append(x.grad)
    assert equal(*slopes)


class Taking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = x[:, 1]
        x[:, 2:4].add_(first.unsqueeze(1))
        return first + x[:, 3] * x[1:3, 1:3].sum()


def test_slices_of_all_rows_are_left_out_of_traces():
    function = torch.jit.trace(lambda x: Taking()(x * 1), X)
    adopted = adopt_function(function)
    assert source(adopted).count("slice = x\n") == 1
    assert equal(public_function(adopted, trusting().compiler)(X), function(X))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_lists_of_other_lengths_are_errors(count):
    text = f"def f(x):\n  {', '.join('abcd'[:count])} = torch.chunk(x, 3, 1)\n  return a + b\n"
    theirs = scripted(text)
    kinds = [outcome(run, X) for run in (
        public_function(adopt_function(theirs), trusting().compiler), theirs,
    )]  # fmt: skip
    assert kinds[0][0] == kinds[1][0] == ("result" if count == 3 else "error")
