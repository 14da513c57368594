"""Quantized programs give what the runtime of ExecuTorch gives, whoever quantized them."""

from __future__ import annotations

import io

import pytest
import torch

pytest.importorskip("executorch.exir", reason="only the runtime itself can tell")
pytest.importorskip("executorch.kernels.quantized")

import torch.ao.quantization.fx._decomposed  # registers them
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import export

import tsarchive
from fixtures.executorch_programs import file_of
from tests.pte.quantized_programs import ARITHMETIC
from tests.pte.runtime import (
    Block,
    Of,
    assert_same,
    ints,
    made,
    of_runtime,
    x,
)

pytestmark = pytest.mark.filterwarnings("ignore")
OPS = torch.ops.quantized_decomposed
BYTES = -128, 127, torch.int8


def assert_runs_alike(data, *calls):
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for given in calls:
        assert_same(ours(*given), theirs(*given))


def by_channel(a, scales, zeros):
    q = OPS.quantize_per_tensor(a, 0.1, 3, *BYTES)
    p = OPS.quantize_per_channel(a, scales, zeros, 0, *BYTES)
    return (
        q, OPS.dequantize_per_tensor(q, 0.1, 3, *BYTES),
        p, OPS.dequantize_per_channel(p, scales, zeros, 0, *BYTES),
    )  # fmt: skip


def by_what_is_there(a):
    scale, zero = OPS.choose_qparams.tensor(a, -128, 127, 1e-6, torch.int8)
    q = OPS.quantize_per_tensor.tensor(a, scale, zero, *BYTES)
    return q, OPS.dequantize_per_tensor.tensor(q, scale, zero, *BYTES), scale, zero


def by_rows(a):
    scales, zeros = OPS.choose_qparams_per_token_asymmetric(a, torch.int8)
    q = OPS.quantize_per_token(a, scales, zeros, *BYTES)
    back = OPS.dequantize_per_token(q, scales, zeros, *BYTES, torch.float32)
    return q, back, scales, zeros


def test_scales_of_channels():
    inputs = x(3, 4), torch.tensor([0.1, 0.2, 0.3]).double(), torch.tensor([0, 1, -1])
    assert_runs_alike(made(Of(by_channel), inputs), inputs)


@pytest.mark.parametrize("function", [by_what_is_there, by_rows])
def test_scales_that_are_found(function):
    data = made(Of(function), (x(3, 4),))
    even = [torch.full((3, 4), held) for held in (0.0, 1e-4, -1e-4)]
    assert_runs_alike(data, *[(x(3, 4) * factor,) for factor in (1, 100, 1e-2)], *zip(even))


@pytest.mark.sample(1, gaps="lowering takes a second")
@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.parametrize("name", ["embedding_byte", "embedding_4bit", "embedding_2bit"])
def test_embeddings(name, groups):
    weight = ints(256, 5, 8).to(torch.uint8)
    low = {"embedding_byte": -128, "embedding_4bit": -8, "embedding_2bit": -2}[name]
    weight = weight.view(torch.int8) if name == "embedding_byte" else weight
    scales = torch.rand(5) + 0.1 if groups is None else torch.rand(5, groups) + 0.1
    found = getattr(OPS, name)
    look = Of(lambda i: found(weight, scales, None, low, -low - 1, i))
    assert_runs_alike(made(look, (ints(5, 2, 3),)), (ints(5, 2, 3),), (ints(5, 2, 3),))


def quantized(module, inputs, *, is_dynamic):
    pytest.importorskip("torchao")
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    settings = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
    quantizer = XNNPACKQuantizer().set_global(settings)
    prepared = prepare_pt2e(export(module.eval(), inputs, strict=True).module(), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


def perceptron():
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), (x(3, 16),)


@pytest.mark.long("test_sums_and_products")
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("model", [perceptron, lambda: (Block(), (x(2, 6, 16),))])
def test_models(model, is_dynamic):
    module, inputs = model()
    found = quantized(module, inputs, is_dynamic=is_dynamic)
    data = to_edge_transform_and_lower(export(found, inputs)).to_executorch().buffer
    assert_runs_alike(data, inputs, tuple(given * 2 for given in inputs))


@pytest.mark.parametrize("step", ARITHMETIC)
def test_sums_and_products(step):
    """Fusing passes make these of sums and products between quantizing steps."""
    method, inputs, _ = step()
    constants = {"segment_index": 0, "offsets": [0]}
    data = file_of(method, segments=[{"offset": 0, "size": 0}], constant_segment=constants)
    assert_runs_alike(data, inputs)


@pytest.mark.long("test_sums_and_products")
def test_parts_that_a_backend_runs():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    module, inputs = perceptron()
    found = quantized(module, inputs, is_dynamic=True)
    edge = to_edge_transform_and_lower(export(found, inputs), partitioner=[XnnpackPartitioner()])
    assert_runs_alike(edge.to_executorch().buffer, inputs)
