"""``tsarchive optimize``."""

from __future__ import annotations

import os

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tsarchive
from tests.support.command_line import document, error, run
from tests.support.processes import torch_process
from tsarchive import optimizing
from tsarchive.cli.optimize import command


@pytest.fixture
def net(tmp_path):
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Dropout()
    path = tmp_path / "net.pt"
    tsarchive.save(torch.jit.script(torch.nn.Sequential(*layers).eval()), path)
    return path


def test_with_an_example(net, tmp_path):
    out = tmp_path / "fast.pt"
    found = document("optimize", net, "--random", "1x3x8x8", "-o", out)
    assert found.keys() == {
        "file", "out", "done", "left", "seconds_before", "seconds_after", "difference",
    }  # fmt: skip
    counts = {change["what"]: change["count"] for change in found["done"]}
    assert (counts["batch normalization"], counts["dropout"]) == (1, 1)
    x = torch.randn(1, 3, 8, 8)
    assert torch.allclose(torch.jit.load(out)(x), torch.jit.load(net)(x), atol=1e-5)


def test_text(net, tmp_path):
    out = tmp_path / "fast.pt"
    shown = run("optimize", net, "--random", "1x3x8x8", "-o", out).stdout
    assert "batch normalization: 1" in shown
    assert "a call takes" in shown
    shown = run("optimize", net, "-o", out).stdout
    assert "nothing was measured" in shown


def test_a_layer_is_not_called_as_quick_where_nothing_was_measured(tmp_path):
    path, out = tmp_path / "net.pt", tmp_path / "fast.pt"
    tsarchive.save(torch.jit.script(torch.nn.Linear(2, 2).eval()), path)
    shown = run("optimize", path, "-o", out).stdout
    assert "left as it is: linear layer, as no example was measured: 1" in shown


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        if x.size(0) > 2:
            return self.one(x)
        return self.other(x)


def test_a_layer_that_the_example_does_not_reach(tmp_path):
    path, out = tmp_path / "net.pt", tmp_path / "fast.pt"
    tsarchive.save(torch.jit.script(Branches().eval()), path)
    shown = run("optimize", path, "--random", "1x8", "-o", out).stdout
    assert "left as it is: linear layer, not reached by the example: 1\n" in shown
    assert "no example was measured" not in shown


@pytest.mark.skipif(
    not hasattr(TorchDispatchMode, "_should_skip_dynamo"), reason="modes of this torch import it"
)
def test_code_that_asks_nothing_needs_no_compiler_of_torch(tmp_path):
    net, x = tmp_path / "net.pt", torch.randn(1, 3, 8, 8)
    tsarchive.save(torch.jit.trace(torch.nn.Conv2d(3, 4, 3).eval(), x), net)
    code = (
        "import sys; from tsarchive.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('torch._dynamo' in sys.modules, file=sys.stderr)"
    )
    arguments = "optimize", net, "--random", "1x3x8x8", "-o", tmp_path / "fast.pt"
    done = torch_process("-c", code, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.split()[-1]) == (0, "False")


def test_refusals(net, tmp_path):
    assert "-o" in error("optimize", net)["message"]
    out = tmp_path / "fast.pt"
    message = error("optimize", net, "--arg", "x=1", "-o", out)["message"]
    assert "no keyword arguments" in message
    assert not out.exists()


def test_the_source_is_not_replaced_unasked(net, tmp_path):
    before, link = net.read_bytes(), tmp_path / "link.pt"
    os.link(net, link)
    for out in (net, link):
        told = error("optimize", net, "-o", out)
        assert "would replace the file that it is made from" in told["message"]
        assert "--force" in told["hint"]
    assert net.read_bytes() == before
    assert run("optimize", net, "-o", net, "--force").exit_code == 0
    assert net.read_bytes() != before


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (["--random", "1x5x8x8"], "the model raised RuntimeError"),
        (["--arg", "3"], "expects a value of type 'Tensor'"),
        (["--random", "1x3x8x8", "--random", "1"], "forward"),
    ],
)
def test_an_example_that_the_model_does_not_take(net, tmp_path, example, message):
    out = tmp_path / "fast.pt"
    told = error("optimize", net, *example, "-o", out)
    assert message in told["message"]
    assert "INPUTS" in told["hint"]
    assert not out.exists()


def test_errors_that_are_not_of_the_model(net, tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise IndexError("not of the model")

    monkeypatch.setattr(optimizing, "_optimized", broken)
    arguments = [str(net), "--random", "1x3x8x8", "-o", str(tmp_path / "fast.pt")]
    with pytest.raises(SystemExit):
        command.main(arguments)
    shown = capsys.readouterr().err
    assert "defect of tsarchive" in shown
    assert "the model raised" not in shown
