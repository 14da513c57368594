"""ONNX files: run by onnxruntime, beside the modules that archives were made of."""

from __future__ import annotations

import importlib
import io
import re
import sys

import pytest
import torch
from torch import nn
from torch.export import Dim

import tsarchive
from tests.converting.comparing import texts
from tests.support.archives import saved
from tests.support.networks import build, each_network
from tsarchive import onnx_export

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

ROWS = torch.linspace(-1, 1, 12).view(3, 4)
BATCH = Dim("batch", min=2, max=64)


def network(function):
    """Return a module with a layer and a counter, whose forward is a function."""

    class Network(nn.Module):
        forward = function

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(1))

    torch.manual_seed(0)
    return Network().eval()


def counting(self, x):
    self.count.add_(1)
    return self.linear(x) + self.count


# Name: the forward, its arguments, the names of outputs.
PROGRAMS = {
    "one tensor": (lambda self, x: self.linear(x), (ROWS,), ["output"]),
    "a tuple": (lambda self, x: (x + 1, self.linear(x)), (ROWS,), ["output_0", "output_1"]),
    "keys": (
        lambda self, x: {"logits": self.linear(x), "parts": [x + 1, {"a b": x + 2}]},
        (ROWS,),
        ["logits", "parts_0", "parts_1_a_b"],
    ),
    "a key that an argument has": (
        lambda self, x: {"x": self.linear(x)}, (ROWS,), ["x_1"],
    ),
    "a key that a value inside has": (
        lambda self, x: {"linear": torch.relu(self.linear(x)), "relu": self.linear(x)},
        (ROWS,),
        ["linear", "relu"],
    ),
    "an argument as it is": (
        lambda self, x: (x, self.linear(x)), (ROWS,), ["output_0", "output_1"],
    ),
    "one result twice": (lambda self, x: (y := x * 2, y), (ROWS,), ["output_0", "output_1"]),
    "constants among results": (
        lambda self, x: (3, self.linear(x), None, "s"), (ROWS,), ["output_1"],
    ),
    "containers as arguments": (
        lambda self, pair, named: pair[0] + self.linear(pair[1]) * named["k"],
        ((ROWS, ROWS), {"k": ROWS}),
        ["output"],
    ),
    "constants as arguments": (
        lambda self, x, scale, mode: self.linear(x) * scale, (ROWS, 2.5, "mode"), ["output"],
    ),
    "integers and booleans": (
        lambda self, x: (x.argmax(1), x > 0, x.to(torch.int32)),
        (ROWS,),
        ["output_0", "output_1", "output_2"],
    ),
    "double and half": (lambda self, x: (x.double() * 2, x.half() * 2), (ROWS,), None),
    "complex": (lambda self, x: torch.fft.fft(x).abs(), (ROWS,), ["output"]),
    "state": (counting, (ROWS,), ["output"]),
    "branches": (
        lambda self, x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
        (ROWS,),
        ["output"],
    ),
    "nothing": (lambda self, x: torch.ones(2, 2), (ROWS,), ["output"]),
}  # fmt: skip


def program_of(name):
    forward, args, _ = PROGRAMS[name]
    return torch.export.export(network(forward), args), args


