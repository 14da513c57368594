"""States of packed weights: those that torch writes are taken, and none that it would trust."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.registry_calls import archive_of
from tsarchive import PolicyError
from tsarchive.errors import ScriptError
from tsarchive.run.operators import (
    implementation,
    native_class,
    native_object,
    operator_schemas,
)
from tsarchive.run.packed import call_method

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_")
NATIVE = "__torch__.torch.classes."
ops = torch.ops.quantized


def quantized(*sizes: int, dtype: torch.dtype = torch.qint8) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(*sizes), 0.1, 0, dtype)


def by_channel(
    axis: int = 0, *, dtype: torch.dtype = torch.qint8, sizes: tuple[int, ...] = (4, 2)
) -> torch.Tensor:
    kind = torch.int64 if dtype == torch.qint8 else torch.float32
    count = sizes[axis]
    scales, zeros = torch.ones(count), torch.zeros(count, dtype=kind)
    return torch.quantize_per_channel(torch.ones(*sizes), scales, zeros, axis, dtype)


def shape(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int16)


def made(name: str, state) -> torch.ScriptObject:
    return native_object(native_class(NATIVE + name), state)


def state_of(packed: torch.ScriptObject):
    return packed._get_method("__getstate__")()


LINEAR, CONV = "quantized.LinearPackedParamsBase", "quantized.Conv2dPackedParamsBase"
CONV3D, ROWS = "quantized.Conv3dPackedParamsBase", "quantized.EmbeddingPackedParamsBase"
CELL = "rnn.CellParamsBase"
KERNEL = quantized(2, 1, 3, 3)
PLAIN = (2, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0)
BIAS = torch.ones(4)


def linear(bias: torch.Tensor | None = None) -> torch.ScriptObject:
    return ops.linear_prepack(quantized(4, 2), bias)


def half() -> torch.ScriptObject:
    return ops.linear_prepack_fp16(torch.ones(4, 2), BIAS)


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        (LINEAR, linear()),
        (LINEAR, linear(BIAS)),
        (LINEAR, ops.linear_prepack(by_channel(), None)),
        (LINEAR, half()),
        (CONV, ops.conv1d_prepack(quantized(2, 1, 3), None, [2], [1], [1], 1)),
        (CONV, ops.conv2d_prepack(KERNEL, torch.ones(2), [2, 1], [1, 0], [1, 2], 2)),
        (CONV, ops.conv_transpose2d_prepack(KERNEL, None, [2, 2], [0, 0], [1, 1], [1, 1], 1)),
        (CONV3D, ops.conv3d_prepack(quantized(2, 1, 3, 3, 3), None, [1] * 3, [0] * 3, [1] * 3, 1)),
        (ROWS, ops.embedding_bag_prepack(by_channel(dtype=torch.quint8))),
        (ROWS, ops.embedding_bag_prepack(by_channel(dtype=torch.quint4x2))),
        (CELL, ops.make_quantized_cell_params_dynamic(linear(BIAS), linear(BIAS), BIAS, BIAS)),
        (CELL, ops.make_quantized_cell_params_fp16(half(), half())),
    ],
)
def test_what_torch_writes_is_read(name, packed):
    again = made(name, state_of(packed))
    assert same(state_of(again), state_of(packed))


def same(one, two) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, torch.ScriptObject):
        return same(state_of(one), state_of(two))
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two


@pytest.mark.parametrize(
    "state",
    [
        (KERNEL, None, [torch.tensor([1])] * 2, [torch.tensor([0])] * 2, [torch.tensor([1])] * 2,
         torch.tensor([1])),
        ("2", [shape(*PLAIN), KERNEL], [None]),
        (3, list(PLAIN), [None, KERNEL, None]),
    ],
)  # fmt: skip
def test_every_version_of_the_state_of_a_convolution(state):
    packed = made(CONV, state)
    assert packed._get_method("stride")() == [1, 1]
    assert torch.equal(packed._get_method("weight")().int_repr(), KERNEL.int_repr())


@pytest.mark.parametrize(
    ("name", "state"),
    [
        (LINEAR, None),
        (LINEAR, (by_channel(1), None)),
        (LINEAR, (quantized(0, 2), None)),
        (LINEAR, (quantized(4), None)),
        (LINEAR, (quantized(4, 2, dtype=torch.quint8), None)),
        (LINEAR, (torch.ones(4, 2, dtype=torch.float64), None)),
        (LINEAR, (quantized(4, 2), torch.ones(1))),
        (LINEAR, (quantized(4, 2), torch.ones(4, dtype=torch.int8))),
        (LINEAR, (torch.ones(4, 2), torch.ones(1))),
        (LINEAR, (torch.eye(2).to_sparse(), None)),
        (LINEAR, (torch.ones(4, 2, device="meta"), None)),
        (CONV, ()),
        (CONV, ("2", [shape(*PLAIN)], [None])),
        (CONV, ("2", [shape(2, 1), KERNEL], [None])),
        (CONV, ("2", [torch.ones(11), KERNEL], [None])),
        (CONV, ("2", [shape(2, 0, 1, *PLAIN[3:]), KERNEL], [None])),
        (CONV, ("2", [shape(2, -1, 1, *PLAIN[3:]), KERNEL], [None])),
        (CONV, ("2", [shape(2, 1, 1, -1, *PLAIN[4:]), KERNEL], [None])),
        (CONV, ("2", [shape(*PLAIN[:5], 0, *PLAIN[6:]), KERNEL], [None])),
        (CONV, ("2", [shape(*PLAIN[:7], 1, 0, 1, 1), KERNEL], [None])),
        (CONV, ("2", [shape(*PLAIN[:9], 0, 0), KERNEL], [None])),
        (CONV, ("2", [shape(*PLAIN[:9], 5, 0), KERNEL], [None])),
        (CONV, ("2", [shape(*PLAIN[:10], 7), KERNEL], [None])),
        (CONV, ("2", [shape(3, *PLAIN[1:]), KERNEL], [None])),
        (CONV, ("2", [shape(*PLAIN), quantized(2, 1, 3)], [None])),
        (CONV, ("2", [shape(*PLAIN), KERNEL], [torch.ones(1)])),
        (CONV, ("2", [shape(*PLAIN), by_channel(1, sizes=(4, 1, 3, 3))], [None])),
        (CONV, ("2", [shape(*PLAIN[:10], 1), by_channel(sizes=(4, 1, 3, 3))], [None])),
        (CONV, ("4", [shape(*PLAIN), KERNEL], [None])),
        (CONV, (3, [2**62, *PLAIN[1:]], [None, KERNEL, None])),
        (CONV, (3, [2, 2**40, *PLAIN[2:]], [None, KERNEL, None])),
        (CONV, (3, list(PLAIN), [KERNEL, None])),
        (CONV, (KERNEL, None, [], [], [], torch.tensor([1]))),
        (CONV, (KERNEL, None, *[[torch.ones(0)] * 2] * 3, torch.tensor([1]))),
        (CONV3D, ("2", [shape(*PLAIN), KERNEL], [None])),
        (ROWS, (1, [by_channel(1, dtype=torch.quint8)], [], [8])),
        (ROWS, (1, [by_channel(dtype=torch.quint8)], [], [4])),
        (ROWS, (1, [by_channel(dtype=torch.quint8)], [], [])),
        (ROWS, (2, [by_channel(dtype=torch.quint8)], [], [8])),
        (ROWS, (1, [], [], [8])),
        (ROWS, (1, [quantized(4, 2)], [], [8])),
        (ROWS, (1, [by_channel(dtype=torch.quint4x2, sizes=(4, 3))], [], [4])),
        (CELL, ("quantized", [BIAS] * 8, [1.0, 1.0], [0, 0], [])),
        (CELL, ("quantized_dynamic", [], [], [1], [linear(), linear()])),
        (CELL, ("quantized_dynamic", [BIAS, BIAS], [], [1, 1], [linear(), linear()])),
        (CELL, ([], [BIAS, BIAS], [], [1], [linear(), linear()])),
        (CELL, ("quantized_dynamic", [BIAS, BIAS], [], [1], [linear()])),
        (CELL, ("quantized_fp16", [], [], [], [])),
        (CELL, ("other", [], [], [], [linear(), linear()])),
    ],
)
def test_what_does_not_fit_is_not_packed(name, state):
    with pytest.raises(ScriptError):
        made(name, state)


def test_a_cell_of_an_old_archive_has_no_flags():
    state = "quantized_dynamic", [BIAS, BIAS], [], [], [linear(BIAS), linear(BIAS)]
    assert state_of(made(CELL, state))[3] == [0]


def test_shared_memory_is_copied_before_it_is_packed():
    packed = made(LINEAR, (quantized(4, 2), torch.zeros(1).expand(4)))
    assert packed._get_method("bias")().stride() == (1,)


def test_rows_of_several_elements_a_byte_are_not_unpacked():
    """Views of them begin beyond their memory."""
    packed = ops.embedding_bag_prepack(by_channel(dtype=torch.quint4x2))
    unpack = implementation(operator_schemas("quantized::embedding_bag_unpack")[0])
    for call in (unpack, lambda packed: call_method(NATIVE + ROWS, "__getstate__", packed, ())):
        with pytest.raises(ScriptError, match=r"rows of torch\.quint4x2 are not unpacked"):
            call(packed)


def test_unpacked_rows_outlive_what_they_come_from():
    weight = by_channel(dtype=torch.quint8)
    unpack = implementation(operator_schemas("quantized::embedding_bag_unpack")[0])
    found = [unpack(ops.embedding_bag_prepack(weight))]
    packed = ops.embedding_bag_prepack(weight)
    found.append(call_method(NATIVE + ROWS, "unpack", packed, ()))
    found.append(call_method(NATIVE + ROWS, "__getstate__", packed, ())[1][0])
    del packed
    for rows in found:
        assert torch.equal(rows.q_per_channel_scales(), weight.q_per_channel_scales())
        assert torch.equal(rows.dequantize(), weight.dequantize())


HEADER = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"


def test_code_cannot_hand_over_another_state():
    lines = (
        "w = torch.quantize_per_tensor(torch.ones([4, 2]), 0.1, 0, 12)",
        "p = ops.quantized.linear_prepack(w, None)",
        "y = (p).__setstate__((w, torch.ones([1])))",
        "x0, y0 = ops.quantized.linear_unpack(p)",
    )
    body = "".join(f"    {line}\n" for line in lines)
    code = f"{HEADER}  def f(self: __torch__.M,\n    x: Tensor) -> Tensor:\n{body}    return x0\n"
    module = tsarchive.load(io.BytesIO(archive_of(code)))
    with pytest.raises(ScriptError, match="bias of sizes"):
        module.f(torch.ones(1))


@pytest.mark.parametrize(
    "name",
    ["mkldnn.ConvOpContext", "sparse.LinearPackedParamsBase", "vulkan.LinearPackedContext"],
)
def test_classes_of_other_libraries_are_refused(name):
    with pytest.raises(PolicyError):
        tsarchive.run.classes.Classes().enforcement.check_allowed(NATIVE + name)
