"""Decompiled packages run, in processes without tsarchive, as torch.jit runs the archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tsarchive
from tests.support.archives import CORPUS, case_archive
from tests.support.processes import torch_output_of

# What has no form in Python.
UNTRANSLATABLE = {"container_tests"}
PATHS = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []
# Their results depend on which unused code of a called function torch.jit removes.
DEAD_PARTS = ("jizhuoran-EasyFHE__spectral_ops",)


def run(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """What differs, by package, from a process that imports neither tsarchive nor safetensors."""
    command = ("-m", "tests.decompiler.decompiled_child", folder, *names)
    printed = torch_output_of(*command, cwd=folder, env={"PYTHONSAFEPATH": "1"})
    document = json.loads(printed.splitlines()[-1])
    assert document["imported"] == []
    return document["differences"]


def arguments_of(request, function) -> list:
    """The arguments of all items of a test function that run in this session."""
    items = [item for item in request.session.items if item.function is function]
    return [next(iter(item.callspec.params.values())) for item in items]


@pytest.fixture(scope="module")
def differences(request, tmp_path_factory):
    """Of all cases together: a process for each would take long to start."""
    folder = tmp_path_factory.mktemp("decompiled")
    names = []
    for case in arguments_of(request, test_case):
        archive = folder / f"{case.name}.pt"
        archive.write_bytes(case_archive(case))
        if case.name not in UNTRANSLATABLE:
            tsarchive.decompile(archive, folder / case.name)
            names.append(case.name)
    return run(folder, names)


@pytest.mark.sample(3)
def test_case(case, differences, tmp_path):
    if case.name not in UNTRANSLATABLE:
        assert differences[case.name] == []
        return
    archive = tmp_path / "case.pt"
    archive.write_bytes(case_archive(case))
    with pytest.raises(tsarchive.UnsupportedError, match="isinstance"):
        tsarchive.decompile(archive, tmp_path / "package")


@pytest.fixture(scope="module")
def archive_differences(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decompiled_archives")
    names = []
    for path in arguments_of(request, test_archive_of_the_corpus):
        number = PATHS.index(path)
        if loads(path):
            tsarchive.decompile(path, folder / f"archive_{number}")
            names.append(f"archive_{number}={path}")
    found = run(folder, names)
    return {PATHS[int(name.rpartition("_")[2])]: differences for name, differences in found.items()}


def loads(path: Path) -> bool:
    """Whether torch.jit and tsarchive have what the archive needs."""
    try:
        torch.jit.load(path, map_location="cpu")
        tsarchive.load(path, map_location="cpu")
    except (RuntimeError, tsarchive.ArchiveError):
        return False
    return True


@pytest.mark.sample(3)
@pytest.mark.skipif(not PATHS, reason="the corpus of real archives is not beside the repository")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_archive_of_the_corpus(path, archive_differences):
    if path.name.startswith(DEAD_PARTS):
        pytest.skip("the results depend on which code is removed")
    if path not in archive_differences:
        pytest.skip("the archive needs what is not installed")
    assert archive_differences[path] == []
