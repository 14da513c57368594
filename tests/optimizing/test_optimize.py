"""``tsarchive.optimize``: the same results to rounding, as an ordinary archive."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import FrozenInstanceError
from enum import Enum

import pytest
import torch
from torch import nn

import tsarchive
from fixtures.modules import all_cases
from tests.support.networks import build, each_network
from tsarchive.errors import ArchiveError, CallError, ScriptError
from tsarchive.optimizing import measuring
from tsarchive.optimizing.measuring import compared

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch is built without oneDNN"
)
CASES = [case for case in all_cases() if case.inputs]


def saved(module):
    stream = io.BytesIO()
    tsarchive.save(module, stream)
    return stream.getvalue()


def done(module):
    return {change.what: change.count for change in tsarchive.optimize_report(module).done}


def left(module):
    return {change.what: change.count for change in tsarchive.optimize_report(module).left}


def check(module, optimized, *calls):
    """Results are those of the module, here, in torch.jit, and after another load and save."""
    data = saved(optimized)
    again = tsarchive.load(io.BytesIO(data))
    assert saved(again) == data
    before = saved(module)
    reference, theirs = [load(io.BytesIO(before)) for load in (tsarchive.load, torch.jit.load)]
    jit = torch.jit.load(io.BytesIO(data))
    for call in calls:
        expected = outcome(reference, call)
        for result in (outcome(optimized, call), outcome(again, call)):
            assert compared(expected, result).agree, (expected, result)
        expected, result = outcome(theirs, call), outcome(jit, call)
        assert compared(expected, result).agree, (expected, result)


def outcome(run, call):
    """What a call gives; the kind of error where it raises."""
    torch.manual_seed(0)
    with torch.no_grad():
        try:
            return run(*copy.deepcopy(call))
        except Exception:  # torch.jit has classes of its own
            return "raises"


def optimized_case(case, example):
    module = case.build()
    if not isinstance(module, torch.jit.ScriptModule):
        pytest.skip("a function")
    module.eval()
    return module, tsarchive.optimize(module, args=example)


# Frozen modules have no gradients, and their parameters want none.
WITHOUT_GRADIENTS = {"mixed_gradients", "gradients"}


@pytest.mark.sample(8)
@pytest.mark.parametrize("made", CASES, ids=lambda case: case.name)
def test_fixture_modules_without_an_example(made):
    module, optimized = optimized_case(made, None)
    if made.name not in WITHOUT_GRADIENTS:
        check(module, optimized, *made.inputs)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.sample(8)
@pytest.mark.parametrize("made", CASES, ids=lambda case: case.name)
def test_fixture_modules_with_an_example(made, always_quicker, each_way_pays):
    if made.name in WITHOUT_GRADIENTS:
        pytest.skip("it computes gradients")
    module, optimized = optimized_case(made, made.inputs[0])
    check(module, optimized, *made.inputs)


@each_network
def test_networks(name, kind, always_quicker, each_way_pays):
    torch.manual_seed(0)
    module, inputs = build(name, kind)
    check(module, tsarchive.optimize(module, args=inputs), inputs)


class Image(nn.Module):
    """Convolutions with all that is folded, fused or packed."""

    def __init__(self, activation):
        super().__init__()
        self.one = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.activation = activation
        self.two = nn.Conv2d(8, 8, 3, stride=2, groups=4, bias=False)
        self.up = nn.ConvTranspose2d(8, 6, 2, groups=2)
        self.last = nn.BatchNorm2d(6)
        self.drop = nn.Dropout2d()

    def forward(self, x):
        x = self.activation(self.norm(self.one(x)))
        return self.drop(self.last(self.up(torch.relu(self.two(x)))))


def trained(module, *shape):
    """A module in evaluation mode whose statistics are not those of the start."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    module.train()
    for _ in range(2):
        module(torch.randn(shape))
    return module.eval()


ACTIVATIONS = {
    "ReLU": nn.ReLU(), "ReLU in place": nn.ReLU(inplace=True), "ReLU6": nn.ReLU6(),
    "Hardtanh": nn.Hardtanh(-0.5, 0.25), "Hardswish": nn.Hardswish(), "SiLU": nn.SiLU(),
    "LeakyReLU": nn.LeakyReLU(0.2), "GELU": nn.GELU(), "GELU tanh": nn.GELU("tanh"),
    "Sigmoid": nn.Sigmoid(), "Tanh": nn.Tanh(), "ELU": nn.ELU(),
}  # fmt: skip


