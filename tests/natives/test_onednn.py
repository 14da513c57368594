"""Layers with weights that oneDNN packed give what torch gives; nothing else is run."""

from __future__ import annotations

import pytest
import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives import NATIVES
from tsarchive.run.natives.onednn import ACTIVATIONS

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch is built without oneDNN"
)
CONVOLVE, APPLY = "mkldnn::_convolution_pointwise", "mkldnn::_linear_pointwise"
CONVOLVE_INTO = "mkldnn::_convolution_pointwise_.binary"
PACK, PACK_LINEAR = "mkldnn::_reorder_convolution_weight", "mkldnn::_reorder_linear_weight"
SCALARS = {"leaky_relu": [0.1], "hardtanh": [-0.5, 0.25]}
NUMBERS = [1, 1], [2, 1], [1, 2], 2


def activations():
    return [(name, SCALARS.get(name, []), "none" if name == "gelu" else "") for name in ACTIVATIONS]


@pytest.mark.parametrize("activation", activations(), ids=ACTIVATIONS)
def test_convolutions(activation):
    x, weight, bias = torch.randn(2, 4, 7, 8), torch.randn(6, 2, 3, 3), torch.randn(6)
    packed = NATIVES[PACK](weight, *NUMBERS, [2, 4, 7, 8])
    theirs = torch.ops.mkldnn._convolution_pointwise(x, weight, bias, *NUMBERS, *activation)
    for _ in range(2):
        given = NATIVES[CONVOLVE](x, packed, bias, *NUMBERS, *activation)
        assert torch.allclose(given, theirs, atol=1e-5)
    assert torch.equal(packed.to_dense(), weight)


@pytest.mark.parametrize("activation", activations(), ids=ACTIVATIONS)
def test_linear_layers(activation):
    x, weight, bias = torch.randn(2, 3, 5), torch.randn(4, 5), torch.randn(4)
    packed = NATIVES[PACK_LINEAR](weight, 6)
    theirs = torch.ops.mkldnn._linear_pointwise(x, weight, bias, *activation)
    assert torch.allclose(NATIVES[APPLY](x, packed, bias, *activation), theirs, atol=1e-5)
    assert torch.equal(packed.to_dense(), weight)


@pytest.mark.parametrize("size", [(0, 5), (2, 0, 5), (5,)], ids=str)
def test_linear_layers_of_no_rows_and_of_one_without_a_batch(size):
    x, weight, bias = torch.randn(size), torch.randn(4, 5), torch.randn(4)
    given = NATIVES[APPLY](x, NATIVES[PACK_LINEAR](weight, 6), bias, "relu", [], "")
    theirs = torch.relu(torch.nn.functional.linear(x, weight, bias))
    assert given.shape == theirs.shape
    assert torch.allclose(given, theirs, atol=1e-5)


def test_convolutions_of_an_empty_batch():
    weight, bias = torch.randn(6, 2, 3, 3), torch.randn(6)
    packed, arguments = NATIVES[PACK](weight, *NUMBERS, None), (*NUMBERS, "relu", [], "")
    for batch in (2, 0, 2):
        x = torch.randn(batch, 4, 7, 8)
        padding, stride, dilation, groups = NUMBERS
        theirs = torch.conv2d(x, weight, bias, stride, padding, dilation, groups).relu()
        given = NATIVES[CONVOLVE](x, packed, bias, *arguments)
        assert given.shape == theirs.shape
        assert torch.allclose(given, theirs, atol=1e-5)
    with pytest.raises(ScriptError, match="layer of oneDNN"):
        NATIVES[CONVOLVE](torch.randn(0, 3, 7, 8), packed, bias, *arguments)


@pytest.mark.parametrize("activation", [None, "relu"])
def test_sums(activation):
    weight, bias = torch.randn(6, 2, 3, 3), torch.randn(6)
    packed, options = NATIVES[PACK](weight, *NUMBERS, None), ("add", None, activation, [], None)
    padding, stride, dilation, groups = NUMBERS
    for batch in (2, 2, 0, 1):
        x = torch.randn(batch, 4, 7, 8)
        theirs = torch.conv2d(x, weight, bias, stride, padding, dilation, groups)
        other = torch.randn_like(theirs)
        theirs = theirs + other if activation is None else torch.relu(theirs + other)
        given = NATIVES[CONVOLVE_INTO](other, x, packed, bias, *NUMBERS, *options)
        assert torch.allclose(given, theirs, atol=1e-5)
        assert torch.allclose(other, theirs, atol=1e-5)