def session_of(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run(path, *tensors):
    """Run a file as its users do: inputs in order, by the names that it tells."""
    session = session_of(path)
    names = [given.name for given in session.get_inputs()]
    feeds = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
    return [torch.as_tensor(found) for found in session.run(None, feeds)]


def tensors_in(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if hasattr(leaf, "numpy")]


def assert_close(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path):
    program, args = program_of(name)
    path = tmp_path / "net.onnx"
    done = tsarchive.convert(program, path)
    assert (done.file_kind, done.kind, done.nbytes) == (
        "exported program", "onnx", path.stat().st_size,
    )  # fmt: skip
    (agreement,) = done.agreements
    assert (agreement.ok, agreement.inputs) == (True, "stored")
    assert agreement.max_difference < 1e-4
    onnx.checker.check_model(str(path), full_check=True)
    assert_close(run(path, *tensors_in(args)), tensors_in(program.module()(*args)))
    names = PROGRAMS[name][2]
    found = [given.name for given in session_of(path).get_outputs()]
    assert found == (found if names is None else names)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.sample(1, gaps="each takes seconds")
@each_network
def test_networks_of_torchscript(name, kind, tmp_path):
    module, inputs = build(name, kind)
    source, path = tmp_path / "net.pt", tmp_path / "net.onnx"
    source.write_bytes(saved(module))
    done = tsarchive.convert(source, path, args=inputs)
    assert (done.file_kind, done.agreements[0].inputs) == ("torchscript", "given")
    assert done.agreements[0].ok
    assert_close(run(path, *inputs), tensors_in(tsarchive.load(source)(*inputs)))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.linear(x) * scale + y.sum()


class Lacking(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return torch.special.bessel_j0(y)


def archive(tmp_path, module):
    path = tmp_path / "net.pt"
    path.write_bytes(saved(torch.jit.script(module.eval())))
    return path


def sizes_of(path):
    session = session_of(path)
    return {given.name: given.shape for given in (*session.get_inputs(), *session.get_outputs())}


SHAPES = {
    "by position": ({0: BATCH}, {0: Dim.DYNAMIC}, None),
    "by name": {"x": {0: BATCH}, "y": [Dim.DYNAMIC, None], "scale": None},
    "by name in another order": {"y": {0: Dim.DYNAMIC}, "scale": None, "x": (BATCH, None)},
}


@pytest.mark.parametrize("name", SHAPES)
def test_open_sizes_have_their_names(name, tmp_path):
    source, path = archive(tmp_path, Scaled()), tmp_path / "net.onnx"
    args = (ROWS, torch.ones(5, 2), 2.0)
    done = tsarchive.convert(source, path, args=args, dynamic_shapes=SHAPES[name])
    assert sizes_of(path) == {
        "x": ["batch", 4], "y": ["y_dim_0", 2], "output": ["batch", 2],
    }  # fmt: skip
    assert texts(done) == ("the argument scale is no input: it is always 2.0",)
    others = torch.randn(7, 4), torch.randn(3, 2)
    expected = tsarchive.load(source)(*others, 2.0)
    assert_close(run(path, *others), [expected])


def test_sizes_of_one_name_are_one(tmp_path):
    source, path = archive(tmp_path, Scaled()), tmp_path / "net.onnx"
    shapes = ({0: BATCH}, {1: BATCH}, None)
    tsarchive.convert(source, path, args=(ROWS, torch.ones(2, 3), 1.0), dynamic_shapes=shapes)
    assert sizes_of(path)["y"] == [2, "batch"]


def test_expressions_of_sizes_are_in_their_names(tmp_path):
    source, path = archive(tmp_path, Twice()), tmp_path / "net.onnx"
    tsarchive.convert(source, path, args=(ROWS,), dynamic_shapes=({0: BATCH},))
    assert sizes_of(path)["output"] == ["2*batch", 4]


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])


@pytest.mark.sample(1, gaps="each takes a second")
@pytest.mark.parametrize("opset", [18, 20, 23])
def test_the_opset_is_the_one_asked_for(opset, tmp_path):
    program, _ = program_of("one tensor")
    done = tsarchive.convert(program, tmp_path / "net.onnx", opset=opset)
    model = onnx.load(tmp_path / "net.onnx")
    assert [entry.version for entry in model.opset_import if not entry.domain] == [opset]
    assert done.opset == opset


def test_opsets_that_there_are_not(tmp_path):
    program, _ = program_of("branches")
    path = tmp_path / "net.onnx"
    for opset in (0, 10_000):
        with pytest.raises(tsarchive.CallError, match="ONNX has no opset"):
            tsarchive.convert(program, path, opset=opset)
    with pytest.raises(tsarchive.UnsupportedError, match="operators of opset 7") as info:
        tsarchive.convert(program, path, opset=7)
    assert re.fullmatch(r"With those of opset \d+ it can", info.value.hint)
    assert not path.exists()