@needs_onednn
@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["script", "trace"])
def test_layers_of_an_image(name, kind, always_quicker):
    x = torch.randn(2, 3, 9, 9)
    live = trained(Image(ACTIVATIONS[name]), 2, 3, 9, 9)
    module = torch.jit.script(live) if kind == "script" else torch.jit.trace(live, x)
    optimized = tsarchive.optimize(module, args=x)
    check(module, optimized, (x,), (torch.randn(1, 3, 16, 11),))
    found = done(optimized)
    assert found["batch normalization"] == 2
    assert found["dropout"] == 1
    assert found["convolution packed"] == 2
    assert found["activation in its layer"] == (1 if name == "ELU" else 2)


@needs_onednn
@pytest.mark.parametrize("batch", [0, 2])
def test_layers_take_batches_that_are_empty(batch, always_quicker):
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2)).eval()
    script, calls = torch.jit.script(network), [(torch.randn(size, 3, 5, 5),) for size in (0, 2)]
    optimized = tsarchive.optimize(script, args=(torch.randn(batch, 3, 5, 5),))
    assert ("convolution packed" in done(optimized)) is bool(batch)
    check(script, optimized, *calls)


def test_activations_write_over_what_nobody_sees(never_quicker):
    x = torch.randn(2, 3, 9, 9)
    module = torch.jit.script(trained(Image(nn.ReLU()), 2, 3, 9, 9))
    optimized = tsarchive.optimize(module, args=x)
    check(module, optimized, (x,))
    assert done(optimized)["in place"] == 2
    assert "convolution packed" not in done(optimized)


