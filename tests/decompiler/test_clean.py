"""Packages are clean: ruff finds nothing, formats nothing, and mypy has no errors, by default."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import tsarchive
from tests.decompiler.test_decompile import arguments_of, by_batch
from tests.support.archives import ARCHIVES

PATHS = sorted(path for path in ARCHIVES.glob("*.pt") if not path.name.endswith(".io.pt"))
# Types that Python's checkers do not follow as TorchScript does: unions that are narrowed,
# variables of several types, classes behind interfaces, and ``__eq__`` of one class.
UNTYPED = {
    "class_interface", "class_operators", "odd_names", "optional_literal", "optional_refinement",
    "to_list", "union_of_two", "with_profiler",
}  # fmt: skip


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
    errors = types(path)
    assert bool(errors) == (path.stem in UNTYPED), errors