def test_operators_that_onnx_lacks_are_named_with_the_line(tmp_path):
    source, path = archive(tmp_path, Lacking()), tmp_path / "net.onnx"
    path.write_bytes(b"as it was")
    with pytest.raises(tsarchive.UnsupportedError) as info:
        tsarchive.convert(source, path, args=(ROWS,))
    line = Lacking.forward.__code__.co_firstlineno + 2
    assert "aten::special_bessel_j0" in info.value.message
    assert f"{__file__}:{line}: return torch.special.bessel_j0(y)" in info.value.message
    assert info.value.__cause__ is not None
    assert info.value.origin == f"{__file__}:{line}: return torch.special.bessel_j0(y)"
    assert path.read_bytes() == b"as it was"


def test_programs_of_other_sources_tell_lines_too(tmp_path):
    program = torch.export.export(Lacking(), (ROWS,))
    tsarchive.save(program, tmp_path / "net.pt2")
    for source in (program, tmp_path / "net.pt2"):
        with pytest.raises(tsarchive.UnsupportedError, match=r"bessel_j0.*test_onnx\.py:\d+: ret"):
            tsarchive.convert(source, tmp_path / "net.onnx")


def test_archives_without_debug_records(tmp_path):
    module = tsarchive.load(archive(tmp_path, Lacking()))
    bare = tmp_path / "bare.pt"
    tsarchive.save(module, bare, debug=False)
    with pytest.raises(tsarchive.UnsupportedError, match=r"called at <tsarchive \S*Lacking\.for"):
        tsarchive.convert(bare, tmp_path / "net.onnx", args=(ROWS,))


def test_exported_nodes_tell_lines_of_the_user(tmp_path):
    program = tsarchive.to_exported_program(archive(tmp_path, Lacking()), (ROWS,))
    stacks = [node.meta.get("stack_trace") or "" for node in program.graph.nodes]
    line = Lacking.forward.__code__.co_firstlineno + 1
    assert any(f'File "{__file__}", line {line}, in forward\n    y = x + 1' in s for s in stacks)
    assert not any("calls_from_python" in stack for stack in stacks)


def test_what_is_not_in_the_file_is_told(tmp_path):
    notes = {}
    for name in ("state", "constants among results", "constants as arguments", "keys"):
        program, _ = program_of(name)
        notes[name] = texts(tsarchive.convert(program, tmp_path / "net.onnx"))
    assert notes == {
        "state": ("calls do not change buffers, as those of the source do: count",),
        "constants among results": (
            "output_0 is left out: it is always 3",
            "output_2 is left out: it is always None",
            "output_3 is left out: it is always 's'",
        ),
        "constants as arguments": (
            "the argument scale is no input: it is always 2.5",
            "the argument mode is no input: it is always 'mode'",
        ),
        "keys": (),
    }


def test_results_that_are_constants_alone(tmp_path):
    program = torch.export.export(network(lambda self, x: (3, None)), (ROWS,))
    with pytest.raises(tsarchive.UnsupportedError, match="all results of the program are const"):
        tsarchive.convert(program, tmp_path / "net.onnx")


def test_programs_without_results(tmp_path):
    program = torch.export.export(network(lambda self, x: ()), (ROWS,))
    with pytest.raises(tsarchive.UnsupportedError, match="the program has no results") as info:
        tsarchive.convert(program, tmp_path / "net.onnx")
    assert "Let forward return a tensor" in info.value.hint


def test_programs_are_left_as_they_are(tmp_path):
    program, args = program_of("constants among results")
    before = program.graph_module.print_readable(print_output=False)
    tsarchive.convert(program, tmp_path / "net.onnx")
    assert program.graph_module.print_readable(print_output=False) == before
    assert program.module()(*args)[0] == 3


def without_inputs(program):
    program._example_inputs = None
    return program


def test_random_inputs_have_the_declared_sizes(tmp_path):
    open_sizes = torch.export.export(
        network(lambda self, x, n: self.linear(x)[n]), (ROWS, torch.tensor([0, 1])),
        dynamic_shapes=({0: BATCH}, None),
    )  # fmt: skip
    done = tsarchive.convert(without_inputs(open_sizes), tmp_path / "net.onnx")
    found = [(each.ok, each.inputs, each.is_resized) for each in done.agreements]
    assert found == [(True, "random", False), (True, "random", True)]


