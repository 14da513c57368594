"""Hints of the library, as commands give them: in options, not in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.archives import FIXTURES
from tests.support.command_line import SEQUENTIAL, document, error
from tsarchive import Policy
from tsarchive.describing.text import in_commands
from tsarchive.operators.libraries import what_registers

NMS = Policy.default().allow("torchvision::nms")


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (f"Do that: policy={NMS!r}", "Do that: --allow torchvision::nms"),
        (f"policy={NMS.allow('a::*')!r}", "--allow 'a::*' --allow torchvision::nms"),
        (what_registers("torchvision::nms"), "It comes with a library: give --import torchvision"),
        ("Say which one: model='a b'", "Say which one: --model 'a b'"),
        ("Load with map_location='cpu'", "Load with --map-location 'cpu'"),
        ("Leave out the argument model", "Leave out --model"),
        ("Leave out the argument map_location", "Leave out --map-location"),
        ("Leave out the argument dynamic_shapes", "Leave out --dynamic"),
        ("Leave out the argument backends", "Leave out --backend"),
        ("Write into it with force=True", "Write into it with --force"),
        ("Limits(seconds=...) sets the budget", "--max-seconds sets the budget"),
        ("Limits(nbytes=...) sets the budget", "--max-bytes sets the budget"),
        ("Pack the archive again", "Pack the archive again"),
    ],
)
def test_words(hint, words):
    assert in_commands(hint) == words


@pytest.mark.parametrize("name", ["mine::twice", "__backends__::run", "torchvision::nms"])
def test_libraries_are_given_as_an_option(name):
    shown = in_commands(what_registers(name))
    assert "--import" in shown
    assert "torch.ops" not in shown


SCRIPTED, EXPORTED = Path(SEQUENTIAL), FIXTURES / "pt2" / "linear.pt2"
PROGRAM, DATA = FIXTURES / "executorch" / "add.pte", FIXTURES / "executorch" / "data.ptd"
# A command with an option that is for files of another kind; the end of the message.
MISFITS = {
    ("code", PROGRAM, "--map-location", "cpu"): "this is a program of ExecuTorch",
    ("code", EXPORTED, "--map-location", "cpu"): "this is a PT2 archive of torch.export",
    ("code", SCRIPTED, "--sources"): "this is a TorchScript archive",
    ("code", SCRIPTED, "--model", "m"): "this is a TorchScript archive",
    ("tree", PROGRAM, "--model", "m"): "this is a program of ExecuTorch",
    ("tensors", SCRIPTED, "--model", "m"): "this is a TorchScript archive",
    ("run", PROGRAM, "--model", "m"): "this is a program of ExecuTorch",
    ("run", SCRIPTED, "--data", DATA): "this is a TorchScript archive",
    ("run", SCRIPTED, "--bundled"): "this is a TorchScript archive",
    ("run", PROGRAM, "--bundled"): "this is a program of ExecuTorch",
    ("jitter", PROGRAM, "--canonical"): "this is a program of ExecuTorch",
    ("convert", SCRIPTED, "net.pt", "--model", "m"): "this is a TorchScript archive",
    ("convert", SCRIPTED, "net.pt", "--data", "a.ptd"): "have data beside them",
    ("convert", SCRIPTED, "net.pt", "--backend", "xnnpack"): "have parts for backends",
    ("convert", SCRIPTED, "net.pte", "--map-location", "cpu"): "run on the CPU alone",
}


@pytest.mark.parametrize("line", MISFITS, ids=lambda line: " ".join(Path(p).name for p in line))
def test_an_option_that_does_not_fit_the_file_is_to_be_left_out(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = document(*line, code=2)
    facts = found["files"][0]["error"] if line[0] == "jitter" else found["error"]
    assert facts["message"].endswith(MISFITS[line])
    option = next(part for part in line if str(part).startswith("--"))
    assert (facts["hint"], facts["record"]) == (f"Leave out {option}", None)


def test_no_record_is_named_where_the_file_is_of_another_kind(tmp_path):
    found = error("decompile", EXPORTED, "-o", tmp_path / "package")
    assert found["message"] == "not a TorchScript archive, but a PT2 archive of torch.export"
    assert found["record"] is None
