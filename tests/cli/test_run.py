"""``tsarchive run``."""

from __future__ import annotations

import json

import numpy
import pytest
import torch

from tests.support.archives import ARCHIVES
from tests.support.command_line import SEQUENTIAL, document, error, run
from tests.support.processes import torch_process
from tsarchive.demo.comparison import compare

KEYS = {"file", "method", "inputs", "output", "seconds", "written"}
CASES = (
    "sequential", "named_tuple", "dict_methods", "list_methods", "nested_types", "many_results",
    "plain_attributes", "string_split", "optional_refinement", "trace_dict", "script_function",
    "quantized_static_linear",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_torch(name, tmp_path):
    call = torch.load(ARCHIVES / f"{name}.io.pt", weights_only=True)["forward"][0]
    given, out = tmp_path / "inputs.pt", tmp_path / "output.pt"
    torch.save(tuple(call["args"]), given)
    found = document("run", ARCHIVES / f"{name}.pt", given, "--out", out)
    assert found.keys() == KEYS
    assert (found["method"], found["written"]) == ("forward", str(out))
    assert len(found["inputs"]) == len(call["args"])
    assert compare(torch.load(out, weights_only=True), call["expected"]).equal


def test_another_method(tmp_path):
    calls = torch.load(ARCHIVES / "exported_methods.io.pt", weights_only=True)["scaled"]
    torch.save(calls[1]["args"][0], tmp_path / "x.pt")
    out = tmp_path / "y.pt"
    args = (tmp_path / "x.pt", "--arg", calls[1]["args"][1], "--method", "scaled", "--out", out)
    assert document("run", ARCHIVES / "exported_methods.pt", *args)["method"] == "scaled"
    assert compare(torch.load(out, weights_only=True), calls[1]["expected"]).equal


def test_the_same_seed_gives_the_same_output():
    first, second, other = (
        document("run", SEQUENTIAL, "--random", "2x3", "--seed", seed) for seed in (1, 1, 2)
    )
    assert first["output"] == second["output"] != other["output"]


def test_text_shows_inputs_and_output():
    shown = run("run", SEQUENTIAL, "--random", "2x3").stdout.splitlines()
    assert shown[0].startswith("input 0: float32 2x3, min ")
    assert shown[1].startswith("output: float32 2x2, min ")
    assert shown[2].startswith("forward took ")


@pytest.mark.parametrize("suffix", ["npy", "npz", "pt"])
def test_out(suffix, tmp_path):
    out = tmp_path / f"y.{suffix}"
    found = document("run", SEQUENTIAL, "--random", "x=2x3", "--out", out)
    read = {
        "npy": numpy.load,
        "npz": lambda path: numpy.load(path)["output"],
        "pt": lambda path: torch.load(path, weights_only=True).numpy(),
    }[suffix]
    assert read(out).ravel().tolist() == found["output"]["first"]
    assert f"written to {out}" in run("run", SEQUENTIAL, "--random", "2x3", "--out", out).stdout


def test_out_npz_names_the_places(tmp_path):
    call = torch.load(ARCHIVES / "named_tuple.io.pt", weights_only=True)["forward"][0]
    torch.save(tuple(call["args"]), tmp_path / "in.pt")
    run("run", ARCHIVES / "named_tuple.pt", tmp_path / "in.pt", "--out", tmp_path / "y.npz")
    with numpy.load(tmp_path / "y.npz", allow_pickle=False) as arrays:
        assert all(name.startswith("output.") for name in arrays.files)
        assert len(arrays.files) == len(call["expected"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "'x'"),
        (["--random", "2x3", "--random", "2x3"], "forward"),
        (["--arg", "3"], "forward"),
        (["--arg", "y=3"], "'y'"),
        (["--random", "2x4"], "mat1 and mat2 shapes cannot be multiplied"),
        (["--method", "train"], "it has: forward"),
        (["--map-location", "nowhere"], "'nowhere'"),
        (["--map-location", "cuda:77"], "cannot use the device 'cuda:77'"),
        (["--random", "2y3"], "'2y3' is not SHAPE"),
        (["--arg", "text"], "not a Python literal"),
        (["--random", "2x3", "--out", "y.txt"], "endings"),
        (["--random", "2x3", "--out", "nowhere/y.pt"], "does not exist"),
        (["nothing.npy"], "nothing.npy"),
        (["picture.png"], "endings"),
    ],
)
def test_what_cannot_be_run(args, message):
    assert message in error("run", SEQUENTIAL, *args)["message"]


@pytest.mark.parametrize("args", [[], ["--arg", "3"], ["--arg", "y=3"]])
def test_a_wrong_call_is_told_how_to_give_arguments(args):
    hint = error("run", SEQUENTIAL, *args)["hint"]
    assert "--arg or --random" in hint
    assert "tree FILE --signatures" in hint


@pytest.mark.parametrize("command", ["run", "code"])
def test_a_folder_is_refused_with_a_hint(command, tmp_path):
    found = error(command, tmp_path)
    assert "Is a directory" in found["message"]
    assert "not a folder" in found["hint"]
    assert found["file"] == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "out", "message"),
    [("many_results", "y.npy", "no tensor"), ("special_floats", "y.npz", "")],
)
def test_outputs_that_a_file_cannot_hold(name, out, message, tmp_path):
    call = torch.load(ARCHIVES / f"{name}.io.pt", weights_only=True)["forward"][0]
    torch.save(tuple(call["args"]), tmp_path / "in.pt")
    result = run("run", ARCHIVES / f"{name}.pt", tmp_path / "in.pt", "--out", tmp_path / out)
    assert result.exit_code == (2 if message else 0)
    assert message in result.stderr


def test_what_the_model_raises_is_an_error_of_the_model():
    found = error("run", ARCHIVES / "raise_message.pt", "--arg", "-1")
    assert found["type"] == "ModelError"
    assert found["message"].startswith("the model raised ")
    assert "raise " in found["origin"]


@pytest.mark.long("test_text_shows_inputs_and_output")
def test_what_the_model_prints_is_not_part_of_the_document(tmp_path):
    class Talks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("hello")
            return x

    torch.jit.save(torch.jit.script(Talks()), str(tmp_path / "talks.pt"))
    args = ("-m", "tsarchive", "run", "talks.pt", "--random", "2", "--json")
    done = torch_process(*args, cwd=tmp_path)
    assert json.loads(done.stdout)["output"]["shape"] == [2]
    assert "hello" in done.stderr


def test_real_models_run(corpus):
    file = corpus / "torchscript" / "pypi-realtime_vad_python-0.1.1__silero_vad.jit"
    found = document("run", file, "--random", "1x512", "--arg", "16000")
    assert found["output"]["shape"] == [1, 1]
    assert 0 <= found["output"]["min"] <= 1
