"""``tsarchive convert``."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import tsarchive
from tests.support.archives import FIXTURES, records_of
from tests.support.command_line import SEQUENTIAL, document, error, run
from tests.support.features import stores_weights_apart
from tests.support.processes import torch_process
from tsarchive.container import NewRecord, write_container

KEYS = {
    "file", "file_kind", "out", "kind", "nbytes", "data", "agreements", "rewritten",
    "left_out", "extra_files_left_out", "opset", "notes",
}  # fmt: skip


@pytest.fixture
def exported(tmp_path):
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),)), path)
    return path


def test_pt2_to_torchscript(exported, tmp_path):
    out = tmp_path / "net.pt"
    found = document("convert", exported, out)
    assert found.keys() == KEYS
    assert (found["file_kind"], found["kind"]) == ("pt2", "torchscript")
    assert found["nbytes"] == out.stat().st_size
    x = torch.randn(4, 3)
    assert torch.equal(torch.jit.load(out)(x), torch.export.load(exported).module()(x))


def test_the_source_may_be_replaced(exported, tmp_path):
    scripted = tmp_path / "net.pt"
    shutil.copy(SEQUENTIAL, scripted)
    for source in (exported, scripted):
        document("convert", source, source)
        assert tsarchive.verify(source).verdict == "sound"
        assert tsarchive.load(source)(torch.ones(4, 3)).shape[0] == 4
    assert "it may be FILE" in run("convert", "--help").stdout


@stores_weights_apart
def test_torchscript_to_pt2(tmp_path):
    out = tmp_path / "net.pt2"
    found = document("convert", SEQUENTIAL, out, "--random", "2x3", "--dynamic", "x:0")
    assert (found["file_kind"], found["kind"]) == ("torchscript", "pt2")
    x = torch.randn(5, 3)
    assert torch.equal(torch.export.load(out).module()(x), torch.jit.load(SEQUENTIAL)(x))


@stores_weights_apart
def test_decisions_are_told(tmp_path):
    source, out = tmp_path / "net.pt", tmp_path / "net.pt2"
    torch.jit.script(Positive()).save(str(source))
    given = (source, out, "--random", "3")
    found = error("convert", *given)
    assert "--specialize" in found["hint"]
    assert not out.exists()
    (note,) = document("convert", *given, "--specialize")["notes"]
    assert (note["kind"], note["is_checked"]) == ("decision", True)
    assert "test_convert.py" in note["place"]
    assert "decision: aten::Bool.Tensor gave" in run("convert", *given, "--specialize").stdout


class Counted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.zeros(len(x))
        for i in range(len(x)):
            found[int(x[i] * 0 + i)] += i
        return found


@stores_weights_apart
def test_decisions_of_one_line_are_counted(tmp_path):
    source = tmp_path / "net.pt"
    torch.jit.script(Counted()).save(str(source))
    given = ("convert", source, tmp_path / "net.pt2", "--random", "9", "--specialize")
    count = len(document(*given)["notes"])
    lines = [line for line in run(*given).stdout.splitlines() if line.startswith("decision: ")]
    assert len(lines) == 4
    assert lines[-1].startswith(f"decision: {count - 3} more in ")


class Keeps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * 2
        return self.last + 1


@pytest.mark.filterwarnings("default")
def test_what_torch_warns_of_is_left_to_notes(tmp_path, recwarn):
    """torch.export warns of tensors that calls assign."""
    source = tmp_path / "net.pt"
    torch.jit.script(Keeps()).save(str(source))
    recwarn.clear()
    done = run("convert", source, tmp_path / "net.pt2", "--random", "3")
    assert "calls assign last" in done.stdout
    assert [str(each.message) for each in recwarn] == []
    assert "Warning" not in done.stderr


class Positive(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool((x > 0).all()) else x.sum()


@stores_weights_apart
def test_inputs_by_name(tmp_path):
    out = tmp_path / "net.pt2"
    document("convert", "--random", "x=2x3", "--dynamic", "x:0", SEQUENTIAL, out)
    assert torch.export.load(out).module()(x=torch.ones(7, 3)).shape == (7, 2)


@stores_weights_apart
def test_sizes_inside_of_arguments_stay_open(tmp_path):
    """Keys and positions lead to the tensors."""

    class Nested(torch.nn.Module):
        def forward(self, pair: dict[str, list[torch.Tensor]], x: torch.Tensor):
            return pair["a"][0].sum() + pair["a"][1].sum(0) + x

    source, inputs, out = tmp_path / "net.pt", tmp_path / "in.pt", tmp_path / "net.pt2"
    torch.jit.save(torch.jit.script(Nested()), source)
    tensors = [torch.ones(2, 3), torch.ones(4, 3)]
    torch.save({"pair": {"a": tensors}, "x": torch.ones(3)}, inputs)
    options = ("--dynamic", "pair.a.0:0", "--dynamic", "pair.a.0:1", "--dynamic", "pair.a.1:0")
    document("convert", source, out, inputs, *options)
    module = torch.export.load(out).module()
    given = {"a": [torch.ones(5, 7), torch.ones(6, 3)]}
    assert torch.equal(module(pair=given, x=torch.ones(3)), torch.full((3,), 42.0))
    found = error("convert", source, tmp_path / "b.pt2", inputs, "--dynamic", "pair:0")
    assert "no tensor 'pair' is given; there are: pair.a.0, pair.a.1, x" in found["message"]


def test_text_says_what_was_made(exported, tmp_path):
    shown = run("convert", exported, tmp_path / "net.ts").stdout
    size = (tmp_path / "net.ts").stat().st_size
    end = f"is now {tmp_path / 'net.ts'} (TorchScript, {size:,} bytes)\n"
    assert shown == f"{exported} (PT2) {end}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("net.model",), "does not say what to write"),
        (("net.engine",), "are written by a tool of its own, trtexec"),
        (("net.pt2", "--random", "2x3", "--opset", "18"), "only ONNX files have an opset"),
        (("net.pt2",), "example arguments"),
        (("net.pt", "--random", "2x3"), "takes no arguments"),
        (("net.pt2", "--random", "2x4"), "cannot"),
        (("net.pt2", "--random", "2x3", "--dynamic", "x"), "is no PLACE:DIM"),
        (("net.pt2", "--random", "2x3", "--dynamic", "x:0:3"), "is no PLACE:DIM"),
        (("net.pt2", "--random", "2x3", "--dynamic", "x:0=a=3"), "is no PLACE:DIM"),
        (
            ("net.pt2", "--random", "2x3", "--dynamic", "y:0"),
            "no tensor 'y' is given; there are: x",
        ),
        (("net.pt2", "--random", "2x3", "--dynamic", "x:7"), "'x' has 2 dimensions"),
        (("net.pt", "--model", "one"), "no models by name"),
        ((), "Missing argument 'OUT'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_errors_write_nothing(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in error("convert", SEQUENTIAL, *options)["message"]
    assert [*tmp_path.iterdir()] == []


def test_models_and_devices(exported, tmp_path):
    out = tmp_path / "net.pt"
    document("convert", exported, out, "--model", "model", "--map-location", "meta")
    assert torch.jit.load(out).weight.is_meta
    assert "no model 'other'" in error("convert", exported, out, "--model", "other")["message"]


@pytest.mark.long("test_pt2_to_torchscript")
def test_a_process(exported, tmp_path):
    done = torch_process("-m", "tsarchive", "convert", exported, "net.pt", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["out"] == "net.pt"


# ONNX, weights, and what other tools write


@pytest.fixture
def _onnx():
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.mark.usefixtures("_onnx")
def test_torchscript_to_onnx(tmp_path):
    out = tmp_path / "net.onnx"
    sizes = ("--dynamic", "x:0=batch:1..8", "--opset", "20")
    found = document("convert", SEQUENTIAL, out, "--random", "2x3", *sizes)
    assert found.keys() == KEYS
    assert (found["kind"], found["opset"], found["notes"]) == ("onnx", 20, [])
    told = [(one["inputs"], one["is_resized"], one["problem"]) for one in found["agreements"]]
    assert told == [("given", False, None), ("given", True, None)]
    import onnxruntime

    session = onnxruntime.InferenceSession(str(out))
    assert session.get_inputs()[0].shape == ["batch", 3]
    x = torch.ones(7, 3)
    (result,) = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), torch.jit.load(SEQUENTIAL)(x))


@pytest.mark.long("test_torchscript_to_onnx")
@pytest.mark.usefixtures("_onnx")
def test_onnx_in_words(exported, tmp_path, monkeypatch):
    out = tmp_path / "net.onnx"
    done = run("convert", exported, out)
    assert done.exit_code == 0
    assert f"is now {out} (ONNX opset " in done.stdout
    assert "forward: results for stored inputs are " in done.stdout
    assert "Warning" not in done.output + done.stderr
    from tsarchive import onnx_export

    monkeypatch.setattr(onnx_export, "_run", lambda *_, **__: [torch.zeros(4, 2)])
    done = run("convert", exported, out)
    assert done.exit_code == 1
    assert "forward: results do not agree: output 0 is up to" in done.stdout
    assert out.exists()


def test_weights(tmp_path):
    out = tmp_path / "net.safetensors"
    found = document("convert", SEQUENTIAL, out)
    assert (found["kind"], found["data"]) == ("safetensors", str(tmp_path / "net.json"))
    assert out.stat().st_size == found["nbytes"]
    shown = run("convert", SEQUENTIAL, out).stdout
    assert f"its modules and values are in {tmp_path / 'net.json'}" in shown


# Programs of ExecuTorch


@pytest.fixture
def _executorch():
    pytest.importorskip("executorch.exir", reason="executorch is not installed")


@pytest.mark.usefixtures("_executorch")
def test_torchscript_to_executorch(tmp_path):
    out, data = tmp_path / "net.pte", tmp_path / "net.ptd"
    options = ("--random", "2x3", "--dynamic", "x:0=1..8", "--data", data)
    found = document("convert", SEQUENTIAL, out, *options)
    assert (found["kind"], found["data"]) == ("pte", str(data))
    assert [(one["method"], one["problem"]) for one in found["agreements"]] == [("forward", None)]
    module = tsarchive.load(out, data=data)
    x = torch.ones(8, 3)
    torch.testing.assert_close(module(x), torch.jit.load(SEQUENTIAL)(x))


@pytest.mark.long("test_pt2_to_torchscript")
@pytest.mark.usefixtures("_executorch")
def test_pt2_to_executorch_tells_of_the_results(exported, tmp_path):
    data = tmp_path / "net.ptd"
    options = ("--backend", "xnnpack", "--data", data)
    done = run("convert", exported, tmp_path / "net.pte", *options)
    assert done.exit_code == 0
    assert f"no constants are left for {data}, which was not written" in done.output
    assert not data.exists()
    assert "Warning" not in done.output + done.stderr
    assert "is now" in done.output
    assert "(ExecuTorch, " in done.output
    assert "forward: results are" in done.output


@pytest.mark.usefixtures("_executorch")
def test_results_that_do_not_agree_are_a_finding(tmp_path):
    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x + torch.rand(2)

    source = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Noisy(), (torch.ones(2),)), source)
    done = run("convert", source, tmp_path / "net.pte")
    assert done.exit_code == 1
    assert "forward: results do not agree: the runtime: output 0 is up to" in done.output


def test_bounds_that_are_no_bounds(tmp_path):
    message = error(
        "convert", SEQUENTIAL, tmp_path / "x.pt2", "--random", "2x3", "--dynamic", "x:0=1..few"
    )
    assert "'x:0=1..few' is no PLACE:DIM" in str(message)


def test_for_another_torch(tmp_path):
    source, out = FIXTURES / "archives" / "raise_message.pt", tmp_path / "net.pt"
    done = run("convert", source, out, "--for-torch", "1.10")
    assert done.exit_code == 0
    line = "1 call of prim::RaiseException written as prim::RaiseException"
    assert line in done.stdout.splitlines()
    rewritten = document("convert", source, out, "--for-torch", "1.10.2")["rewritten"]
    operator = "prim::RaiseException"
    assert rewritten == [{"operator": operator, "written_as": [operator], "count": 1}]
    assert document("convert", source, out)["rewritten"] == []


def test_removed_operators_are_named(tmp_path):
    done = run("convert", FIXTURES / "removed" / "1.8.pt", tmp_path / "net.pt")
    assert done.exit_code == 0
    assert "call of aten::" in done.stdout


def test_operators_on_tensors_are_named_alone(tmp_path):
    """The document names all."""
    source = FIXTURES / "old" / "1.8.1" / "phone_lite.ptl"
    lines = run("convert", source, tmp_path / "net.pt").stdout.splitlines()
    assert "written as aten::conv2d, aten::clamp, aten::contiguous" in str(lines)
    assert lines[-1].startswith("the bytecode is left out")
    found = document("convert", source, tmp_path / "net.pt")
    assert any("aten::dim" in calls["written_as"] for calls in found["rewritten"])
    assert "bytecode.pkl" in found["left_out"]
    plain = source.with_name("phone_plain_lite.ptl")
    assert document("convert", plain, tmp_path / "net.pt")["left_out"] == []


def test_calls_that_need_no_operator_are_named(tmp_path):
    source = FIXTURES / "old" / "1.8.1" / "phone_packing.pt"
    lines = run("convert", source, tmp_path / "net.pt").stdout.splitlines()
    line = "1 call of prepacked::linear_clamp_prepack written as code without operators"
    assert line in lines
    assert not [line for line in lines if line.endswith(" ")]


def test_bytecode_is_not_made(tmp_path):
    found = error("convert", SEQUENTIAL, tmp_path / "net.ptl")
    assert "_save_for_lite_interpreter makes it" in found["hint"]


def _write_forward(path, body):
    """Write a module of one method, ``forward(x)``."""
    records = records_of((FIXTURES / "archives" / "script_function.pt").read_bytes())
    name = "code/__torch__.py"
    head = records[name].decode().partition("  def ")[0]
    owner = "__torch__.PlaceholderModule"
    text = f"{head}  def forward(self: {owner}, x: Tensor) -> Tensor:\n{body}"
    records = {n: data for n, data in records.items() if not n.endswith(("debug_pkl", "_id"))}
    write_container(path, [NewRecord(n, d) for n, d in {**records, name: text.encode()}.items()])


def test_calls_that_only_raise(tmp_path):
    source, out = tmp_path / "net.pt", tmp_path / "new.pt"
    code = (
        "    if self.training:\n"
        "      y = torch._upsample_lanczos2d_aa(x, None, False, [2., 2.])\n"
        "    else:\n"
        "      y = x\n"
        "    return y\n"
    )
    _write_forward(source, code)
    done = run("convert", source, out, "--for-torch", "2.9")
    call = "1 call of aten::_upsample_lanczos2d_aa.vec, which torch 2.9 lacks"
    assert f"{call}, raises an error when it is reached" in done.stdout.splitlines()


def test_what_another_torch_cannot_read_is_named_by_line(tmp_path):
    source, out = FIXTURES / "archives" / "with_profiler.pt", tmp_path / "net.pt"
    done = run("convert", source, out, "--for-torch", "1.9")
    assert done.exit_code == 1
    assert "code/__torch__/torch/autograd/profiler.py:10: torch 1.9 has no operator" in done.stdout
    assert "torch 1.12 is the first that can" in done.stdout
    found = document("convert", source, out, "--for-torch", "1.9", code=1)
    assert found["file"] == str(source)
    assert [one["line"] for one in found["obstacles"]] == [10, 31, 61]
    keys = {"record", "line", "operator", "reason", "since", "construct"}
    assert all(one.keys() == keys for one in found["obstacles"])
    assert not out.exists()


def test_unknown_versions_of_torch(tmp_path):
    found = error("convert", SEQUENTIAL, tmp_path / "net.pt", "--for-torch", "3.1")
    assert "torch 3.1" in found["message"]
    assert found["hint"] == "Give a version from 1.4 to 2.15, such as 2.9"
    found = error("convert", SEQUENTIAL, tmp_path / "net.pt2", "--for-torch", "2.9")
    assert found["hint"] == "Leave out --for-torch"


def test_extra_files_that_are_left_out_are_named(tmp_path):
    source, target = tmp_path / "net.pt", tmp_path / "same.pt"
    module = torch.jit.script(torch.nn.Linear(1, 1))
    torch.jit.save(module, source, _extra_files={"meta.json": "{}"})
    assert "extra files" not in run("convert", source, target).stdout
    assert (
        "extra files are left out: meta.json"
        in run("convert", source, target, "--canonical").stdout
    )
    done = document("convert", source, target, "--canonical")
    assert done["extra_files_left_out"] == ["meta.json"]
