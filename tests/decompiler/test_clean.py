"""Packages are clean: ruff finds nothing, formats nothing, and mypy has no errors, by default."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import nn

import tsarchive
from tests.decompiler.test_decompile import arguments_of, by_batch
from tests.support.archives import ARCHIVES, torch_saved

PATHS = sorted(path for path in ARCHIVES.glob("*.pt") if not path.name.endswith(".io.pt"))


def tool(*arguments: object, folder: Path) -> list[str]:
    """The lines that a tool prints, with its defaults and nothing of this project's settings."""
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_findings_are_told_by_package(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "untidy.py").write_text("import os\nx = [1,2]\n")
    for command in (("check", "--output-format", "concise"), ("format", "--check")):
        lines = tool("ruff", *command, "--isolated", "--no-cache", "package", folder=tmp_path)
        assert by_package(lines, ["package"])["package"], command


def by_package(lines: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """What is said of each package: the first name in a line is that of its folder."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for line in lines:
        match = re.match(r"(?:Would reformat: | *--> )?(\w+)/", line)
        if match is not None:
            found[match[1]].append(line)
    return found


def checked(request, tmp_path_factory, function, findings) -> Callable[[Path], list[str]]:
    """What gives the findings in the package of an archive, and of those about it."""
    folder = tmp_path_factory.mktemp("clean")

    def of(paths: list[Path]) -> dict[Path, list[str]]:
        for path in paths:
            tsarchive.decompile(path, folder / path.stem)
        found = by_package(findings(folder, [path.stem for path in paths]), map(stem, paths))
        return {path: found[path.stem] for path in paths}

    batch = by_batch(arguments_of(request, function), of)
    return lambda path: batch(path)[path]


def stem(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module")
def style(request, tmp_path_factory):
    def findings(folder: Path, names: list[str]) -> list[str]:
        given = ("--isolated", "--no-cache", *names)
        found = tool("ruff", "check", "--output-format", "concise", *given, folder=folder)
        return found + tool("ruff", "format", "--check", *given, folder=folder)

    return checked(request, tmp_path_factory, test_style, findings)


@pytest.fixture(scope="module")
def types(request, tmp_path_factory):
    pytest.importorskip("mypy")

    def findings(folder: Path, names: list[str]) -> list[str]:
        found = tool("mypy", "--config-file", "", *names, folder=folder)
        return [line for line in found if ": error:" in line]

    return checked(request, tmp_path_factory, test_types, findings)


@pytest.mark.sample(6)
@pytest.mark.parametrize("path", PATHS, ids=stem)
def test_style(path, style):
    assert style(path) == []


@pytest.mark.long("test_style")
@pytest.mark.parametrize("path", PATHS, ids=stem)
def test_types(path, types):
    assert types(path) == []


class Layer(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.parts = nn.ModuleList([nn.ModuleList([nn.Linear(size, 2), nn.Tanh()])])

    def grown(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.parts[0][0].weight.sum()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts[0][1](self.parts[0][0](x))


class Stack(nn.Module):
    """Holds what type checkers know the least of: containers of modules, and what may be None."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(2), Layer(2)])

    def forward(self, x: torch.Tensor, box: torch.Tensor | None) -> tuple[torch.Tensor, int]:
        for layer in self.layers:
            x = layer.grown(layer(x))
        if box is not None:
            moved = box.to(x.device, non_blocking=True)
            moved = moved.reshape(-1)
        else:
            moved = None
        count = torch.tensor([2, 3])[0]
        number = int(count)
        return (x if moved is None else x + moved), number


def test_modules_in_containers_have_types(tmp_path):
    pytest.importorskip("mypy")
    data, told = io.BytesIO(torch_saved(torch.jit.script(Stack()))), []
    tsarchive.decompile(data, tmp_path / "stack", step=told.append)
    assert any("modules with torch.nn" in step for step in told)
    found = tool("mypy", "--config-file", "", "stack", folder=tmp_path)
    assert found[-1].startswith("Success"), found
