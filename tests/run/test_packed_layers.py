"""Layers that optimize_for_mobile packs for XNNPACK run as linear, conv2d and conv_transpose2d.

``fixtures/old`` has archives of three releases, with what these gave; here stand their strides,
gradients, states, and what other ways of running the archives make of them.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import sys

import pytest
import torch
import torch.nn.functional as F

import tsarchive
from tests.support.archives import ROOT, loaded
from tests.support.auditing import archive_with
from tests.support.comparing import equal
from tsarchive.errors import ArchiveError, PickleError
from tsarchive.pickler import Global, MarkedTuple, Object, PersistentId, Reduce, dumps

OLD = ROOT / "fixtures" / "old"
PATHS = [path for path in sorted(OLD.glob("*/phone_*.pt*")) if not path.name.endswith(".io.pt")]
TRACED = ("phone_linears", "phone_convolutions", "phone_transposed", "phone_lite")
USUAL = {"rtol": 1e-4, "atol": 1e-5}
by_path = pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
by_traced = pytest.mark.parametrize(
    "path",
    [path for path in PATHS if path.stem in TRACED],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)


def recorded(path):
    """The calls that gave a result: method, arguments and result."""
    calls = torch.load(path.with_name(f"{path.stem}.io.pt"), weights_only=True)
    return [(name, call["args"], call["expected"]) for name, call in calls if "expected" in call]


def called(module, method, arguments):
    arguments = copy.deepcopy(arguments)
    return module(*arguments) if method == "forward" else getattr(module, method)(*arguments)


def results(module, path):
    return [called(module, method, arguments) for method, arguments, _ in recorded(path)]


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def strides(tensor):
    """Of dimensions with more than one element: the others say nothing."""
    return [s for size, s in zip(tensor.size(), tensor.stride(), strict=True) if size > 1]


@by_path
def test_results_lie_in_memory_as_those_of_torch(path):
    expected = tensors([result for _, _, result in recorded(path)])
    for ours, theirs in zip(tensors(results(tsarchive.load(path), path)), expected, strict=True):
        assert strides(ours) == strides(theirs)


@by_path
def test_copies_and_pickles_give_the_same(path):
    module = tsarchive.load(path)
    expected = results(module, path)
    assert equal(results(copy.deepcopy(module), path), expected)
    assert equal(results(pickle.loads(pickle.dumps(module)), path), expected)


@by_traced
def test_exported_programs_give_the_same(path):
    for method, arguments, _ in recorded(path):
        module = tsarchive.load(path)
        if method == "forward" and all(argument.numel() for argument in arguments):
            program = tsarchive.to_exported_program(module, tuple(arguments))
            assert equal(program.module()(*arguments), module(*arguments))
            targets = {str(node.target) for node in program.graph.nodes}
            assert not any("prepacked" in target for target in targets)


@pytest.mark.parametrize("name", TRACED)
def test_torch_compile_takes_them_whole(name):
    path = next(path for path in PATHS if path.stem == name)
    _, arguments, _ = recorded(path)[0]
    module = tsarchive.load(path)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    assert equal(compiled(*arguments), module(*arguments))


# The others ask for the type of a tuple's elements, which Python cannot tell.
@pytest.mark.parametrize(
    "path",
    [path for path in PATHS if path.stem != "phone_sizes"],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_decompiled_they_give_the_same(path, tmp_path, monkeypatch):
    name = f"phone_{path.parent.name.replace('.', '_')}_{path.stem}"
    tsarchive.decompile(path, tmp_path / name)
    monkeypatch.syspath_prepend(str(tmp_path))
    package = importlib.import_module(name)
    try:
        assert equal(results(package.load(), path), results(tsarchive.load(path), path))
    finally:
        for known in [known for known in sys.modules if known.partition(".")[0] == name]:
            del sys.modules[known]


# States of hand-written archives


XNNPACK = "__torch__.torch.classes.xnnpack"
RUNS = {
    "LinearOpContext": "linear_clamp_run",
    "Conv2dOpContext": "conv2d_clamp_run",
    "TransposeConv2dOpContext": "conv2d_transpose_clamp_run",
}
HUGE = 1 << 62


def code_for(name):
    return (
        "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
        f"  packed : {XNNPACK}.{name}\n"
        "  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
        f"    return ops.prepacked.{RUNS[name]}(x, self.packed)\n"
    )


def archive_of(name, state):
    """An archive with one layer in the state; its tensors lie in 64 ones."""
    packed = Object(Global(XNNPACK, name), state)
    data = dumps(Object(Global("__torch__", "Net"), {"packed": packed}))
    ones = torch.ones(64).numpy().tobytes()
    return archive_with(code_for(name), data=data, **{"data/0": ones})


def ints(*values):
    return Reduce(Global("torch.jit._pickle", "build_intlist"), MarkedTuple((list(values),)))


def stored(*size, stride=None, kind="FloatStorage"):
    storage = PersistentId(("storage", Global("torch", kind), "0", "cpu", 64))
    hooks = Reduce(Global("collections", "OrderedDict"), ())
    strides = torch.empty(size, device="meta").stride() if stride is None else stride
    arguments = (storage, 0, size, tuple(strides), False, hooks)
    return Reduce(Global("torch._utils", "_rebuild_tensor_v2"), arguments)


def linear(weight=None, bias=None, low=None, high=None):
    return "LinearOpContext", (weight or stored(4, 2), bias, low, high)


def convolution(weight=None, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    parts = (ints(*part) for part in (stride, padding, dilation))
    return "Conv2dOpContext", (weight or stored(4, 2, 2, 2), bias, *parts, groups, None, None)


def transposed(stride=(1, 1), padding=(0, 0), output_padding=(0, 0), dilation=(1, 1), bias=None):
    parts = (ints(*part) for part in (stride, padding, output_padding, dilation))
    return "TransposeConv2dOpContext", (stored(4, 2, 2, 2), bias, *parts, 1, None, None)


ROW, IMAGE, DEEP_IMAGE = torch.ones(1, 2), torch.ones(1, 2, 5, 5), torch.ones(1, 4, 5, 5)
TAKEN = {
    "linear": (linear(bias=stored(4), high=1), ROW, lambda x: torch.ones(1, 4)),
    "wide bounds": (linear(low=float("-inf")), ROW, lambda x: torch.full((1, 4), 2.0)),
    "strides of zero": (
        linear(stored(4, 2, stride=(0, 0))), ROW, lambda x: torch.full((1, 4), 2.0),
    ),
    "one number for two": (
        convolution(stride=(2,), padding=(1,)), IMAGE,
        lambda x: F.conv2d(x, torch.ones(4, 2, 2, 2), stride=2, padding=1),
    ),
    "groups": (
        convolution(groups=2), DEEP_IMAGE,
        lambda x: F.conv2d(x, torch.ones(4, 2, 2, 2), groups=2),
    ),
    "transposed": (
        transposed(stride=(2, 1), output_padding=(1, 0), bias=stored(2)), DEEP_IMAGE,
        lambda x: F.conv_transpose2d(
            x, torch.ones(4, 2, 2, 2), torch.ones(2), (2, 1), 0, (1, 0)
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TAKEN)
def test_states_that_are_taken(kind):
    state, given, expected = TAKEN[kind]
    assert torch.allclose(loaded(archive_of(*state))(given), expected(given))


REFUSED = {
    "three dimensions": linear(stored(4, 2, 1)),
    "integers": linear(stored(4, 2, kind="IntStorage")),
    "a short bias": linear(bias=stored(3)),
    "bounds in the wrong order": linear(low=2, high=1),
    "equal bounds": linear(low=1, high=1.0),
    "a bound that is no number": linear(low=float("nan")),
    "text for a bound": linear(low="1"),
    "a short state": ("LinearOpContext", (stored(4, 2),)),
    "no state": ("LinearOpContext", None),
    "another state": ("LinearOpContext", convolution()[1]),
    "a stride of zero": convolution(stride=(0, 1)),
    "a dilation of zero": convolution(dilation=(0, 1)),
    "a negative padding": convolution(padding=(-1, 0)),
    "no stride": convolution(stride=()),
    "three strides": convolution(stride=(1, 1, 1)),
    "no groups": convolution(groups=0),
    "groups that do not divide": convolution(groups=3),
    "no kernel": convolution(stored(4, 2, 0, 2)),
    "a bias for inputs": transposed(bias=stored(4)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_states_that_are_refused(kind):
    with pytest.raises(PickleError, match=r"the state of .*xnnpack"):
        loaded(archive_of(*REFUSED[kind]))


REFUSED_CALLS = {
    "no image": (convolution(), ROW),
    "a scalar": (linear(), torch.tensor(1.0)),
    "doubles": (linear(), ROW.double()),
    "doubles in an image": (convolution(), IMAGE.double()),
    "other channels": (convolution(), DEEP_IMAGE),
    "other features": (linear(), torch.ones(1, 3)),
    "huge strides": (convolution(stride=(HUGE, HUGE)), IMAGE),
    "huge padding": (convolution(padding=(HUGE, HUGE)), IMAGE),
    "huge dilation": (convolution(dilation=(HUGE, HUGE)), IMAGE),
    "huge steps": (transposed(stride=(HUGE, 1)), DEEP_IMAGE),
    "huge output padding": (transposed(output_padding=(HUGE, 0)), DEEP_IMAGE),
    "negative output padding": (transposed(output_padding=(-1, 0)), DEEP_IMAGE),
}


@pytest.mark.parametrize("kind", REFUSED_CALLS)
def test_calls_that_are_refused(kind):
    state, given = REFUSED_CALLS[kind]
    module = loaded(archive_of(*state))
    with pytest.raises((ArchiveError, RuntimeError)):
        module(given)


def test_gradients_reach_the_input():
    x = torch.linspace(-1, 1, 8).reshape(4, 2).requires_grad_()
    loaded(archive_of(*linear(low=0)))(x).sum().backward()
    expected = 4.0 * (x.sum(1, keepdim=True) > 0).expand(4, 2)
    assert torch.equal(x.grad, expected)


def test_rows_are_those_of_the_tensor():
    x = torch.linspace(-1, 1, 24).reshape(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    packed = loaded(archive_of(*linear()))
    assert torch.allclose(packed(x), F.linear(x, torch.ones(4, 2)))
    assert packed(torch.tensor([[float("nan"), 1.0]])).isnan().all()


def test_packed_weights_are_no_parameters():
    """As in torch.jit, where they are out of reach: `to` and `state_dict` pass them over."""
    module = loaded(archive_of(*linear()))
    assert not module.state_dict()
    assert not list(module.parameters())
    assert equal(module.double()(ROW), loaded(archive_of(*linear()))(ROW))


def test_tensors_are_named_by_the_parts_of_the_layer(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(archive_of(*convolution(bias=stored(4))))
    with tsarchive.open(path) as archive:
        assert list(archive.tensors) == ["packed.weight", "packed.bias"]
        assert archive.needs.foreign == ()
        assert not tsarchive.missing(archive)
        assert archive.tree().nbytes == 4 * (4 * 2 * 2 * 2 + 4)


def test_the_default_policy_runs_them():
    report = tsarchive.audit(PATHS[0])
    assert report.ok
    assert {use.risk.name for use in report.operators} == {"COMPUTE"}
