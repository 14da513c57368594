"""Stub files: what type checkers and people see of the classes of an archive."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
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
    done = checked(tmp_path, "--strict", *(f"{path.stem}.pyi" for path in ARCHIVES))
    assert done.returncode == 0, done.stdout


def checked(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", ["pt2/extra_files.pt2", "executorch/linear.pte"])
def test_files_without_classes_are_refused(path):
    with pytest.raises(UnsupportedError, match="TorchScript"):
        tsarchive.stub(FIXTURES / path)
