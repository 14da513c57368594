"""``--allow`` and ``--trust`` of the commands that run code of files."""

from __future__ import annotations

import pytest
import torch

from tests.support.archives import torch_saved
from tests.support.command_line import error, run
from tests.support.registry_calls import archive_of

CODE = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  def forward(self: __torch__.M) -> Tensor:
    return torch.from_file("written", True, 4)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.pt").write_bytes(archive_of(CODE))
    return "model.pt"


@pytest.mark.parametrize(
    "options",
    [("--allow", "aten::from_file"), ("--allow", "aten::*"), ("--trust",),
     ("--allow", "aten::save", "--allow", "aten::from_file")],
)  # fmt: skip
def test_what_is_allowed_runs(file, tmp_path, options):
    run("run", file, *options)
    assert (tmp_path / "written").exists()


@pytest.mark.parametrize("options", [(), ("--allow", "aten::save"), ("--allow", "mylib.Class")])
def test_what_is_not_allowed_is_refused(file, tmp_path, options):
    facts = error("run", file, *options)
    assert facts["type"] == "PolicyError"
    assert "aten::from_file" in facts["message"]
    assert (facts["record"], facts["line"]) == ("code/__torch__.py", 5)
    assert "with that: --allow" in facts["hint"]
    assert "--allow aten::from_file" in facts["hint"]
    assert "Policy" not in facts["hint"]
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("command", ["run", "jitter", "decompile"])
def test_a_malformed_name_is_told(file, command):
    more = ("-o", "package") if command == "decompile" else ()
    facts = error(command, file, *more, "--allow", "torchvision.nms")
    assert "torchvision::nms" in facts["message"]


class AtLoad(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> bool:
        return self.training

    @torch.jit.export
    def __setstate__(self, state: bool) -> None:
        self.training = state
        torch.manual_seed(3)


@pytest.mark.parametrize("command", ["run", "jitter", "decompile"])
def test_what_loading_runs_obeys(tmp_path, command):
    path = tmp_path / "model.pt"
    path.write_bytes(torch_saved(torch.jit.script(AtLoad())))
    more = {"run": ("--random", "2"), "decompile": ("-o", tmp_path / "made")}.get(command, ())
    arguments = (command, path, *more)
    if command == "jitter":
        assert "aten::manual_seed" in run(*arguments).stderr
    else:
        assert error(*arguments)["type"] == "PolicyError"
    run(*arguments, "--allow", "aten::manual_seed")
