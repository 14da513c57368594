"""``tsarchive diff`` with inputs: both models run."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch import Tensor, nn

from tests.support.archives import saved
from tests.support.command_line import document, run


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(2, 2)
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.head(self.body(x)) * scale


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    module = Net()
    paths = [str(folder / name) for name in ("before.pt", "after.pt", "input.npy")]
    for path in paths[:2]:
        with open(path, "wb") as stream:
            stream.write(saved(torch.jit.script(module)))
        with torch.no_grad():
            module.head.bias.add_(0.5)
    numpy.save(paths[2], numpy.ones((3, 2), numpy.float32))
    return paths


def test_the_first_module_is_told(files):
    before, after, given = files
    for inputs in (
        ["--run", given],
        ["--random", "x=3x2", "--arg", "scale=2.0"],
        ["--run", given, "--arg", "2.0"],
    ):
        result = run("diff", before, after, *inputs)
        assert result.exit_code == 1
        assert (
            "the first other result is that of head, torch.nn.modules.linear.Linear"
            in result.stdout
        )
        found = document("diff", before, after, *inputs, code=1)["divergence"]
        assert (found["where"], found["class_name"]) == ("head", "torch.nn.modules.linear.Linear")
        assert found["values"]["max_absolute"] == pytest.approx(0.5)
        assert found["source"]["text"] == "return self.head(self.body(x)) * scale"


def test_results_within_the_tolerance_are_the_same(files):
    before, after, given = files
    found = document("diff", before, after, "--run", given, "--atol", "1", code=1)
    assert found["divergence"] is None
    result = run("diff", before, before, "--run", given)
    assert result.exit_code == 0
    assert "both give the same results" in result.stdout


def test_nothing_runs_without_inputs(files):
    before, after, given = files
    assert document("diff", before, after, code=1)["divergence"] is None
    result = run("diff", before, after, given)
    assert result.exit_code == 2
    assert "third file" in result.stderr


def test_what_cannot_run_is_an_error(files):
    before, after, _ = files
    for inputs in (["--random", "3x5"], ["--random", "none"], ["--run", "missing.npy"],
                   ["--random", "3x2", "--method", "predict"],
                   ["--random", "3x2", "--max-steps", "0"]):  # fmt: skip
        assert run("diff", before, after, *inputs).exit_code == 2, inputs
    assert run("diff", before).exit_code == 2
    assert run("diff").exit_code == 2


@pytest.mark.filterwarnings("error")
def test_a_model_is_no_input(files):
    before, after, _ = files
    result = run("diff", before, after, "--run", before)
    assert result.exit_code == 2
    assert "is a model, not inputs" in result.stderr
    assert "weights_only" not in result.stderr


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (2.0, 1)])
def test_results_alone_decide_where_nothing_else_is_compared(files, factor, code, monkeypatch):
    """As of two formats whose tensors have no name in common."""
    before, after, given = files
    after = before if factor == 1.0 else after
    monkeypatch.setattr("tsarchive.diffing.comparison._Comparison._is_comparable", lambda *_: False)
    assert run("diff", before, after, "--only", "extra", "--run", given).exit_code == code
    assert run("diff", before, after, "--only", "extra").exit_code == 2


def test_distances_that_are_not_finite_are_null(tmp_path):
    paths = [str(tmp_path / name) for name in ("before.pt", "after.pt")]
    for path, value in zip(paths, (1.0, float("nan")), strict=True):
        torch.save({"a": torch.tensor([1.0, value])}, path)
    (change,) = document("diff", *paths, code=1)["changes"]
    values = change["values"]
    assert (values["max_absolute"], values["norm"], values["became_nan"]) == (None, None, 1)
    result = run("diff", *paths)
    assert "tensor values a: 1 of 2 (50.00%) differ, 1 became NaN" in result.stdout
