"""Loaded archives as programs of torch.export."""

from __future__ import annotations

import pytest
import torch
from torch._library.fake_class_registry import FakeScriptObject

import tsarchive
from tests.support.archives import TORCH, loaded, saved, torch_saved
from tests.support.both_engines import both_of
from tests.support.comparing import equal
from tests.support.networks import build, tensor_cases
from tests.support.suite import sampled
from tsarchive.run.conversion import type_of
from tsarchive.run.linkage import NativeCall
from tsarchive.run.operators import native_class

ROWS = torch.export.Dim("rows", min=2, max=64)
OPEN = torch.export.Dim("open")
STEPS = torch.export.Dim("steps", min=2, max=64)


class Sizes(torch.nn.Module):
    """Arithmetic of sizes that must stay open, and one that may become a constant."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 6)
        self.register_buffer("offset", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, steps, width = x.shape
        y = self.linear(x).reshape(rows * steps, 2, 3) * (steps // 2 + 1)
        y = y.view(rows, steps, -1) + torch.arange(steps).unsqueeze(0).unsqueeze(-1)
        scale = float(rows) / width + max(rows, 3) + min(steps, rows) + abs(-steps) % 3
        return y * scale + self.offset + torch.full([rows, 1, 1], rows * 0.5)


class Numbers(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int = 2) -> torch.Tensor:
        rows = int(x.size(0))
        items = [i * rows for i in range(n)]
        return x.repeat(n, 1).view(rows * n, -1) + sum(items) + round(rows * 1.5)


class ByWidth(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.size(0)
        pooled = torch.nn.functional.interpolate(x.unsqueeze(1), scale_factor=2.0)
        return pooled.view(rows, -1) / x.size(1) ** 0.5


DYNAMIC = {
    "sizes": (Sizes, (5, 3, 4), {0: ROWS, 1: STEPS}, (7, 9, 4)),
    "numbers": (Numbers, (5, 4), {0: ROWS}, (7, 4)),
    "interpolation": (ByWidth, (5, 4), {0: ROWS}, (7, 4)),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["script", "trace"])
@pytest.mark.parametrize("strict", [None, False, True])
@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_stay_open(name, strict, kind):
    """By our verb (None) and by torch.export itself."""
    make, shape, dynamic, other = DYNAMIC[name]
    if (name, kind) == ("sizes", "script") and not strict:
        pytest.skip("torch gives the eager module the same condition on sizes, of its own view")
    if (name, kind) == ("numbers", "trace"):
        pytest.skip("tracing makes constants of the numbers")
    if name != "numbers" and (kind, strict) == ("trace", True) and TORCH < (2, 10):
        pytest.skip("Dynamo of torch 2.9 and before loses the sizes that tensors stand for")
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(shape)
    made = torch.jit.script(module) if kind == "script" else torch.jit.trace(module, (x,))
    theirs, mine = both_of(made)
    if strict is None:
        program = tsarchive.to_exported_program(mine, (x,), dynamic_shapes=(dynamic,))
    else:
        program = torch.export.export(mine, (x,), dynamic_shapes=(dynamic,), strict=strict)
    assert sorted(program.state_dict) == sorted(theirs.state_dict())
    run = program.module()
    for shape_of_call in (shape, other):
        x = torch.randn(shape_of_call)
        torch.testing.assert_close(run(x), theirs(x))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["script", "trace"])
@pytest.mark.parametrize("name", ["attention", "encoder", "convolution"])
@pytest.mark.filterwarnings("ignore:.*enable_nested_tensor.*:UserWarning")
def test_networks(name, kind):
    if kind == "trace" and TORCH < (2, 8):
        pytest.skip("torch 2.7 and older lose the sizes that tensors of traces stand for")
    module, inputs = build(name, kind)
    theirs, mine = both_of(module)
    before = saved(mine)
    program = tsarchive.to_exported_program(mine, inputs)
    torch.testing.assert_close(program.module()(*inputs), theirs(*inputs))
    assert sorted(program.state_dict) == sorted(mine.state_dict())
    assert saved(mine) == before


def test_fixture_modules():
    """Programs that are made give equal results; the rest is refused with what stopped it."""
    equal_results, refused = 0, {}
    for case in sampled(list(tensor_cases())[::2], 12):
        if case.name.startswith("quantized"):
            continue  # up to steps of scales: test_exporting_quantized.py
        module = case.build()
        theirs, mine = both_of(module)
        inputs = case.inputs[0]
        torch.manual_seed(0)
        expected = theirs(*inputs)
        if not isinstance(expected, torch.Tensor) or not inputs:
            continue
        try:
            run = tsarchive.to_exported_program(mine, inputs).module()
        except (tsarchive.ArchiveError, SyntaxError) as error:  # torch.fx: names that are keywords
            refused[case.name] = str(error)
            continue
        torch.manual_seed(0)
        torch.testing.assert_close(run(*inputs), expected, equal_nan=True)
        equal_results += 1
    assert equal_results > 3 * len(refused), refused


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.sum() > 0) else x.sum()


def test_what_stops_the_export_is_named():
    module = loaded(torch_saved(torch.jit.script(Branches())))
    with pytest.raises(tsarchive.UnsupportedError, match="data-dependent") as info:
        tsarchive.to_exported_program(module, (torch.ones(2),))
    assert "Branches" in str(info.value)
    assert info.value.__cause__ is not None


def test_what_is_not_taken(tmp_path):
    with pytest.raises(tsarchive.CallError, match="neither a loaded module nor a path"):
        tsarchive.to_exported_program(torch.nn.ReLU(), (torch.ones(2),))
    with pytest.raises(OSError, match="missing"):
        tsarchive.to_exported_program(tmp_path / "missing.pt", ())


def test_a_path_and_keywords(tmp_path):
    path = tmp_path / "numbers.pt"
    path.write_bytes(torch_saved(torch.jit.script(Numbers())))
    x = torch.ones(3, 2)
    program = tsarchive.to_exported_program(path, (x,), {"n": 3})
    assert equal(program.module()(x, n=3), Numbers()(x, 3))


def test_the_mode_and_buffers_are_those_of_the_module():
    torch.manual_seed(0)
    theirs, mine = both_of(torch.jit.script(torch.nn.BatchNorm1d(3)))
    x = torch.randn(4, 3)
    for mode in (True, False):
        for module in (theirs, mine):
            module.train(mode)
        program = tsarchive.to_exported_program(mine, (x,))
        torch.testing.assert_close(program.module()(x), theirs(x))
        mine.load_state_dict(theirs.state_dict())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (torch.ones(1, 2), "is a Tensor, not a tuple"),
        ((torch.ones(1, 2), 1, 2), "too many positional arguments"),
        ((), "missing a required argument: 'x'"),
        (([torch.ones(2)],), "'Tensor' for the argument 'x', not 'list'"),
    ],
)
def test_arguments_that_forward_does_not_take(arguments, message):
    module = loaded(torch_saved(torch.jit.script(Scaled())))
    with pytest.raises(tsarchive.CallError, match=message):
        tsarchive.to_exported_program(module, arguments)


class Steps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.GRU(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) > 3:
            return x.sum(0)
        return x.view(1, -1)


@pytest.mark.parametrize(
    ("make", "shape", "message", "hint"),
    [
        (Steps, (7, 2, 3), "marked open as dynamic but .* a constant .7.", "Leave open out"),
        (Rows, (1, 2), "a constant .1.", "examples of 2"),
        (Rows, (6, 2), "generated guard", "Narrow the range"),
    ],
)
def test_sizes_that_cannot_stay_open(make, shape, message, hint):
    module = loaded(torch_saved(torch.jit.script(make())))
    with pytest.raises(tsarchive.UnsupportedError, match=message) as info:
        tsarchive.to_exported_program(module, (torch.rand(shape),), dynamic_shapes=({0: OPEN},))
    assert hint in info.value.hint
    assert "TORCH_LOGS" not in str(info.value)


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int = 1) -> torch.Tensor:
        return x * n


def test_parameters_of_recurrent_networks_stay_parameters():
    module = loaded(torch_saved(torch.jit.script(torch.nn.GRU(3, 4))))
    program = tsarchive.to_exported_program(module, (torch.rand(2, 1, 3),))
    used = {node.name for node in program.graph.nodes if node.users}
    named = program.graph_signature.inputs_to_parameters
    assert sorted(named.values()) == sorted(dict(module.named_parameters()))
    assert named.keys() <= used
    assert not program.constants


class _Scale:
    """What stands for an object of a class bound from C++ while torch.export traces."""

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_methods_of_objects_that_stand_for_native_ones():
    name = "__torch__.torch.classes.rnn.CellParamsBase"
    known, other = (native_class(f"__torch__.torch.classes.{kind}.{last}") for kind, last in (
        ("rnn", "CellParamsBase"), ("quantized", "LinearPackedParamsBase"),
    ))  # fmt: skip
    fake = FakeScriptObject(_Scale(), name, None)
    object.__setattr__(fake, "apply", _Scale().apply)
    assert type_of(fake) is known
    assert equal(NativeCall(known, "apply")(fake, torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(tsarchive.ArchiveError, match=r"CellParamsBase|LinearPackedParamsBase"):
        NativeCall(other, "apply")(fake, torch.ones(2))


class Derives(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_(True)
        (found,) = torch.autograd.grad([torch.tanh(x).sum()], [x])
        assert found is not None
        return found


@pytest.mark.filterwarnings("ignore")  # torch.export asks for gradients of what has none
def test_gradients_that_torch_cannot_trace_are_told():
    module = loaded(torch_saved(torch.jit.script(Derives())))
    with pytest.raises(tsarchive.UnsupportedError, match="constant's list") as info:
        tsarchive.to_exported_program(module, (torch.ones(2),))
    assert "autograd" in info.value.hint