class Seen(nn.Module):
    """Results of layers that are used again beside their activation."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        y = self.layer(x)
        view = y[:, 1:]
        z = self.norm(y)
        return torch.relu(y), view, torch.relu(x), torch.relu(z) + z


def test_what_is_used_again_stays(always_quicker):
    x = torch.randn(2, 3, 4, 4)
    module = torch.jit.script(trained(Seen(), 2, 3, 4, 4))
    optimized = tsarchive.optimize(module, args=x)
    check(module, optimized, (x,))
    assert done(optimized).keys().isdisjoint({"batch normalization", "in place"})
    assert left(optimized)["batch normalization"] == 1


class Dense(nn.Module):
    def __init__(self, *, flattens):
        super().__init__()
        self.flattens = flattens
        self.layer, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(self.layer(x.flatten(1) if self.flattens else x))


@pytest.mark.parametrize("flattens", [True, False])
def test_normalization_of_a_linear_layer_needs_two_dimensions(flattens):
    """Of three, the channels are not those of the layer."""
    module = torch.jit.script(trained(Dense(flattens=flattens), 4, 6))
    optimized = tsarchive.optimize(module)
    calls = [(torch.randn(4, 6),)] + [(torch.randn(4, 6, 6),)] * (not flattens)
    check(module, optimized, *calls)
    assert done(optimized).get("batch normalization", 0) == flattens


class Counting(nn.Module):
    """State that code changes, in itself and in a child, and constants beside it."""

    def __init__(self):
        super().__init__()
        self.child = nn.BatchNorm1d(3)
        self.register_buffer("seen", torch.zeros(1))
        self.calls = 0
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        self.seen.add_(1)
        self.calls += 1
        return self.child(self.layer(x)) * self.calls + self.seen


@pytest.mark.parametrize("is_training", [False, True])
def test_state_stays_state(is_training):
    live = Counting().eval()
    live.child.train(is_training)
    module = torch.jit.script(live)
    optimized = tsarchive.optimize(module)
    names = {"seen"}
    if is_training:
        names |= {"child.running_mean", "child.running_var", "child.num_batches_tracked"}
    assert optimized.state_dict().keys() == names
    check(module, optimized, *[(torch.randn(4, 3),)] * 3)


class Sized(nn.Module):
    def forward(self, x):
        rows, width = x.size(0), x.size(1)
        doubled = torch.cat([x, x], 1).view(rows, 2, width // 2, 2)
        return doubled.reshape(rows * 2 + 0, -1)[: (rows * 3 - 2) // 2], x.new_zeros(rows - 1)


def test_sizes_of_traces_are_numbers():
    x = torch.randn(4, 6)
    module = torch.jit.trace(Sized().eval(), x)
    optimized = tsarchive.optimize(module)
    check(module, optimized, (x,), (torch.randn(2, 6),), (torch.randn(7, 6),))
    code = torch.jit.load(io.BytesIO(saved(optimized))).code
    assert code.count("torch.size(x, 0)") == 1
    assert "NumToTensor" not in code


def test_what_a_constant_depends_on_is_computed_once():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, x):
            zeros = torch.zeros([2])  # a new one in each call: the caller may write to it
            return x @ (self.weight * 2).softmax(1).t(), zeros

    module = torch.jit.script(Weighted().eval())
    optimized = tsarchive.optimize(module)
    check(module, optimized, (torch.randn(5, 4),))
    code = torch.jit.load(io.BytesIO(saved(optimized))).code
    assert "softmax" not in code
    assert "torch.zeros" in code
    optimized(torch.ones(1, 4))[1].add_(1)
    assert not optimized(torch.ones(1, 4))[1].any()


@needs_onednn
def test_copies_and_packed_weights(always_quicker):
    x = torch.randn(2, 3, 9, 9)
    module = torch.jit.script(trained(Image(nn.ReLU()), 2, 3, 9, 9))
    optimized = tsarchive.optimize(module, args=x)
    assert torch.equal(copy.deepcopy(optimized)(x), optimized(x))
    assert saved(copy.deepcopy(optimized)) == saved(optimized)


def test_the_module_stays_as_it_is(always_quicker):
    x = torch.randn(2, 3, 9, 9)
    module = torch.jit.script(trained(Image(nn.ReLU()), 2, 3, 9, 9))
    loaded = tsarchive.load(io.BytesIO(saved(module)))
    before = saved(loaded)
    tsarchive.optimize(loaded, args=x)
    assert saved(loaded) == before


def test_a_program_of_torch_export():
    x = torch.randn(2, 3, 9, 9)
    program = torch.export.export(trained(Image(nn.ReLU()), 2, 3, 9, 9), (x,))
    stream = io.BytesIO()
    tsarchive.save(program, stream)
    stream.seek(0)
    loaded = tsarchive.load(stream)
    optimized = tsarchive.optimize(loaded, args=x)
    with torch.no_grad():
        assert compared(loaded(x), optimized(x)).agree
    assert done(optimized)["batch normalization"] == 2


def test_default_policy_allows_what_optimize_writes(always_quicker):
    x = torch.randn(2, 3, 9, 9)
    module = torch.jit.script(trained(Image(nn.ReLU()), 2, 3, 9, 9))
    data = saved(tsarchive.optimize(module, args=x))
    tsarchive.load(io.BytesIO(data), policy=tsarchive.Policy.default())(x)
    assert tsarchive.check_jitter(io.BytesIO(data)).stable


@needs_onednn
def test_a_module_with_packed_layers_is_optimized_already(always_quicker):
    module, x = torch.jit.script(nn.Conv2d(3, 16, 3).eval()), torch.randn(1, 3, 8, 8)
    optimized = tsarchive.optimize(module, args=x)
    data = saved(optimized)
    files = [load(io.BytesIO(data)) for load in (tsarchive.load, torch.jit.load)]
    for each in (optimized, *files):
        with pytest.raises(CallError, match="optimized already"):
            tsarchive.optimize(each, args=x)


def test_optimized_modules_without_packed_layers_are_optimized_again(never_quicker):
    module, x = torch.jit.script(trained(Image(nn.ReLU()), 2, 3, 9, 9)), torch.randn(2, 3, 9, 9)
    optimized = tsarchive.optimize(tsarchive.optimize(module, args=x), args=x)
    check(module, optimized, (x,))


def lower_packed(module):
    """Lower a module for ExecuTorch, whose package need not be there to refuse it."""
    from tsarchive.executorch_export import lower

    lower({"forward": tsarchive.to_exported_program(module, (torch.randn(1, 3, 8, 8),))})


@needs_onednn
@pytest.mark.parametrize(
    "write",
    [
        lambda module, folder: pickle.dumps(module),
        lambda module, folder: torch.save(module, folder / "net.pth"),
        lambda module, folder: tsarchive.convert(
            folder / "net.pt", folder / "net.pt2", args=(torch.randn(1, 3, 8, 8),)
        ),
        lambda module, folder: lower_packed(module),
        lambda module, folder: tsarchive.decompile(folder / "net.pt", folder / "package"),
    ],
    ids=["pickle", "torch.save", "convert", "lower", "decompile"],
)
def test_packed_weights_are_not_written_otherwise(write, tmp_path, always_quicker):
    x = torch.randn(1, 3, 8, 8)
    optimized = tsarchive.optimize(torch.jit.script(nn.Conv2d(3, 16, 3).eval()), args=x)
    tsarchive.save(optimized, tmp_path / "net.pt")
    with pytest.raises(ArchiveError, match="oneDNN packed the") as caught:
        write(optimized, tmp_path)
    assert caught.value.hint
    assert not (tmp_path / "package").exists()
    assert not (tmp_path / "net.pt2").exists()


@needs_onednn
def test_images_without_a_batch_are_told(always_quicker):
    x = torch.randn(1, 3, 8, 8)
    optimized = tsarchive.optimize(torch.jit.script(nn.Conv2d(3, 16, 3).eval()), args=x)
    with pytest.raises(ScriptError, match=r"4 dimensions, but .*\[3, 8, 8\].*batch dimension"):
        optimized(x[0])


@needs_onednn
def test_errors_of_packed_layers_under_autocast_say_what_to_do(always_quicker):
    x = torch.randn(1, 3, 8, 8)
    optimized = tsarchive.optimize(torch.jit.script(nn.Conv2d(3, 16, 3).eval()), args=x)
    with pytest.raises(ScriptError, match=r"of torch\.float32 .* leave autocast"):
        optimized(x.bfloat16())


def test_training_mode_is_refused():
    with pytest.raises(CallError, match="training mode"):
        tsarchive.optimize(torch.jit.script(nn.Linear(2, 2)))


def test_results_that_differ_leave_the_module(monkeypatch):
    monkeypatch.setattr(
        tsarchive.optimizing, "compared", lambda *_: measuring.Comparison(False, 1.0)
    )
    module = torch.jit.script(nn.Linear(2, 2).eval())
    optimized = tsarchive.optimize(module, args=torch.ones(1, 2))
    check(module, optimized, (torch.randn(3, 2),))
    assert left(optimized) == {"all: results for the example are not equal to rounding": 1}


def test_reports():
    x = torch.randn(2, 3, 9, 9)
    module = torch.jit.script(trained(Image(nn.ReLU()), 2, 3, 9, 9))
    report = tsarchive.optimize_report(tsarchive.optimize(module, args=x))
    assert report.is_changed
    assert report.seconds_before > 0
    assert report.seconds_after > 0
    assert report.difference < 1e-3
    with pytest.raises(FrozenInstanceError):
        report.done = ()
    with pytest.raises(CallError, match="does not come from"):
        tsarchive.optimize_report(tsarchive.load(io.BytesIO(saved(module))))


@pytest.mark.parametrize(
    ("expected", "given", "agree"),
    [
        (torch.ones(2), torch.ones(2) + 1e-6, True),
        (torch.tensor([1000.0, 0.0]), torch.tensor([1000.0, 0.05]), True),
        (torch.ones(2), torch.ones(2) + 1e-2, False),
        (torch.ones(2), torch.ones(3), False),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.ones(2, dtype=torch.int64), torch.full((2,), 2), False),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), True),
        (torch.tensor([float("inf")]), torch.tensor([1.0]), False),
        ([torch.ones(1), "a"], [torch.ones(1), "b"], False),
        ({"a": (1, 2.0)}, {"a": (1, 2.0000001)}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ((1, 2), (1,), False),
        (torch.ones(1), None, False),
        (Enum("Color", ["RED"]).RED, Enum("Color", ["RED"]).RED, True),
        (Enum("Color", ["RED"]).RED, Enum("Color", {"RED": 2}).RED, False),
    ],
)
def test_comparison(expected, given, agree):
    assert compared(expected, given).agree is agree


def layer_calls():
    """Wrong arguments for layers of oneDNN, by what is wrong with them."""
    return {
        "plain weight": "ops.mkldnn._convolution_pointwise(x, w, None, [0, 0], [1, 1], [1, 1], 1",
        "other stride": "ops.mkldnn._convolution_pointwise(x, p, None, [0, 0], [2, 1], [1, 1], 1",
        "other groups": "ops.mkldnn._convolution_pointwise(x, p, None, [0, 0], [1, 1], [1, 1], 3",
        "cloned weight": "ops.mkldnn._convolution_pointwise(x, torch.clone(p), None, [0, 0], "
        "[1, 1], [1, 1], 1",
        "few channels": "ops.mkldnn._convolution_pointwise(torch.slice(x, 1, 0, 2), p, None, "
        "[0, 0], [1, 1], [1, 1], 1",
        "small input": "ops.mkldnn._convolution_pointwise(torch.slice(x, 2, 0, 1), p, None, "
        "[0, 0], [1, 1], [1, 1], 1",
        "short bias": "ops.mkldnn._convolution_pointwise(x, p, torch.zeros([2]), [0, 0], [1, 1], "
        "[1, 1], 1",
        "doubles": "ops.mkldnn._convolution_pointwise(torch.to(x, 7), p, None, [0, 0], [1, 1], "
        "[1, 1], 1",
    }


@needs_onednn
@pytest.mark.parametrize("name", layer_calls())
def test_layers_of_onednn_check_what_they_are_given(name):
    from tests.support.auditing import archive_with

    code = (
        "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
        "  def forward(self: __torch__.Net,\n    x: Tensor,\n    w: Tensor) -> Tensor:\n"
        "    p = ops.mkldnn._reorder_convolution_weight(w, [0, 0], [1, 1], [1, 1], 1, None)\n"
        f'    return {layer_calls()[name]}, "none", annotate(List[Optional[number]], []), "")\n'
    )
    module = tsarchive.load(io.BytesIO(archive_with(code)))
    with pytest.raises(ScriptError, match="layer of oneDNN"):
        module(torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3))
