"""Decompiled packages run, in processes without tsarchive, as torch.jit runs the archives."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import tsarchive
from tests.support.archives import CORPUS, case_archive, torch_saved
from tests.support.processes import torch_output_of

BATCH = 24
# What has no form in Python.
UNTRANSLATABLE = {"container_tests"}
# benchmarks/decompiling.py goes through all of them.
PATHS = sorted((CORPUS / "torchscript").glob("*"))[::6] if CORPUS.is_dir() else []
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


def by_batch(items: list, differences: Callable[[list], Mapping]) -> Callable[[Any], Mapping]:
    """What gives the differences of an item and of those about it: there are many of them, and a
    process for each would take long to start."""

    @cache
    def of_batch(number: int) -> Mapping:
        return differences(items[number * BATCH : (number + 1) * BATCH])

    return lambda item: of_batch(items.index(item) // BATCH)


@pytest.fixture(scope="module")
def differences(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decompiled")

    def of(cases: list) -> dict[str, list[str]]:
        names = []
        for case in cases:
            archive = folder / f"{case.name}.pt"
            archive.write_bytes(case_archive(case))
            if case.name not in UNTRANSLATABLE:
                tsarchive.decompile(archive, folder / case.name)
                names.append(case.name)
        return run(folder, names)

    return by_batch(arguments_of(request, test_case), of)


@pytest.mark.sample(3)
def test_case(case, differences, tmp_path):
    if case.name not in UNTRANSLATABLE:
        assert differences(case)[case.name] == []
        return
    archive = tmp_path / "case.pt"
    archive.write_bytes(case_archive(case))
    with pytest.raises(tsarchive.UnsupportedError, match="isinstance"):
        tsarchive.decompile(archive, tmp_path / "package")


class Indexed(torch.nn.Module):
    """Indexes tensors that other subscripts give."""

    def forward(
        self, rows: dict[str, torch.Tensor], parts: list[torch.Tensor], at: torch.Tensor
    ) -> torch.Tensor:
        return rows["first"][at] + parts[1][at] + parts[0][:, at].sum()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """What imports the package that a scripted module becomes."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(scripted, name: str):
        tsarchive.decompile(io.BytesIO(torch_saved(scripted)), tmp_path / name)
        return importlib.import_module(name)

    return of


def test_tensors_that_subscripts_give_are_indexed(package):
    scripted = torch.jit.script(Indexed())
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    given = {"first": x, "second": y}, [x, y], torch.tensor([2, 0])
    assert torch.equal(package(scripted, "indexed").load()(*given), scripted(*given))


def test_slots_may_have_names_that_are_no_names_in_python(package):
    """Passes of torch name packed weights like this."""

    class Dotted(Indexed):  # of its own: what is registered is so for all modules of a class
        pass

    scripted = torch.jit.script(Dotted())
    scripted._c._register_attribute("packed.numbers", torch._C.ListType.ofInts(), [3])
    loaded = package(scripted, "dotted").load()
    assert loaded.packed_numbers == [3]


@pytest.fixture(scope="module")
def archive_differences(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decompiled_archives")

    def of(paths: list[Path]) -> dict[Path, list[str]]:
        names = []
        for path in filter(loads, paths):
            number = PATHS.index(path)
            tsarchive.decompile(path, folder / f"archive_{number}")
            names.append(f"archive_{number}={path}")
        found = run(folder, names)
        return {PATHS[int(name.rpartition("_")[2])]: value for name, value in found.items()}

    return by_batch(arguments_of(request, test_archive_of_the_corpus), of)


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
    found = archive_differences(path)
    if path not in found:
        pytest.skip("the archive needs what is not installed")
    assert found[path] == []
