"""Formulas of differentiation, as programs that train hold them: what fits runs, all else fails."""

from __future__ import annotations

import pytest
import torch

from tsarchive.errors import ScriptError
from tsarchive.run.operators import implementation, operator_schemas


def operator(name: str):
    """What runs for an operator, as generated code calls it."""
    return implementation(next(s for s in operator_schemas(name) if not s.overload))


convolve = operator("aten::convolution_backward")
pool = operator("aten::max_pool2d_with_indices_backward")

CONVOLUTIONS = {
    "line": ((2, 3, 8), (4, 3, 3), [1], [0], [1], False, [0], 1),
    "plane": ((2, 3, 8, 7), (4, 3, 3, 2), [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
    "one_number_for_all": ((2, 3, 8, 7), (4, 3, 3, 3), [2], [1], [1], False, [0], 1),
    "groups": ((2, 4, 6, 6), (8, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
    "space": ((1, 2, 4, 4, 4), (2, 2, 2, 2, 2), [1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1),
}


def convolution(name):
    """The input, the weight, the gradient of the result, and the other arguments."""
    data, weight, *rest = CONVOLUTIONS[name]
    data, weight = torch.randn(data), torch.randn(weight)
    result = torch.convolution(data, weight, None, *rest)
    return data, weight, torch.randn(result.shape), rest


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_convolutions(name):
    data, weight, gradient, rest = convolution(name)
    bias = torch.zeros(gradient.size(1))
    given = [tensor.requires_grad_() for tensor in (data, weight, bias)]
    result = torch.convolution(*given, *rest)
    expected = torch.autograd.grad(result, given, gradient)
    with torch.no_grad():
        found = convolve(gradient, data, weight, [len(bias)], *rest, [True] * 3)
        (_, alone, _) = convolve(gradient, data, weight, None, *rest, [False, True, False])
    for one, other in zip((*found, alone), (*expected, expected[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_gradient_of_other_sizes_than_the_convolution_gives(name):
    data, weight, gradient, rest = convolution(name)
    for dim in range(gradient.dim()):
        for size in (0, gradient.size(dim) - 1, gradient.size(dim) + 1):
            shape = [*gradient.shape[:dim], size, *gradient.shape[dim + 1 :]]
            if shape == list(gradient.shape):
                continue
            with pytest.raises(ScriptError, match="a gradient of sizes"):
                convolve(torch.zeros(shape), data, weight, None, *rest, [True, True, False])


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, torch.zeros(2, 4, 6, dtype=torch.float64), "do not belong together"),
        (0, torch.zeros(2, 4), "do not belong together"),
        (1, torch.zeros(2, 3, 8).to_sparse(), "do not belong together"),
        (2, torch.zeros(4, 3), "do not belong together"),
        (2, torch.zeros(4, 3, 0), "a gradient of sizes"),
        (3, None, "a bias of sizes None"),
        (3, [5], "a bias of sizes"),
        (3, [4, 1], "a bias of sizes"),
        (4, [0], "not positive"),
        (4, [-1], "not positive"),
        (4, [1, 1], "2 numbers for 1 dimensions"),
        (5, [-1], "a gradient of sizes"),
        (6, [0], "not positive"),
        (7, True, "transposed convolution is not"),
        (9, 0, "not positive"),
    ],
)
def test_other_arguments_of_a_convolution(place, value, message):
    data, weight, gradient, rest = convolution("line")
    given = [gradient, data, weight, [4], *rest, [True] * 3]
    given[place] = value
    with pytest.raises(ScriptError, match=message):
        convolve(*given)


POOL = ([2, 2], [2, 2], [0, 0], [1, 1], False)


@pytest.mark.parametrize("shape", [(2, 3, 6, 4), (3, 6, 4)])
def test_gradients_of_pooling(shape):
    data = torch.randn(shape, requires_grad=True)
    result, indices = torch.ops.aten.max_pool2d_with_indices(data, *POOL)
    gradient = torch.randn(result.shape)
    (expected,) = torch.autograd.grad(result, data, gradient)
    assert torch.equal(pool(gradient, data.detach(), *POOL, indices), expected)


@pytest.mark.parametrize("number", [-1, 24, 2**40])
def test_indices_of_pooling_are_within_the_plane(number):
    data = torch.randn(1, 1, 6, 4)
    result, indices = torch.ops.aten.max_pool2d_with_indices(data, *POOL)
    indices[..., 0, 0] = number
    with pytest.raises(ScriptError, match="not within 24 elements"):
        pool(result, data, *POOL, indices)


@pytest.mark.parametrize(
    ("data", "gradient", "indices"),
    [
        ((1, 1, 6, 4), (1, 1, 3, 2), (1, 1, 3, 1)),
        ((6, 4), (3, 2), (3, 2)),
        ((1, 1, 6, 4), (1, 1, 3, 1), (1, 1, 3, 1)),
        ((1, 1, 6, 4), (1, 2, 3, 2), (1, 2, 3, 2)),
        ((1, 1, 6, 4), (2, 1, 3, 2), (2, 1, 3, 2)),
    ],
)
def test_sizes_of_pooling_fit(data, gradient, indices):
    given = torch.zeros(gradient), torch.zeros(data), torch.zeros(indices, dtype=torch.int64)
    with pytest.raises(RuntimeError):
        pool(*given[:2], *POOL, given[2])
