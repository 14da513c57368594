"""Sizes that are open in programs of ExecuTorch: results take theirs within their bounds."""

from __future__ import annotations

import pytest
import torch

import tsarchive
from fixtures.executorch_programs import ADD, PRIM, bounded, dynamic, method, tensors, viewing
from fixtures.executorch_samples import LONG, tensor
from tests.support.executorch_files import loaded


@pytest.mark.parametrize("rows", [0, 1, 3, 4])
def test_sizes_within_the_bound(rows):
    module = loaded(dynamic())
    for count in (4, rows, 4):
        x = torch.randn(count, 2)
        assert torch.equal(module(x), x + x)


def test_the_bound_is_that_of_elements():
    module = loaded(dynamic())
    x = torch.randn(1, 8)
    assert torch.equal(module(x), x + x)


@pytest.mark.parametrize("shape", [(5, 2), (9, 1), (4,), (2, 2, 2)])
def test_sizes_beyond_the_bound(shape):
    with pytest.raises(tsarchive.CallError, match=r"input 0 should be float32\[4, 2\] or less"):
        loaded(dynamic())(torch.zeros(shape))


def test_a_result_beyond_its_bound_fails_and_touches_nothing_else():
    values = [bounded([4, 2], (1, 0)), 1, bounded([2, 2], (1, 64)), tensor([4], at=(1, 80))]
    keep = method([tensor([4], at=(1, 80))], [], [], [0], name="look")
    module = loaded(method(values, [ADD], [0, 3], [2]), keep)
    mark = torch.full((4,), 9.0)
    module(torch.ones(2, 2), mark)
    with pytest.raises(tsarchive.ScriptError):
        module(torch.ones(3, 2), mark)
    assert torch.equal(module.look(), mark)
    assert torch.equal(module(torch.ones(1, 2), mark), torch.full((1, 2), 2.0))


def test_a_result_of_fixed_sizes_is_of_those():
    values = [bounded([4, 2], (1, 0)), 1, tensor([2, 2], at=(1, 64))]
    module = loaded(method(values, [ADD], [0], [2]))
    assert torch.equal(module(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    for rows in (1, 3):
        with pytest.raises(tsarchive.ScriptError):
            module(torch.ones(rows, 2))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_bound_of_no_elements(rows):
    values = [bounded([4, 2], (1, 0)), 1, bounded([0, 2], (1, 64))]
    module = loaded(method(values, [ADD], [0], [2]))
    assert module(torch.ones(0, 2)).shape == (0, 2)
    with pytest.raises(tsarchive.ScriptError):
        module(torch.ones(rows, 2))
    assert module(torch.ones(0, 2)).shape == (0, 2)


def test_sizes_are_computed():
    values = [
        bounded([4, 3], (1, 0)), 0, 0, 3, 0, [4], bounded([12], (1, 64)), 2,
    ]  # fmt: skip
    steps = [
        ("aten::sym_size.int", 0, 1, 2),
        (f"{PRIM}mul.Scalar", 2, 3, 4),
        (f"{PRIM}et_view.default", 0, 5, 6, 6),
    ]
    module = loaded(method(values, steps, [0], [6, 4]))
    for rows in (4, 2, 1):
        x = torch.randn(rows, 3)
        found, size = module(x)
        assert torch.equal(found, x.flatten())
        assert size == rows * 3


def test_a_view_is_over_the_memory_of_what_it_views():
    module = loaded(viewing())
    x = torch.randn(2, 3)
    for _ in range(2):
        assert torch.equal(module(x), x + x)


@pytest.mark.parametrize("rows", [4, 3, 0])
def test_lists_of_results_whose_sizes_are_open(rows):
    """The overload of torch that is given a list does not resize what is in it."""
    values = [
        bounded([4, 2], (1, 0)), 1, bounded([4, 1], (1, 64)), bounded([4, 1], (1, 128)),
        tensors(2, 3),
    ]  # fmt: skip
    module = loaded(method(values, [("aten::split_copy.Tensor_out", 0, 1, 1, 4, 4)], [0], [2, 3]))
    x = torch.randn(rows, 2)
    first, second = module(x)
    assert torch.equal(torch.cat([first, second], 1), x)


def made_of_numbers(operator, *arguments):
    """A program that makes a vector of ``n`` elements, of which there are eight at most."""
    values = [tensor([], LONG, at=(1, 0)), 0, 1, [1], bounded([8], (1, 16)), None]
    steps = [("aten::_local_scalar_dense", 0, 1), (operator, *arguments, 4, 4)]
    keep = method([tensor([4], at=(1, 48))], [], [], [0], name="look")
    return loaded(method(values, steps, [0], [4]), keep)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("aten::arange.out", (1,)),
        ("aten::full.out", (3, 2)),
        ("aten::zeros.out", (3,)),
        ("aten::ones.out", (3,)),
        ("aten::empty.out", (3, 5)),
    ],
)
def test_what_is_made_of_numbers_grows_as_far_as_its_bound(operator, arguments):
    module = made_of_numbers(operator, *arguments)
    before = module.look()
    for count in (8, 0, 3):
        assert module(torch.tensor(count)).shape == (count,)
    with pytest.raises(tsarchive.ScriptError, match="does not fit: the bound is 8 elements"):
        module(torch.tensor(9))
    assert torch.equal(module.look(), before)
    assert module(torch.tensor(2)).shape == (2,)