def test_sums_are_checked_after_others_of_the_same_weight():
    packed, options = NATIVES[PACK](torch.randn(6, 2, 3, 3), *NUMBERS, None), ([], None)
    x, other = torch.randn(2, 4, 7, 8), torch.randn(2, 6, 4, 6)
    NATIVES[CONVOLVE_INTO](other, x, packed, None, *NUMBERS, "add", None, "relu", *options)
    wrong = [
        (other[:1], x, "add", None, "relu"),
        (other[:, :, :1], x, "add", None, "relu"),
        (other.double(), x, "add", None, "relu"),
        (other, x[:1], "add", None, "relu"),
        (other, x, "sub", None, "relu"),
        (other, x, "add", 2.0, "relu"),
        (other, x, "add", None, "tanh"),
    ]
    for into, given, name, alpha, activation in wrong:
        with pytest.raises(ScriptError, match="layer of oneDNN"):
            NATIVES[CONVOLVE_INTO](
                into, given, packed, None, *NUMBERS, name, alpha, activation, *options
            )


def test_padding_is_no_input():
    numbers = [2, 2], [1, 1], [1, 1], 2
    packed = NATIVES[PACK](torch.randn(6, 2, 3, 3), *numbers, None)
    with pytest.raises(ScriptError, match="layer of oneDNN"):
        NATIVES[CONVOLVE](torch.randn(2, 4, 0, 8), packed, None, *numbers, "none", [], "")


def test_a_second_call_is_checked_like_the_first():
    packed = NATIVES[PACK](torch.randn(6, 2, 3, 3), *NUMBERS, None)
    x = torch.randn(2, 4, 7, 8)
    NATIVES[CONVOLVE](x, packed, torch.randn(6), *NUMBERS, "none", [], "")
    wrong = [
        (x, torch.randn(5), NUMBERS, "none", []),
        (x, torch.randn(6).double(), NUMBERS, "none", []),
        (x.double(), None, NUMBERS, "none", []),
        (x[:, :2], None, NUMBERS, "none", []),
        (x[0], None, NUMBERS, "none", []),
        (x, None, ([1, 1], [2, 2], [1, 2], 2), "none", []),
        (x, None, NUMBERS, "hardtanh", [1.0]),
        (x, None, NUMBERS, "unknown", []),
        (x.to_mkldnn(), None, NUMBERS, "none", []),
    ]
    for given, bias, numbers, name, scalars in wrong:
        with pytest.raises(ScriptError, match="layer of oneDNN"):
            NATIVES[CONVOLVE](given, packed, bias, *numbers, name, scalars, "")


@pytest.mark.parametrize(
    ("weight", "numbers", "size"),
    [
        (torch.randn(6, 2, 3), NUMBERS, None),
        (torch.randn(6, 2, 3, 3).double(), NUMBERS, None),
        (torch.randn(6, 2, 3, 3), ([1, 1], [0, 1], [1, 1], 2), None),
        (torch.randn(6, 2, 3, 3), ([-1, 1], [1, 1], [1, 1], 2), None),
        (torch.randn(6, 2, 3, 3), ([1, 1], [1, 1], [1, 1], 0), None),
        (torch.randn(6, 2, 3, 3), ([1, 1], [1, 1], [1, 1], 4), None),
        (torch.randn(6, 2, 3, 3), ([1, 1, 1], [1, 1], [1, 1], 2), None),
        (torch.randn(6, 2, 3, 3), NUMBERS, [1, 3, 7, 8]),
        (torch.randn(6, 2, 3, 3), NUMBERS, [1, 4, 7]),
        (torch.randn(6, 2, 3, 3), ([0, 0], [1, 1], [1, 1], 2), [1, 4, 2, 2]),
        (torch.randn(0, 2, 3, 3), NUMBERS, None),
    ],
)
def test_packing_checks_what_it_is_given(weight, numbers, size):
    with pytest.raises(ScriptError, match="layer of oneDNN"):
        NATIVES[PACK](weight, *numbers, size)
