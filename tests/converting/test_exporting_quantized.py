"""Quantized modules as programs of torch.export, as integers and as floats."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

import tsarchive
from tests.support.both_engines import both_of
from tests.support.comparing import equal

nnq = torch.ao.nn.quantized
SCALE, ZERO = 0.1, 64
WIDEST = 0.11  # a step of the widest scale here


def quantized(*shape, dtype=torch.qint8, scale=0.02, zero=0):
    values = torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)
    return torch.quantize_per_tensor(values, scale, zero, dtype)


def by_channel(*shape):
    values = torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)
    scales = torch.linspace(0.01, 0.02, shape[0], dtype=torch.float64)
    return torch.quantize_per_channel(values, scales, torch.zeros(shape[0]).long(), 0, torch.qint8)


class Between(nn.Module):
    """A layer between quantization and dequantization."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.quantize_per_tensor(x, 0.05, 100, torch.quint8)).dequantize()


def static(layer, weight, *, has_bias=True):
    layer.set_weight_bias(weight, torch.linspace(-1, 1, layer.out_features) if has_bias else None)
    layer.scale, layer.zero_point = SCALE, ZERO
    return Between(layer)


def convolution(kind, weight, **options):
    layer = kind(4, 6, 3, **options)
    layer.set_weight_bias(weight, torch.linspace(-1, 1, 6))
    layer.scale, layer.zero_point = SCALE, ZERO
    return Between(layer)


def dynamic(module, dtype=torch.qint8):
    torch.manual_seed(0)
    return torch.ao.quantization.quantize_dynamic(
        module(), {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}, dtype=dtype
    ).eval()


