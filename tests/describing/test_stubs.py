"""Stub files: what type checkers and people see of the classes of an archive."""

from __future__ import annotations

import ast
import inspect
import io
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import FIXTURES, saved
from tsarchive.errors import UnsupportedError

ARCHIVES: Final = sorted(
    path for path in (FIXTURES / "archives").glob("*.pt") if not path.match("*.io.pt")
)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
        self.head = nn.Linear(2, 2)
        self.steps = 3

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> tuple[torch.Tensor, str | None]:
        return self.head(self.body(x)) * scale, None


def stub_of(module: nn.Module) -> str:
    return tsarchive.stub(io.BytesIO(saved(torch.jit.script(module))))


def test_the_classes_of_a_module():
    text = stub_of(Scaled())
    tree = ast.parse(text)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes == ["Scaled", "Sequential", "Linear"]
    lines = [line.strip() for line in text.splitlines()]
    given = "self, x: Tensor, scale: float = 2.0"
    assert f"def forward({given}) -> tuple[Tensor, str | None]: ..." in lines
    assert f"def __call__({given}) -> tuple[Tensor, str | None]: ..." in lines
    assert "steps: int" in lines
    assert "weight: Tensor" in lines


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(x)[0]


def test_overloads_of_forward():
    head, _, body = stub_of(Recurrent()).partition("class GRU(nn.Module):")
    lines = [line.strip() for line in body.splitlines()]
    assert "from typing import overload" in head
    for name in ("forward", "__call__"):
        places = [place for place, line in enumerate(lines) if line.startswith(f"def {name}(")]
        assert len(places) == 2
        assert {lines[place - 1] for place in places} == {"@overload"}


def test_help_tells_overloads_of_forward():
    module = tsarchive.load(io.BytesIO(saved(torch.jit.script(Recurrent()))))
    text = inspect.getdoc(module.cell.forward)
    assert "forward__0(self, input: Tensor, hx: Optional[Tensor] = None)" in text
    assert "forward__1(self, input: __torch__.torch.nn.utils.rnn.PackedSequence" in text


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_methods_are_those_of_the_loaded_module(path):
    body = ast.parse(tsarchive.stub(path)).body
    root = next(node for node in body if isinstance(node, ast.ClassDef))
    told = {node.name: node.args for node in root.body if isinstance(node, ast.FunctionDef)}
    module = tsarchive.load(path, policy=tsarchive.Policy.trusted())
    for name, signature in type(module).tsarchive_methods().items():
        parameters = signature.parameters.values()
        arguments = [*told[name].args, *told[name].kwonlyargs]
        assert [each.arg for each in arguments] == [each.name for each in parameters]
        given = [each for each in (*told[name].defaults, *told[name].kw_defaults) if each]
        assert len(given) == sum(each.default is not each.empty for each in parameters)


def test_what_type_checkers_say(tmp_path):
    (tmp_path / "net_types.pyi").write_text(
        tsarchive.stub(io.BytesIO(saved(torch.jit.script(Scaled()))))
    )
    (tmp_path / "used.py").write_text(
        "import torch\nfrom net_types import Scaled\n\n"
        "def use(net: Scaled) -> None:\n"
        "    reveal_type(net(torch.ones(2, 4)))\n"
        "    net.forward('a')\n"
    )
    done = checked(tmp_path, "used.py")
    assert "tuple[torch._tensor.Tensor, str | None]" in done.stdout
    assert 'Argument 1 to "forward" of "Scaled" has incompatible type "str"' in done.stdout


def test_stubs_of_archives_are_sound(tmp_path):
    for path in ARCHIVES:
        (tmp_path / f"{path.stem}.pyi").write_text(tsarchive.stub(path), encoding="utf-8")
    (tmp_path / "recurrent_cell.pyi").write_text(stub_of(Recurrent()))
    done = checked(tmp_path, "--strict", *(path.name for path in tmp_path.glob("*.pyi")))
    assert done.returncode == 0, done.stdout
    if find_spec("pyright") is not None:
        (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
        command = [sys.executable, "-m", "pyright"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def checked(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", ["pt2/extra_files.pt2", "executorch/linear.pte"])
def test_files_without_classes_are_refused(path):
    with pytest.raises(UnsupportedError, match="TorchScript"):
        tsarchive.stub(FIXTURES / path)
