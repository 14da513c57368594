"""Ways out of TorchScript and PT2: which work, what is told of them, and where inputs come from."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import FIXTURES
from tests.support.command_line import document, run
from tests.support.features import stores_weights_apart
from tests.support.report_pages import read
from tsarchive.converting import Conversion
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.executorch.modules.comparing import Comparison
from tsarchive.leaving import LeavingPlan, WayOut, trying
from tsarchive.onnx_export import OnnxAgreement

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.inner(x)).relu()

    @torch.jit.export
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x.nonzero()
        return x


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    path = tmp_path_factory.mktemp("leaving") / "net.pt"
    tsarchive.save(torch.jit.script(Net()), path, extra_files={"LICENSE": b"none"})
    return path


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    path = tmp_path_factory.mktemp("leaving") / "traced.pt"
    net = nn.Sequential(nn.Embedding(12, 3), nn.Linear(3, 2)).eval()
    tsarchive.save(torch.jit.trace(net, torch.tensor([[1, 2, 3]])), path)
    return path


def ways(path, **arguments) -> dict[str, WayOut]:
    plan = tsarchive.leave(path, **arguments)
    return {way.name: way for way in plan.ways}


@stores_weights_apart
def test_ways_out_of_a_scripted_archive(scripted):
    found = ways(scripted, args=(X,), only=("decompile", "pt2", "safetensors"))
    assert list(found) == ["decompile", "pt2", "safetensors"]
    # In training mode, Dropout draws from the seed: the same numbers in every form.
    assert [found[name].outcome for name in found] == ["equal", "equal", "written"]
    assert all(way.works and way.nbytes > 0 for way in found.values())
    assert not any("methods" in loss for loss in found["decompile"].loses)
    assert "methods: encode" in found["pt2"].loses
    assert "extra files: LICENSE" in found["decompile"].loses
    assert not any("extra" in loss for loss in found["pt2"].loses)


@stores_weights_apart
def test_inputs_are_drawn_like_those_of_a_trace(traced):
    plan = tsarchive.leave(traced, only=("pt2", "decompile"))
    assert (plan.inputs, plan.arguments, plan.ok) == ("drawn", ("1x3:int64",), True)
    assert {way.outcome for way in plan.ways} == {"equal"}
    by_name = {way.name: way for way in plan.ways}
    assert by_name["pt2"].command.endswith("traced.pt traced.pt2 --random 1x3:int64")


@stores_weights_apart
def test_commands_do_what_they_say(traced, tmp_path):
    for way in tsarchive.leave(traced, only=("pt2", "decompile")).ways:
        words = shlex.split(way.command)
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert torch.export.load(tmp_path / "traced.pt2").module()(torch.tensor([[1, 2, 3]])).ndim == 3
    assert (tmp_path / "traced_source" / "__init__.py").is_file()


def test_a_program_runs_on_its_own_inputs():
    plan = tsarchive.leave(FIXTURES / "pt2" / "linear.pt2", only=("torchscript",))
    assert (plan.kind, plan.inputs) == ("pt2", "stored")
    assert [(way.name, way.outcome) for way in plan.ways] == [("torchscript", "equal")]


def test_without_inputs_there_is_nothing_to_trace(scripted):
    found = ways(scripted, only=("decompile", "pt2"))
    assert found["decompile"].outcome == "written"
    assert found["pt2"].outcome == "untried"
    assert found["pt2"].hint == "Give them as args and kwargs: forward(x: Tensor) -> Tensor"


@stores_weights_apart
def test_a_way_that_fails_names_the_line(tmp_path):
    path = tmp_path / "branch.pt"
    torch.jit.script(Branch()).save(path)
    plan = tsarchive.leave(path, args=(X.abs(),), only=("pt2", "decompile"))
    found = {way.name: way for way in plan.ways}
    assert found["decompile"].outcome == "equal"
    assert plan.ok
    assert found["pt2"].outcome == "fails"
    line = Branch.forward.__code__.co_firstlineno + 1
    assert found["pt2"].origin == f"{__file__}:{line}: if bool(x.sum() > 0):"
    assert found["pt2"].origin in found["pt2"].problem


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


def test_what_a_program_has_not_is_lost(tmp_path):
    path = tmp_path / "counts.pt"
    tsarchive.save(torch.jit.script(Counts()), path)
    found = ways(path, args=(X,), only=("pt2",))["pt2"]
    assert found.works
    assert any("calls assign calls" in loss for loss in found.loses)


class Methods(nn.Module):
    @torch.jit.export
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_without_a_forward_there_is_nothing_to_trace(tmp_path):
    path = tmp_path / "methods.pt"
    tsarchive.save(torch.jit.script(Methods()), path)
    found = ways(path, only=("pt2", "decompile"))
    assert found["decompile"].works
    assert (found["pt2"].outcome, found["pt2"].problem) == ("fails", "there is no forward to trace")


class Constant(nn.Module):
    def forward(self, scale: float = 2.0) -> torch.Tensor:
        return torch.ones(3) * scale


@stores_weights_apart
def test_a_forward_that_needs_no_arguments_is_called(tmp_path):
    path = tmp_path / "constant.pt"
    tsarchive.save(torch.jit.script(Constant()), path)
    plan = tsarchive.leave(path, only=("pt2", "decompile"))
    assert (plan.inputs, plan.arguments) == ("needless", ())
    assert {way.outcome for way in plan.ways} == {"equal"}
    assert "a call without arguments" in run("leave", path, "--only", "decompile").stdout


class Text(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, str]:
        return x + 1, "done"


def test_a_result_that_torch_does_not_read_back(tmp_path):
    path = tmp_path / "text.pt"
    tsarchive.save(torch.jit.script(Text()), path)
    found = ways(path, args=(X,), only=("pt2",))["pt2"]
    assert found.outcome == "fails"
    assert "'done'" in found.problem


class Quantizing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x.dequantize() + 1, 0.5, 1, torch.quint8)


@stores_weights_apart
@pytest.mark.filterwarnings("ignore:TypedStorage", "ignore:.*quantized tensor creation")
def test_quantized_arguments_are_integers_where_programs_take_them(tmp_path):
    path = tmp_path / "quantizing.pt"
    tsarchive.save(torch.jit.script(Quantizing()), path)
    x = torch.quantize_per_tensor(X, 0.5, 2, torch.quint8)
    found = ways(path, args=(x,), only=("pt2",))["pt2"]
    assert (found.outcome, found.problem) == ("equal", None)
    assert any("NaN becomes another integer" in loss for loss in found.loses)


class Forces(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (found,) = torch.autograd.grad([(x * x).sum()], [x])
        assert found is not None
        return found


def test_models_that_compute_gradients_run(tmp_path):
    path = tmp_path / "forces.pt"
    tsarchive.save(torch.jit.script(Forces()), path)
    found = ways(path, args=(X,), only=("decompile",))["decompile"]
    assert (found.outcome, found.problem) == ("equal", None)


class Without(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        return y + 1


@stores_weights_apart
def test_regions_without_gradients_are_read_back(tmp_path):
    path = tmp_path / "without.pt"
    tsarchive.save(torch.jit.script(Without()), path)
    found = ways(path, args=(X,), only=("pt2",))["pt2"]
    assert (found.outcome, found.problem) == ("equal", None)


def test_a_file_that_its_runtime_does_not_run_fails(scripted, monkeypatch):
    failing = OnnxAgreement("forward", "given", None, None, 0.0, 0.0, "no kernel", has_run=False)
    made = Conversion("", "", "", "onnx", 0, agreements=(failing,))
    monkeypatch.setattr(trying, "find_spec", lambda name: name)
    monkeypatch.setattr(trying, "convert", lambda *_, **__: made)
    found = ways(scripted, args=(X,), only=("onnx",))["onnx"]
    assert (found.outcome, found.problem) == ("fails", "no kernel")


def test_a_program_that_is_not_the_file_differs(scripted, monkeypatch):
    """What is lowered is compared with the file, and not only with what was traced."""
    traced = torch.export.export(nn.Linear(3, 4), (X,))
    monkeypatch.setattr(trying, "find_spec", lambda name: name)
    monkeypatch.setattr(trying, "to_exported_program", lambda *_, **__: traced)
    monkeypatch.setattr(
        trying, "convert", lambda *_, **__: Conversion("", "", "", "onnx", 0, agreements=())
    )
    assert ways(scripted, args=(X,), only=("onnx",))["onnx"].outcome == "differs"


def test_commands_have_the_options_that_were_tried(tmp_path):
    path = tmp_path / "counts.pt"
    tsarchive.save(torch.jit.script(Counts()), path)
    given = (path, "--random", "2x3", "--dynamic", "x:0", "--map-location", "cpu", "--trust")
    only = ("--only", "pt2", "--only", "safetensors")
    program, weights = document("leave", *given, *only)["ways"]
    assert program["command"].endswith(
        "counts.pt2 --random=2x3 --dynamic=x:0 --map-location cpu --trust"
    )
    assert weights["command"].endswith("counts.safetensors --trust")


def test_a_package_that_is_missing_is_named(scripted, monkeypatch):
    monkeypatch.setattr(trying, "find_spec", lambda name: None)
    found = ways(scripted, args=(X,), only=("onnx", "pte"))
    assert {way.outcome for way in found.values()} == {"untried"}
    assert found["pte"].hint == 'pip install "tsarchive[executorch]"'


@pytest.mark.parametrize(
    ("comparison", "outcome"),
    [(None, "written"), (Comparison(0.0, None), "equal"), (Comparison(None, None), "equal"),
     (Comparison(1e-6, None), "close"), (Comparison(3.0, "output 0 is up to 3 apart"), "differs")],
)  # fmt: skip
def test_what_became_of_a_way(scripted, monkeypatch, comparison, outcome):
    way = trying._BY_NAME["safetensors"]._replace(
        attempt=lambda trial, target: trying._Made(comparison)
    )
    monkeypatch.setattr(trying, "_WAYS", (way,))
    plan = tsarchive.leave(scripted, args=(X,))
    assert [each.outcome for each in plan.ways] == [outcome]
    assert plan.ok == (outcome != "differs")
    assert plan.ways[0].summary


def test_arguments_that_do_not_fit(scripted):
    with pytest.raises(CallError, match="no way out is called 'tflite'"):
        tsarchive.leave(scripted, args=(X,), only=("tflite",))
    with pytest.raises(CallError):
        tsarchive.leave(scripted, args=(X, X, X))
    with pytest.raises(CallError, match="'torchscript' is no way out of a file of the kind torchs"):
        tsarchive.leave(scripted, args=(X,), only=("pt2", "torchscript"))
    with pytest.raises(UnsupportedError, match="no way out"):
        tsarchive.leave(FIXTURES / "executorch" / "linear.pte")


def test_the_archive_is_left_as_it_was(scripted):
    before = scripted.read_bytes()
    state = torch.random.get_rng_state()
    tsarchive.leave(scripted, args=(X,), only=("decompile",))
    assert scripted.read_bytes() == before
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_command(scripted, tmp_path):
    page = tmp_path / "page.html"
    shown = run(
        "leave", scripted, "--random", "2x3", "--only", "decompile", "--report", page
    ).stdout
    assert "decompile: Python source, works: equal results" in shown
    assert "$ tsarchive decompile" in shown
    text = read(page.read_text(encoding="utf-8")).text
    assert "1 of 1 way out of this format work" in text
    found = document("leave", scripted, "--random", "2x3", "--only", "decompile")

    assert found["ways"][0]["outcome"] == "equal"


def test_the_command_without_a_way_that_works(scripted):
    done = run("leave", scripted, "--only", "pt2")
    assert done.exit_code == 1
    assert "not tried: it takes a call" in done.stdout
    assert "INPUTS, --arg or --random, as to 'tsarchive run': forward(x: Tensor)" in done.stdout


def test_a_plan_is_plain_data():
    plan = LeavingPlan("net.pt", "torchscript", "none", (), ())
    assert plan.document() == {
        "schema": "tsarchive.leaving-plan", "version": 1, "file": "net.pt", "kind": "torchscript",
        "inputs": "none", "arguments": (), "ways": (),
    }  # fmt: skip
    assert not plan.ok