class Operators(nn.Module):
    """What torch has kernels for beside layers; each takes what was quantized here."""

    def forward(self, x: Tensor) -> list[Tensor]:
        q = torch.quantize_per_tensor(x, 0.05, 100, torch.quint8)
        shifted = torch.ops.quantized.add_scalar(q, 0.7)
        results = [
            torch.ops.quantized.add(q, torch.relu(q), 0.11, 90),
            torch.ops.quantized.mul_relu(q, q.flip(0), 0.11, 80),
            torch.ops.quantized.cat([q, q], 0, 0.11, 70),
            torch.ops.quantized.hardswish(q, 0.11, 70),
            torch.ops.quantized.leaky_relu(q, 0.2, False, 0.11, 70),
            torch.ops.quantized.add_scalar(q, 9.0),
            torch.ops.quantized.mul_scalar(shifted, -1.5),
            torch.max_pool2d(q, [2, 2], [2, 2]),
            torch.nn.functional.adaptive_avg_pool2d(q, 1),
            q.transpose(2, 3).reshape(2, -1).chunk(2, 1)[1],
            torch.sigmoid(q),
            torch.tanh(q),
        ]
        return [result.dequantize() for result in results]


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", by_channel(3, 4))
        self.register_buffer("whole", quantized(3, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, float]:
        return x + self.rows.dequantize(), self.whole.int_repr() + 1, self.whole.q_scale()


class States(nn.Module):
    """Recurrent cells with weights that are packed."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(4, 5), nn.GRUCell(4, 5)
        self.rnn = nn.RNNCell(4, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        hidden, cell = self.lstm(x)
        return hidden, cell, self.gru(x, hidden), self.rnn(x, hidden)


def image(*shape):
    """Floats that are whole steps of the scale at which they are quantized."""
    torch.manual_seed(1)
    return torch.randint(-60, 60, shape) * 0.05


CASES = {
    "linear": (lambda: static(nnq.Linear(4, 6), quantized(6, 4)), (5, 4)),
    "linear by channel": (lambda: static(nnq.Linear(4, 6), by_channel(6, 4)), (5, 4)),
    "linear without bias": (
        lambda: static(nnq.Linear(4, 6), quantized(6, 4), has_bias=False), (5, 4),
    ),
    "conv1d": (lambda: convolution(nnq.Conv1d, quantized(6, 4, 3), padding=1), (2, 4, 9)),
    "conv2d": (lambda: convolution(nnq.Conv2d, by_channel(6, 4, 3, 3), stride=2), (2, 4, 9, 8)),
    "grouped": (
        lambda: convolution(nnq.Conv2d, quantized(6, 2, 3, 3), groups=2, dilation=2), (1, 4, 9, 9),
    ),
    "conv3d": (lambda: convolution(nnq.Conv3d, quantized(6, 4, 3, 3, 3)), (1, 4, 5, 5, 5)),
    "transposed": (
        lambda: convolution(
            nnq.ConvTranspose2d, quantized(4, 6, 3, 3), stride=2, output_padding=1
        ),
        (1, 4, 5, 5),
    ),
    "dynamic": (lambda: dynamic(lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU())), (5, 4)),
    "float16": (lambda: dynamic(lambda: nn.Sequential(nn.Linear(4, 6)), torch.float16), (5, 4)),
    "lstm": (
        lambda: dynamic(lambda: nn.Sequential(nn.LSTM(4, 5, 2, bidirectional=True))), (6, 2, 4),
    ),
    "gru": (lambda: dynamic(lambda: nn.Sequential(nn.GRU(4, 5, batch_first=True))), (2, 6, 4)),
    "cells": (lambda: dynamic(States), (3, 4)),
    "operators": (Operators, (1, 2, 4, 4)),
    "buffers": (Buffers, (3, 4)),
}  # fmt: skip


def flat(value):
    """The tensors and numbers of a result, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [torch.as_tensor(value)]


@pytest.fixture(autouse=True)
def _deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("dequantize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_torch_jit(name, dequantize):
    """As integers but for a step of a few elements; as floats but for rounding and saturation."""
    make, shape = CASES[name]
    theirs, mine = both_of(torch.jit.script(make()))
    x = image(*shape)
    notes = []
    program = tsarchive.to_exported_program(mine, (x,), dequantize=dequantize, told=notes.append)
    assert "quantized" in {note.kind for note in notes}
    expected, found = flat(theirs(x)), flat(program.module()(x))
    assert len(expected) == len(found)
    for one, two in zip(expected, found, strict=True):
        within = two.clamp(one.min(), one.max()) if dequantize else two
        apart = (one.double() - within.double()).abs()
        assert apart.max() <= WIDEST * 1.01
        assert dequantize or (apart > 1e-4).double().mean() <= 0.05


def test_packed_weights_are_buffers():
    layer = static(nnq.Linear(4, 6), by_channel(6, 4))
    theirs, mine = both_of(torch.jit.script(layer))
    x = image(5, 4)
    state = tsarchive.to_exported_program(mine, (x,)).state_dict
    (name,) = (key for key in state if key.endswith(".weight"))
    weight, _ = layer.layer._weight_bias()
    assert equal(state[name], weight.int_repr())
    assert equal(state[f"{name}_scale"], weight.q_per_channel_scales())
    floats = tsarchive.to_exported_program(mine, (x,), dequantize=True).state_dict
    assert equal(floats[name], weight.dequantize())
    assert equal(mine(x), theirs(x))


def test_targets_are_operators_of_quantized_decomposed():
    _, mine = both_of(torch.jit.script(static(nnq.Linear(4, 6), quantized(6, 4))))
    program = tsarchive.to_exported_program(mine, (image(5, 4),))
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert "quantized_decomposed.quantize_per_tensor.default" in targets
    assert "aten.linear.default" in targets
    floats = tsarchive.to_exported_program(mine, (image(5, 4),), dequantize=True)
    assert not any("quantize" in str(node.target) for node in floats.graph.nodes)


class Doubled(nn.Module):
    def forward(self, q: Tensor) -> Tensor:
        return torch.ops.quantized.add(q, q, 0.2, 30)


def test_quantized_arguments_and_results():
    theirs, mine = both_of(torch.jit.script(Doubled()))
    q = quantized(3, 4, dtype=torch.quint8, zero=60)
    notes = []
    program = tsarchive.to_exported_program(mine, (q,), told=notes.append)
    assert equal(program.module()(q.int_repr()), theirs(q).int_repr())
    assert not vars(program.example_inputs[0][0])  # the integers alone, as archives hold them
    told = [note.text for note in notes if note.kind == "quantized"]
    assert any(text.startswith("q is the integers") and "0.02" in text for text in told)
    assert any(text.startswith("result 0 is the integers") and "0.2" in text for text in told)
    run = tsarchive.to_exported_program(mine, (q,), dequantize=True).module()
    assert equal(run(q.dequantize()), q.dequantize() * 2)


class Sorted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sort(torch.quantize_per_tensor(x, 0.1, 0, torch.qint8))[0].dequantize()


def test_other_operators_are_refused():
    _, mine = both_of(torch.jit.script(Sorted()))
    with pytest.raises(tsarchive.UnsupportedError, match="aten::sort on quantized") as info:
        tsarchive.to_exported_program(mine, (image(5),))
    assert "test_exporting_quantized.py:" in str(info.value)


class Measured(nn.Module):
    """A scale that is a tensor, and a branch on what was quantized."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([0.1]))
        self.register_buffer("zero", torch.tensor([5]))

    def forward(self, x: Tensor) -> Tensor:
        q = torch.quantize_per_tensor(x, float(self.scale), int(self.zero), torch.quint8)
        return q.dequantize() if bool(q.int_repr().sum() > 0) else x


@pytest.mark.parametrize("dequantize", [False, True])
def test_scales_in_buffers_and_decisions(dequantize):
    theirs, mine = both_of(torch.jit.script(Measured()))
    x = image(4).abs() * 2
    program = tsarchive.to_exported_program(mine, (x,), specialize=True, dequantize=dequantize)
    found = program.module()(x)
    torch.testing.assert_close(found, x if dequantize else theirs(x))
    with pytest.raises(RuntimeError, match="specialized"):
        program.module()(torch.full((4,), -9.0))
