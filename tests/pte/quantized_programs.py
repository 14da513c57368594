"""Programs whose sums and products are of quantized numbers, with inputs and results."""

from __future__ import annotations

import torch

from fixtures.executorch_programs import method
from fixtures.executorch_samples import BYTE, FLOAT, LONG, tensor

OPS = torch.ops.quantized_decomposed


CHAR = 1


KINDS = {torch.float32: FLOAT, torch.int64: LONG, torch.int8: CHAR, torch.uint8: BYTE}


SCALES, ZEROS = torch.tensor([0.1, 0.25, 2.0]), torch.tensor([0, 3, -5])
X = torch.tensor([[-100.0, -1.26, 0.049, 0.05], [0.125, 0.375, 1.0, 7.0], [-1.0, 1.0, 3.0, 500.0]])


def program(name, outs, more, *inputs, numbers_at=None):
    """A method of one operator; its numbers stand behind the first ``numbers_at`` inputs."""
    given = [
        tensor(list(value.shape), KINDS[value.dtype], at=(1, 128 * place))
        for place, value in enumerate(inputs)
    ]
    made = [tensor(*out, at=(1, 512 + 256 * place)) for place, out in enumerate(outs)]
    split = len(given) if numbers_at is None else numbers_at
    values = [*given[:split], *more, *given[split:], *made]
    first = len(values) - len(made)
    places = [*range(split), *range(split + len(more), first)]
    step = (f"quantized_decomposed::{name}", *range(len(values)), first)
    return method(values, [step], places, [*range(first, len(values))])


def quantized(low=-128, high=127, dtype=torch.int8):
    return OPS.quantize_per_channel(X, SCALES, ZEROS, 0, low, high, dtype)


WEIGHT = torch.randint(-128, 128, (3, 4), dtype=torch.int8)


def product_by_rows():
    inputs = torch.randn(2, 4), WEIGHT, torch.rand(3)
    exact = inputs[0] @ (WEIGHT.float() * inputs[2].unsqueeze(1)).mT
    return program("mixed_linear.out", [([2, 3], FLOAT)], [None, None], *inputs), inputs, exact


def product():
    inputs = torch.randn(2, 3), WEIGHT, torch.rand(3)
    exact = inputs[0] @ (WEIGHT.float() * inputs[2].unsqueeze(1))
    return program("mixed_mm.out", [([2, 4], FLOAT)], [None], *inputs), inputs, exact


def total():
    a, b = quantized(0, 255, torch.uint8), quantized(0, 255, torch.uint8).flip(0)
    exact = (a.float() - 3) * 0.5 + (b.float() + 2) * 0.25
    first, second, last = [0.5, 3, 0, 255], [0.25, -2, 0, 255], [0.7, 5, 0, 255]
    values = [
        tensor([3, 4], BYTE, at=(1, 0)), *first, tensor([3, 4], BYTE, at=(1, 128)), *second, *last,
        tensor([3, 4], BYTE, at=(1, 256)),
    ]  # fmt: skip
    step = ("quantized_decomposed::add.out", *range(len(values)), len(values) - 1)
    expected = OPS.quantize_per_tensor(exact, *last, torch.uint8)
    return method(values, [step], [0, 5], [len(values) - 1]), (a, b), expected


ARITHMETIC = [product_by_rows, product, total]
