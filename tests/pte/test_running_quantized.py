"""Quantizing and dequantizing in programs of ExecuTorch, beside the operators of torch.ao."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed

from fixtures.executorch_samples import BYTE, FLOAT, LONG
from tests.pte.quantized_programs import (
    ARITHMETIC,
    CHAR,
    OPS,
    SCALES,
    WEIGHT,
    ZEROS,
    X,
    program,
    quantized,
)
from tests.support.executorch_files import flattened, loaded
from tsarchive.errors import ScriptError


def run(name, sizes, scalar_type, more, *inputs):
    """The result of one operator on inputs and numbers."""
    return run_several(name, [(sizes, scalar_type)], more, *inputs)


def run_several(name, outs, more, *inputs, numbers_at=None):
    """Results of one operator."""
    return loaded(program(name, outs, more, *inputs, numbers_at=numbers_at))(*inputs)


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


# Scales that are found


DOUBLE = 7


def chosen(name, x, sizes, more):
    return run_several(name, [(sizes, DOUBLE), (sizes, LONG)], more, x)


@pytest.mark.parametrize("factor", [1.0, -0.01, 100.0])
@pytest.mark.parametrize(("low", "high", "dtype"), [(-128, 127, CHAR), (0, 255, BYTE)])
def test_the_scale_of_a_tensor(factor, low, high, dtype):
    of_torch = torch.int8 if dtype == CHAR else torch.uint8
    expected = OPS.choose_qparams.tensor(X * factor, low, high, 1e-6, of_torch)
    found = chosen("choose_qparams.Tensor_out", X * factor, [1], [low, high, 1e-6, dtype])
    torch.testing.assert_close(found, expected)


def test_the_scales_of_rows():
    expected = OPS.choose_qparams_per_token_asymmetric(X, torch.int8)
    found = chosen("choose_qparams_per_token_asymmetric.out", X, [3, 1], [CHAR])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("held", "scale"), [(0.0, 0.1), (1e-40, 0.1), (1e-4, 6.1e-5)])
def test_the_scale_of_what_is_close_to_nothing(held, scale):
    """As in the runtime: torch.ao takes the least difference from 1 there."""
    x = torch.full((2, 2), held)
    found, zero = chosen("choose_qparams.Tensor_out", x, [1], [-128, 127, 1e-6, CHAR])
    assert found.item() == pytest.approx(scale)
    assert zero.item() == (127 if held < 1e-30 else -128)


def test_nothing_has_no_scale():
    for more in ([-128, 127, 1e-6, CHAR], [127, -128, 1e-6, CHAR]):
        x = torch.ones(0 if more[0] < 0 else 2)
        with pytest.raises(ScriptError):
            chosen("choose_qparams.Tensor_out", x, [1], more)
    with pytest.raises(ScriptError, match="a row without elements"):
        chosen("choose_qparams_per_token_asymmetric.out", torch.ones(2, 0), [2, 1], [CHAR])


# Embeddings


PACKED = torch.tensor([[0x1F, 0x80], [0x7B, 0x00], [0xFF, 0x93]], dtype=torch.uint8)
UNPACKED = {
    "embedding_byte": WEIGHT,
    "embedding_4bit": torch.tensor([[-7, 7, 0, -8], [-1, 3, -8, -8], [7, 7, 1, -5]]),
    "embedding_2bit": torch.tensor(
        [[1, 1, -1, -2, -2, -2, -2, 0], [1, 0, 1, -1, -2, -2, -2, -2],
         [1, 1, 1, 1, 1, -2, -1, 0]]
    ),
}  # fmt: skip
INDICES = torch.tensor([[2, 0], [1, 1]])


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("groups", [None, 1, 2])
@pytest.mark.parametrize("name", UNPACKED)
def test_rows_of_embeddings(name, groups, has_zeros):
    held = UNPACKED[name].float()
    shape = (3,) if groups is None else (3, groups)
    scales, zeros = torch.rand(shape) + 0.1, torch.randn(shape)
    far = held.size(1) // (groups or 1)
    spread = [v.reshape(3, -1).repeat_interleave(far, 1) for v in (scales, zeros)]
    expected = ((held - spread[1] * has_zeros) * spread[0])[INDICES]
    weight = WEIGHT if name == "embedding_byte" else PACKED
    given = [weight, scales, zeros] if has_zeros else [weight, scales]
    numbers = [-8, 7] if has_zeros else [None, -8, 7]
    out = [([2, 2, held.size(1)], FLOAT)]
    found = run_several(f"{name}.out", out, numbers, *given, INDICES, numbers_at=len(given))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("scales", "index"),
    [((3, 3), 0), ((2,), 2), ((3, 0), 0), ((3, 1, 1), 0), ((3,), 3), ((3,), -1)],
)
def test_embeddings_that_do_not_fit(scales, index):
    given = WEIGHT, torch.ones(scales), torch.tensor([index])
    with pytest.raises((ScriptError, IndexError, RuntimeError)):
        run_several("embedding_byte.out", [([1, 4], FLOAT)], [None, -8, 7], *given, numbers_at=2)


# Sums and products


@pytest.mark.parametrize("step", ARITHMETIC)
def test_sums_and_products(step):
    made, inputs, expected = step()
    torch.testing.assert_close(flattened(loaded(made)(*inputs)), [expected])


def test_scales_of_products_are_those_of_rows():
    for scales in (torch.ones(4), torch.ones(3, 1), torch.ones(())):
        with pytest.raises(ScriptError, match="scales for a weight"):
            run("mixed_mm.out", [2, 4], FLOAT, [None], torch.ones(2, 3), WEIGHT, scales)


def test_what_an_operator_raises_is_an_error_of_the_program():
    """As of operators that are the runtime's own: a RuntimeError, whatever torch makes of it."""
    beyond = torch.tensor([0, len(WEIGHT)])
    with pytest.raises(ScriptError, match="out of range"):
        run_several(
            "embedding_byte.out", [([2, 4], FLOAT)], [None, -8, 7],
            WEIGHT, torch.ones(len(WEIGHT)), beyond, numbers_at=2,
        )  # fmt: skip
