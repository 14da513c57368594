"""Quantizing and dequantizing in programs of ExecuTorch, beside the operators of torch.ao."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from executorch_support import loaded

from fixtures.executorch_programs import method
from fixtures.executorch_samples import BYTE, FLOAT, LONG, tensor
from tsarchive.errors import ScriptError

OPS = torch.ops.quantized_decomposed
CHAR = 1
SCALES, ZEROS = torch.tensor([0.1, 0.25, 2.0]), torch.tensor([0, 3, -5])
X = torch.tensor([[-100.0, -1.26, 0.049, 0.05], [0.125, 0.375, 1.0, 7.0], [-1.0, 1.0, 3.0, 500.0]])


def run(name, sizes, scalar_type, more, *inputs):
    """The result of one operator on inputs and numbers."""
    kinds = {torch.float32: FLOAT, torch.int64: LONG, torch.int8: CHAR, torch.uint8: BYTE}
    values = [
        tensor(list(given.shape), kinds[given.dtype], at=(1, 128 * place))
        for place, given in enumerate(inputs)
    ]
    out = len(values)
    values.append(tensor(sizes, scalar_type, at=(1, 512)))
    numbers = range(out + 1, out + 1 + len(more))
    args = [*range(out), *numbers, out, out]
    made = method(
        [*values, *more], [(f"quantized_decomposed::{name}", *args)], [*range(out)], [out]
    )
    return loaded(made)(*inputs)


def quantized(low=-128, high=127, dtype=torch.int8):
    return OPS.quantize_per_channel(X, SCALES, ZEROS, 0, low, high, dtype)


@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(-128, 127, CHAR), (0, 255, BYTE), (-8, 7, CHAR)]
)
def test_one_scale_for_all(low, high, dtype):
    of_torch = torch.int8 if dtype == CHAR else torch.uint8
    expected = OPS.quantize_per_tensor(X, 0.1, 3, low, high, of_torch)
    found = run("quantize_per_tensor.out", [3, 4], dtype, [0.1, 3, low, high, dtype], X)
    assert torch.equal(found, expected)
    back = OPS.dequantize_per_tensor(expected, 0.1, 3, low, high, of_torch)
    more = [0.1, 3, low, high, dtype, None]
    assert torch.equal(run("dequantize_per_tensor.out", [3, 4], FLOAT, more, expected), back)


def test_a_scale_for_each_channel():
    expected = quantized()
    more = [0, -128, 127, CHAR]
    found = run("quantize_per_channel.out", [3, 4], CHAR, more, X, SCALES, ZEROS)
    assert torch.equal(found, expected)
    back = OPS.dequantize_per_channel(expected, SCALES, ZEROS, 0, -128, 127, torch.int8)
    more = [0, -128, 127, CHAR, None]
    given = expected, SCALES, ZEROS
    assert torch.equal(run("dequantize_per_channel.out", [3, 4], FLOAT, more, *given), back)


@pytest.mark.parametrize("axis", [2, -3, 1 << 40])
def test_a_dimension_that_is_not_there(axis):
    with pytest.raises(ScriptError, match="there is no dimension"):
        run("quantize_per_channel.out", [3, 4], CHAR, [axis, -128, 127, CHAR], X, SCALES, ZEROS)


def test_scales_of_other_numbers():
    with pytest.raises(RuntimeError):
        run("quantize_per_channel.out", [3, 4], CHAR, [1, -128, 127, CHAR], X, SCALES, ZEROS)
