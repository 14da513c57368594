"""Quantized operators as old archives call them, against what they are today."""

import pytest
import torch

from tests.support.comparing import equal
from tsarchive.run.natives import NATIVES

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:Arguments .stride, padding"),
]
ops = torch.ops.quantized


def ramp(*shape):
    return torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)


def quantized(tensor, dtype=torch.quint8):
    return torch.quantize_per_tensor(tensor, 0.02, 64 if dtype == torch.quint8 else 0, dtype)


def packed_linear(rows, columns, seed=0.0, bias=True):
    weight = quantized(ramp(rows, columns) + seed, torch.qint8)
    return ops.linear_prepack(weight, ramp(rows) if bias else None)


@pytest.mark.parametrize(
    ("key", "dimensions"),
    [
        ("quantized::conv2d", 2),
        ("quantized::conv2d_relu", 2),
        ("quantized::conv3d", 3),
        ("quantized::conv3d_relu", 3),
    ],
)
def test_convolutions_with_eight_arguments(key, dimensions):
    prepack = ops.conv2d_prepack if dimensions == 2 else ops.conv3d_prepack
    stride, padding, dilation = [2] * dimensions, [1] * dimensions, [1] * dimensions
    weight = quantized(ramp(2, 3, *[2] * dimensions), torch.qint8)
    packed = prepack(weight, ramp(2), stride, padding, dilation, 1)
    x = quantized(ramp(1, 3, *[4] * dimensions))
    arguments = (x, packed, stride, padding, dilation, 1, 0.05, 60)
    packet = getattr(ops, key.partition("::")[2])
    assert equal(NATIVES[key](*arguments), packet.default(*arguments))


def test_unpacking_of_what_was_declared_a_tensor():
    packed = packed_linear(3, 2)
    assert equal(NATIVES["quantized::linear_unpack.legacy"](packed), ops.linear_unpack(packed))
    half = ops.linear_prepack_fp16(ramp(3, 2), ramp(3))
    unpack = NATIVES["quantized::linear_unpack_fp16.legacy"]
    assert equal(unpack(half), ops.linear_unpack_fp16(half))


SIZES = {"has_biases": True, "num_layers": 2, "dropout": 0.0, "train": False}
HIDDEN = [ramp(4, 2, 3), ramp(4, 2, 3) * 0.5]


def lstm_parameters(pack):
    """Weights of two layers in two directions: of the input, and of the hidden state."""
    return [
        pack(12, columns, seed=0.1 * layer)
        for layer, width in enumerate((5, 6))
        for _direction in range(2)
        for columns in (width, 3)
    ]


def cells(parameters, make):
    return [make(*pair) for pair in zip(parameters[::2], parameters[1::2], strict=True)]


def dynamic_cell(one, two):
    biases = [ops.linear_unpack(packed)[1] for packed in (one, two)]
    biases = [torch.zeros(12) if bias is None else bias for bias in biases]
    return ops.make_quantized_cell_params_dynamic(one, two, *biases)


def half(rows, columns, seed):
    return ops.linear_prepack_fp16(ramp(rows, columns) + seed, ramp(rows))


def without_bias(rows, columns, seed):
    return packed_linear(rows, columns, seed, bias=False)


PACKING = {
    "qint8": (packed_linear, dynamic_cell, torch.qint8),
    "without bias": (without_bias, dynamic_cell, torch.qint8),
    "float16": (half, ops.make_quantized_cell_params_fp16, torch.float16),
}
NUMBERS = {torch.qint8: 12, torch.float16: 5}


@pytest.mark.parametrize("packing", PACKING)
def test_lstm_with_packed_weights_in_a_list_of_tensors(packing):
    pack, make, dtype = PACKING[packing]
    parameters = lstm_parameters(pack)
    x, rest = ramp(4, 2, 5), (*SIZES.values(), True, False)
    expected = torch.ops.aten.quantized_lstm.input(
        x, HIDDEN, cells(parameters, make), *rest, dtype=dtype, use_dynamic=True
    )
    lstm = NATIVES["aten::quantized_lstm.input_legacy"]
    found = lstm(x, HIDDEN, parameters, *rest, dtype=NUMBERS[dtype], use_dynamic=True)
    assert equal(found, expected)


def test_lstm_of_a_packed_sequence():
    parameters = lstm_parameters(packed_linear)
    data, batch_sizes, rest = ramp(6, 5), torch.tensor([2, 2, 1, 1]), (*SIZES.values(), True)
    expected = torch.ops.aten.quantized_lstm.data(
        data,
        batch_sizes,
        HIDDEN,
        cells(parameters, dynamic_cell),
        *rest,
        dtype=torch.qint8,
        use_dynamic=True,
    )
    lstm = NATIVES["aten::quantized_lstm.data_legacy"]
    found = lstm(data, batch_sizes, HIDDEN, parameters, *rest, dtype=12, use_dynamic=True)
    assert equal(found, expected)


def test_lstm_with_weights_that_are_no_cells_is_refused():
    lstm = NATIVES["aten::quantized_lstm.input_legacy"]
    rest = (*SIZES.values(), True, False)
    with pytest.raises(RuntimeError, match="1 parameters of 12 a cell"):
        lstm(ramp(4, 2, 5), HIDDEN, [ramp(12, 5)], *rest, dtype=12, use_dynamic=True)