def test_random_inputs_that_do_not_fit(tmp_path):
    def forward(self, x):
        torch._check(x.sum().item() > 100)
        return x + 1

    program = torch.export.export(network(forward), (torch.full((3, 4), 50.0),))
    done = tsarchive.convert(without_inputs(program), tmp_path / "net.onnx")
    assert done.agreements == ()
    assert done.notes[-1].text.endswith("give the inputs of a call")


def test_given_inputs_that_do_not_fit(tmp_path):
    program, _ = program_of("one tensor")
    with pytest.raises(tsarchive.CallError, match="does not take these arguments"):
        tsarchive.convert(program, tmp_path / "net.onnx", args=(torch.ones(1, 1, 1),))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.sample(1, gaps="each takes seconds")
@pytest.mark.parametrize(
    ("function", "given"),
    [(lambda self, x: x * 2, ROWS.bfloat16()), (lambda self, x: x.bfloat16() * 2, ROWS)],
    ids=["inputs", "outputs"],
)
def test_dtypes_that_numpy_lacks_are_not_compared(function, given, tmp_path):
    program = torch.export.export(network(function), (given,))
    done = tsarchive.convert(program, tmp_path / "net.onnx", args=(given,))
    assert done.agreements == ()
    assert texts(done) == (
        "results were not compared: onnxruntime takes and gives no torch.bfloat16 here",
    )


def test_random_numbers_are_not_compared(tmp_path):
    program = torch.export.export(network(lambda self, x: x + torch.rand_like(x)), (ROWS,))
    done = tsarchive.convert(program, tmp_path / "net.onnx")
    assert done.agreements == ()
    assert texts(done) == ("results were not compared: aten::rand_like gives random numbers",)


def test_the_random_state_stays(tmp_path):
    program = torch.export.export(network(lambda self, x: x + torch.rand_like(x)), (ROWS,))
    before = torch.random.get_rng_state()
    tsarchive.convert(program, tmp_path / "net.onnx")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_other_results_are_a_finding(tmp_path, monkeypatch):
    run_file = onnx_export._run
    monkeypatch.setattr(
        onnx_export, "_run", lambda *args, **_: [found + 1 for found in run_file(*args)]
    )
    program, _ = program_of("one tensor")
    (agreement,) = tsarchive.convert(program, tmp_path / "net.onnx").agreements
    assert not agreement.ok
    assert agreement.problem == "output 0 is up to 1 apart"
    assert agreement.max_difference == pytest.approx(1, abs=1e-3)
    assert (tmp_path / "net.onnx").exists()


def test_batch_normalization_in_training_is_named(tmp_path):
    torch.manual_seed(0)
    path = tmp_path / "net.pt"
    path.write_bytes(saved(torch.jit.script(nn.Sequential(nn.BatchNorm1d(3)))))
    done = tsarchive.convert(path, tmp_path / "net.onnx", args=(torch.rand(4, 3),))
    (found,) = done.agreements
    assert not found.ok
    assert "eval()" in found.problem


