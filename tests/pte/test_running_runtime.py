"""Programs give what the runtime of ExecuTorch gives; programs made here, and the corpus."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import tsarchive
from tests.pte.runtime import (
    UNCHECKED,
    Block,
    ExecutorchBackendConfig,
    Of,
    Runtime,
    assert_same,
    ints,
    made,
    of_runtime,
    to_edge,
    x,
)
from tests.support.archives import CORPUS
from tests.support.executorch_files import flattened

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # experimental, all of it
    pytest.importorskip("executorch.exir", reason="only the runtime itself can tell")
    from executorch.exir import (
        ExecutorchBackendConfig,
        to_edge,
        to_edge_transform_and_lower,
    )
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.runtime import Runtime

pytestmark = pytest.mark.filterwarnings("ignore")


MODULES = {
    "block": (Block(), (x(2, 6, 16),)),
    "conv": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.ConvTranspose2d(8, 4, 2, stride=2), nn.GroupNorm(2, 4), nn.AvgPool2d(2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3), nn.Softmax(-1),
        ),
        (x(2, 3, 8, 8),),
    ),
    "complex": (
        Of(lambda z: (z.clone(), torch.cat([z, z]))), (torch.randn(3, dtype=torch.complex64),)
    ),
    "depthwise": (nn.Conv1d(4, 4, 3, groups=4, dilation=2), (x(2, 4, 12),)),
    "channels_last": (
        nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
        (x(1, 3, 6, 6).to(memory_format=torch.channels_last),),
    ),
    "lstm": (nn.LSTM(4, 5, 2, batch_first=True), (x(2, 3, 4),)),
    "gru": (nn.GRU(4, 5, bidirectional=True), (x(3, 2, 4),)),
    "embedding": (nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4)), (ints(10, 2, 5),)),
    "elementwise": (
        Of(lambda a, b: (a.sin() * b.cos().abs().sqrt() + a.clamp(-1, 1), a.sigmoid() / b.exp(),
                         a.pow(2).log1p().neg(), torch.where(a > b, a, b), a.floor() % 3,
                         nn.functional.hardtanh(a), nn.functional.leaky_relu(b))),
        (x(3, 4), x(4)),
    ),
    "reductions": (
        Of(lambda a: (a.sum(1), a.mean((0, 2), keepdim=True), a.amax(-1), a.argmin(0), a.var(1),
                      a.cumsum(1), a.prod(0), a.any(), *a.max(1), a.min(-1).indices)),
        (x(2, 3, 4),),
    ),
    "shapes": (
        Of(lambda a: (a.permute(2, 0, 1).reshape(4, 6), a.flip(1), a.roll(1, 0), a.repeat(2, 1, 1),
                      a.unsqueeze(0).expand(2, 2, 3, 4), a.split(2, 1), a.unbind(0), a.chunk(2, 2),
                      a[:, 1:, ::2], a.transpose(0, 2), torch.stack([a, a], 1), a.tril())),
        (x(2, 3, 4),),
    ),
    "indexing": (
        Of(lambda a, i: (a[i], a.index_select(1, i), a.gather(0, i.unsqueeze(1).expand(3, 4)),
                         a.scatter_add(0, i.unsqueeze(1).expand(3, 4), torch.ones(3, 4)),
                         a.index_put((i,), torch.zeros(3, 4)), a.masked_fill(a > 0, 0.5),
                         *a.topk(2), a.flatten()[i])),
        (x(4, 4), torch.tensor([2, 0, 3])),
    ),
    "dtypes": (
        Of(lambda a: (a.double(), a.half() * 2, a.to(torch.int32) // 2, a > 0, a.bfloat16(),
                      (a * 10).to(torch.uint8), torch.full_like(a, 3, dtype=torch.int64),
                      torch.arange(5), torch.zeros(2, 2), (a > 0) & (a < 1), ~(a > 0))),
        (x(3, 2).abs(),),
    ),
    "resize": (
        Of(lambda a: (nn.functional.interpolate(a, scale_factor=2.0, mode="bilinear"),
                      nn.functional.interpolate(a, size=(6, 6)), nn.functional.pad(a, (1, 2)),
                      nn.functional.pad(a, (1, 1, 1, 1), mode="reflect"),
                      nn.functional.pixel_shuffle(a, 2))),
        (x(1, 4, 4, 4),),
    ),
    "matrices": (
        Of(lambda a, b: (a @ b, torch.bmm(a, b), torch.addmm(b[0], b[0], b[0]),
                         torch.baddbmm(a, a, b), a.mT @ b)),
        (x(2, 3, 3), x(2, 3, 3)),
    ),
    "nothing": (Of(lambda a: a), (x(2),)),
    "nested": (Of(lambda a: {"a": a + 1, "b": [a * 2, (a, None, 3)]}), (x(2),)),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module, inputs = MODULES[name]
    data = made(module, inputs)
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for scale in (1, 3):
        given = [v * scale if v.is_floating_point() else v for v in inputs]
        assert_same(ours(*given), theirs(*given))


@pytest.mark.sample(1, gaps="lowering takes a second and more")
@pytest.mark.parametrize("name", ["block", "conv", "shapes"])
def test_inputs_and_outputs_without_a_place_in_the_plan(name):
    module, inputs = MODULES[name]
    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    data = made(module, inputs, config=ExecutorchBackendConfig(memory_planning_pass=planning))
    assert_same(tsarchive.load(io.BytesIO(data))(*inputs), of_runtime(data)(*inputs))


# Jumps


def choice(a, p):
    return torch.cond(
        p,
        lambda a: torch.cond(a.sum() > 0, lambda a: a + 1, lambda a: a - 1, (a,)),
        lambda a: a.sin(),
        (a,),
    )


@pytest.mark.long("test_choices_by_a_size")
def test_nested_choices():
    data = made(Of(choice), (x(3), torch.tensor(True)))
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for sign in (1, -1, 1):
        for p in (True, False):
            given = torch.full((3,), float(sign)), torch.tensor(p)
            assert_same(ours(*given), theirs(*given))


def test_map_and_scan():
    from torch._higher_order_ops.map import map as torch_map
    from torch._higher_order_ops.scan import scan

    class Loops(nn.Module):
        def forward(self, xs, y):
            mapped = torch_map(lambda row, y: row * y + row, xs, y)
            carry, rows = scan(lambda c, row: (c + row, c * row), y, mapped)
            return mapped, carry, rows

    inputs = x(5, 3), x(3)
    data = made(Loops(), inputs)
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for _ in range(3):
        assert_same(ours(*inputs), theirs(*inputs))


# Sizes that are open


def test_open_sizes_on_both_sides_of_their_bounds():
    class Open(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            y = self.linear(x).view(x.size(0) * 3)
            return y, torch.cat([x, x]), x.mean(0), x.reshape(2, -1) * (x.size(0) // 2)

    shapes = {"x": {0: 2 * Dim("half", min=1, max=4)}}
    data = made(Open(), (x(4, 4),), shapes)
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for rows in (2, 8, 4, 6, 8):
        given = x(rows, 4)
        assert_same(ours(given), theirs(given))
    with pytest.raises(tsarchive.CallError):
        ours(x(10, 4))
    with pytest.raises(RuntimeError):
        theirs(x(10, 4))


def test_choices_by_a_size():
    class Sized(nn.Module):
        def forward(self, x):
            return torch.cond(x.size(0) > 3, lambda x: x + 1, lambda x: x * 2, (x,))

    data = made(Sized(), (x(4, 3),), {"x": {0: Dim("rows", min=2, max=6)}})
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for rows in (2, 6, 3, 4):
        given = x(rows, 3)
        assert_same(ours(given), theirs(given))


def test_numbers_that_tensors_hold():
    for held in (1.5, 2):
        data = made(Of(lambda x, y: x * y.item()), (x(3), torch.tensor(held)))
        ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
        for factor in (-1, 2):
            given = x(3), torch.tensor(held * factor)
            assert_same(ours(*given), theirs(*given))


# State


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("cache", torch.zeros(4, 2))

    def forward(self, x, at):
        self.count.add_(x.sum(0))
        self.cache[at] = x[0]
        return self.count + 0, self.cache * 1


def test_state_over_calls():
    inputs = x(2, 2), torch.tensor([1])
    data = made(Counter(), inputs)
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for at in (0, 3, 1):
        given = x(2, 2), torch.tensor([at])
        assert_same(ours(*given), theirs(*given))


# Training


def convolved(gradient, x, weight):
    """The derivative of a convolution, all of it and a part."""
    rest = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    back = torch.ops.aten.convolution_backward
    _, part, _ = back(gradient, x, weight, None, *rest, [False, True, False])
    return *back(gradient, x, weight, [4], *rest, [True, True, True]), part


@pytest.mark.long("test_state_over_calls")
def test_derivatives_of_convolutions():
    inputs = x(2, 4, 6, 6), x(2, 3, 6, 6), x(4, 3, 3, 3)
    data = made(Of(convolved), inputs)
    ours, theirs = tsarchive.load(io.BytesIO(data)), of_runtime(data)
    for _ in range(2):
        assert_same(ours(*inputs), theirs(*inputs))


class Learning(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(27, 4),
        )  # fmt: skip

    def forward(self, x, label):
        return nn.functional.cross_entropy(self.net(x), label)


@pytest.mark.long("test_state_over_calls")
def test_steps_of_training():
    """Compared with torch: the runtime adds to what lies in the memory of gradients of pooling."""
    from torch.export.experimental import _export_forward_backward

    module, inputs = Learning(), (x(2, 1, 6, 6), ints(4, 2))
    program = _export_forward_backward(export(module, inputs, strict=True))
    ours = tsarchive.load(
        io.BytesIO(to_edge(program, compile_config=UNCHECKED).to_executorch().buffer)
    )
    for scale in (1, 3):
        given = inputs[0] * scale, inputs[1]
        loss = module(*given)
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        found = flattened(ours(*given))
        assert_same(found[: 1 + len(gradients)], [loss.detach(), *gradients])


# Backends


def delegated():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    module, inputs = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), (x(3, 4),)
    edge = to_edge_transform_and_lower(export(module, inputs), partitioner=[XnnpackPartitioner()])
    return module, inputs, edge.to_executorch().buffer


@pytest.mark.long("test_limits_do_not_reach_backends")
def test_parts_that_a_backend_runs():
    import copy
    import pickle

    module, inputs, data = delegated()
    ours = tsarchive.load(io.BytesIO(data))
    for called in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        torch.testing.assert_close(called(*inputs), module(*inputs))
    with pytest.raises(tsarchive.CallError, match="input 0 should be"):
        ours(x(3, 5))


@pytest.mark.long("test_limits_do_not_reach_backends")
def test_backends_can_be_forbidden():
    _, _, data = delegated()
    for name in ("delegate::XnnpackBackend", "delegate::*"):
        policy = tsarchive.Policy.trusted().forbid(name)
        module = tsarchive.load(io.BytesIO(data), policy=policy)
        with pytest.raises(tsarchive.PolicyError, match="the backend XnnpackBackend"):
            module(x(3, 4))


def test_limits_do_not_reach_backends():
    _, _, data = delegated()
    with pytest.raises(tsarchive.UnsupportedError, match="limits do not hold"):
        tsarchive.load(io.BytesIO(data), limits=tsarchive.Limits(seconds=1))


def test_what_is_not_sound_does_not_reach_a_backend():
    _, _, data = delegated()
    assert tsarchive.verify(io.BytesIO(data)).ok
    for cut in (len(data) - 1, len(data) // 2):
        with pytest.raises(tsarchive.ArchiveError):
            tsarchive.load(io.BytesIO(data[:cut]))()


# The corpus


def programs() -> list[Path]:
    folder = CORPUS / "generated"
    found = sorted(folder.glob("*.pte")) if folder.is_dir() else []
    return [path for path in found if path.with_suffix(".io.pt").exists()]


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.stem)
def test_programs_of_the_corpus(path):
    data = sorted(path.parent.glob(f"{path.stem}__*.ptd"))
    if len(data) > 1:
        pytest.skip("the runtime takes one data file")
    beside = {"data_path": str(data[0])} if data else {}
    try:
        program = Runtime.get().load_program(str(path), **beside)
    except RuntimeError as error:
        pytest.skip(f"the runtime does not load it: {error}")
    ours = tsarchive.load(path, data=data or None)
    recorded = torch.load(path.with_suffix(".io.pt"), weights_only=True)
    for method, cases in recorded.items():
        theirs = program.load_method(method)
        for case in cases:
            found = getattr(ours, method)(*case["inputs"])
            assert_same(found, theirs.execute(case["inputs"]))