class Dynamic(nn.Module):
    """Quantized as the input is, which in ONNX is arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        net = nn.Sequential(nn.Linear(4, 3)).eval()
        self.net = torch.ao.quantization.quantize_dynamic(net, {nn.Linear})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("dequantize", [False, True])
def test_scales_of_the_input_are_arithmetic(dequantize, tmp_path):
    path, target = tmp_path / "net.pt", tmp_path / "net.onnx"
    path.write_bytes(saved(torch.jit.script(Dynamic())))
    for rows in (torch.rand(2, 4), -torch.rand(2, 4), torch.zeros(2, 4)):
        done = tsarchive.convert(path, target, args=(rows,), dequantize=dequantize)
        assert [found.problem for found in done.agreements] == [None]


class Scales(nn.Module):
    """Quantizes by scales that are buffers, and with one that calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.25))
        self.register_buffer("zero", torch.tensor(3))
        self.register_buffer("moving", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        quantized = torch.ops.quantized_decomposed
        rest = (self.zero, 0, 255, torch.uint8)
        y = quantized.quantize_per_tensor.tensor(x, self.scale, *rest)
        self.moving.mul_(2.0)
        return quantized.dequantize_per_tensor.tensor(y, self.moving, *rest)


def test_scales_that_stay_are_numbers(tmp_path):
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    program = torch.export.export(Scales(), (ROWS,))
    done = tsarchive.convert(program, tmp_path / "net.onnx", args=(ROWS,))
    assert [found.problem for found in done.agreements] == [None]
    nodes = [node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node]
    assert "QuantizeLinear" in nodes
    assert "DequantizeLinear" not in nodes


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = torch.ops.quantized_decomposed.choose_qparams_symmetric.tensor
        return chosen(x, -127, 127, 1e-6, torch.int8)[0]


def test_refusals_of_quantized_operators_name_the_way(tmp_path):
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    program = torch.export.export(Symmetric(), (ROWS,))
    with pytest.raises(tsarchive.UnsupportedError, match="quantized_decomposed") as info:
        tsarchive.convert(program, tmp_path / "net.onnx")
    assert "dequantize" in info.value.hint
    line = Symmetric.forward.__code__.co_firstlineno + 2
    assert info.value.origin.startswith(f"{__file__}:{line}: ")


def test_differences_of_fused_operators_are_explained(tmp_path, monkeypatch):
    run_file = onnx_export._run

    def run_otherwise(path, feeds, *, is_optimized=True):
        return [found + is_optimized for found in run_file(path, feeds)]

    monkeypatch.setattr(onnx_export, "_run", run_otherwise)
    program, _ = program_of("one tensor")
    (found,) = tsarchive.convert(program, tmp_path / "net.onnx").agreements
    assert found.problem.startswith("output 0 is up to 1 apart, and agrees where onnxruntime opt")


def test_sizes_that_stay_for_good_are_a_finding(tmp_path, monkeypatch):
    run_file = onnx_export._run
    rows = len(Twice()(ROWS))
    monkeypatch.setattr(
        onnx_export, "_run", lambda *args, **_: [found[:rows] for found in run_file(*args)]
    )
    source = archive(tmp_path, Twice())
    options = {"args": (ROWS,), "dynamic_shapes": ({0: BATCH},)}
    first, resized = tsarchive.convert(source, tmp_path / "net.onnx", **options).agreements
    assert first.ok
    assert (resized.is_resized, resized.problem) == (
        True, f"output 0 is float32[{rows}, 4], not float32[{rows + 2}, 4]",
    )  # fmt: skip


class Even(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(2, -1)


CALLS = {
    "one more": (Twice(), Dim("rows", min=2, max=9), [3, 4]),
    "one less, at the bound": (Twice(), Dim("rows", min=2, max=3), [3, 2]),
    "none that the program takes": (Even(), 2 * Dim("half", min=1, max=9), [4]),
    "none that are open": (Twice(), None, [3]),
}


@pytest.mark.sample(2, gaps="each takes seconds")
@pytest.mark.parametrize("name", CALLS)
def test_open_sizes_are_tried(name, tmp_path, monkeypatch):
    module, rows, expected = CALLS[name]
    run_file, sizes = onnx_export._run, []
    monkeypatch.setattr(
        onnx_export, "_run",
        lambda path, feeds, **_: (sizes.append(len(feeds["x"])), run_file(path, feeds))[1],
    )  # fmt: skip
    options = {"args": (torch.ones(expected[0], 4),), "dynamic_shapes": ({0: rows},)}
    done = tsarchive.convert(archive(tmp_path, module), tmp_path / "net.onnx", **options)
    assert sizes == expected
    assert all(each.ok for each in done.agreements)


def test_what_onnxruntime_does_not_run_is_a_finding(tmp_path, monkeypatch):
    def fails(*args):
        raise RuntimeError("no kernel\nmore")

    monkeypatch.setattr(onnx_export, "_run", fails)
    program, _ = program_of("one tensor")
    (agreement,) = tsarchive.convert(program, tmp_path / "net.onnx").agreements
    assert agreement.problem == "onnxruntime: no kernel"
    assert not agreement.has_run


def test_a_node_that_onnxruntime_does_not_run_has_its_line(tmp_path, monkeypatch):
    def fails(path, feeds):
        (name,) = (n.name for n in onnx.load(path).graph.node if n.op_type == "Sin")
        raise RuntimeError(f"no implementation for Sin(7) node with name '{name}'")

    monkeypatch.setattr(onnx_export, "_run", fails)
    done = tsarchive.convert(archive(tmp_path, Sine()), tmp_path / "net.onnx", args=(ROWS,))
    line = Sine.forward.__code__.co_firstlineno + 1
    assert f", called at {__file__}:{line}: return x.sin() + 1" in done.agreements[0].problem


class Sine(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


def test_large_weights_stand_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "_MOST_INLINE", 1 << 16)
    program = torch.export.export(nn.Linear(256, 128), (torch.ones(2, 256),))
    path, data = tmp_path / "net.onnx", tmp_path / "net.onnx.data"
    done = tsarchive.convert(program, path)
    assert done.data == str(data)
    assert path.stat().st_size < 1 << 14
    assert data.stat().st_size >= 256 * 128 * 4
    x = torch.randn(2, 256)
    assert_close(run(path, x), [program.module()(x)])


def test_several_models(tmp_path):
    one, _ = program_of("one tensor")
    two, _ = program_of("a tuple")
    tsarchive.save({"one": one, "two": two}, tmp_path / "net.pt2")
    with pytest.raises(tsarchive.CallError, match="there are several: one, two"):
        tsarchive.convert(tmp_path / "net.pt2", tmp_path / "net.onnx")
    tsarchive.convert(tmp_path / "net.pt2", tmp_path / "net.onnx", model="two")
    assert len(session_of(tmp_path / "net.onnx").get_outputs()) == 2


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("canonical", True), ("debug", False), ("data", "net.ptd"), ("backends", ["xnnpack"]),
        ("for_torch", "2.9"), ("map_location", "cpu"),
    ],
)  # fmt: skip
def test_arguments_that_are_not_taken(argument, value, tmp_path):
    program, _ = program_of("one tensor")
    with pytest.raises(tsarchive.CallError, match=f"files of ONNX take no {argument}"):
        tsarchive.convert(program, tmp_path / "net.onnx", **{argument: value})


def test_the_opset_is_for_onnx(tmp_path):
    program, _ = program_of("one tensor")
    with pytest.raises(tsarchive.CallError, match="only ONNX files have an opset"):
        tsarchive.convert(program, tmp_path / "net.pt2", opset=18)


def test_programs_of_executorch_have_no_way_back(tmp_path):
    from tests.support.executorch_files import FIXTURES

    with pytest.raises(tsarchive.UnsupportedError, match=r"a \.pte file is not converted"):
        tsarchive.convert(FIXTURES / "linear.pte", tmp_path / "net.onnx")


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_packages_that_are_missing(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    program, _ = program_of("one tensor")
    with pytest.raises(tsarchive.CallError, match=f"and {package} cannot be imported") as info:
        tsarchive.convert(program, tmp_path / "net.onnx")
    assert info.value.hint == 'pip install "tsarchive[onnx]"'


def test_nothing_is_printed(tmp_path, capfd):
    program, _ = program_of("constants among results")
    tsarchive.convert(program, tmp_path / "net.onnx")
    assert capfd.readouterr().out == ""


def test_a_url(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    program, args = program_of("one tensor")
    done = tsarchive.convert(program, "memory://onnx/net.onnx")
    assert (done.out, done.data) == ("memory://onnx/net.onnx", None)
    (tmp_path / "net.onnx").write_bytes(fsspec.filesystem("memory").cat("/onnx/net.onnx"))
    assert_close(run(tmp_path / "net.onnx", *args), [program.module()(*args)])


def test_stored_inputs_of_an_archive(tmp_path):
    program, _ = program_of("containers as arguments")
    stream = io.BytesIO()
    tsarchive.save(program, stream)
    (tmp_path / "net.pt2").write_bytes(stream.getvalue())
    (agreement,) = tsarchive.convert(tmp_path / "net.pt2", tmp_path / "net.onnx").agreements
    assert (agreement.ok, agreement.inputs) == (True, "stored")
