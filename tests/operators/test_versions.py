"""Versions of torch: which were tried, which have an operator, and what is said of others."""

from __future__ import annotations

from importlib import metadata

import pytest

from tests.support.archives import ARCHIVES, TORCH
from tests.support.command_line import run
from tests.support.fresh_registry import NAMES_OF_TORCH
from tests.support.processes import torch_process
from tsarchive.cli.command import describe
from tsarchive.operators import registry
from tsarchive.operators.libraries import what_registers
from tsarchive.operators.registry import (
    installed_torch,
    known_operators,
    require_torch,
    tried_versions,
    untried_torch,
    versions_with,
)


@pytest.fixture
def newer(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda _: "99.1.0+cpu")
    installed_torch.cache_clear()
    yield
    installed_torch.cache_clear()


SENTENCE = f"torch 99.1.0+cpu is newer than {tried_versions()[-1]}, the newest that"


def test_the_versions_of_this_torch_are_those_of_its_registry():
    here = ".".join(map(str, TORCH))
    if here not in tried_versions():
        pytest.skip(f"torch {here} was not tried")
    at = tried_versions().index(here)
    for name in {name.partition(".")[0] for name in NAMES_OF_TORCH}:
        if name.startswith("_native::"):
            continue  # numbered by how many such kernels there are for this Python and processor
        first, last = map(tried_versions().index, known_operators()[name])
        assert first <= at <= last, name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aten::add.Tensor", "torch 2.6 to 2.15"),
        ("aten::cholesky", "torch 2.6 to 2.13"),
        ("aten::_philox_randint", "torch 2.15"),
        ("aten::solve.solution", "torch 1.4 to 1.11"),
        ("nobody::has_it", None),
    ],
)
def test_versions_are_told_by_name(name, text):
    assert versions_with(name) == text


def test_an_unknown_operator_names_the_versions_that_have_it():
    others = {name for name in known_operators() if not registry.is_of_another_build(name)}
    name = min(others)
    assert what_registers(name).startswith(f"{versions_with(name)} has it")
    assert "torch 99" not in what_registers("aten::nobody")


def test_a_newer_torch_is_told_where_it_may_explain_an_error(newer):
    assert untried_torch().startswith(SENTENCE)
    assert SENTENCE in what_registers("aten::nobody")
    assert SENTENCE in describe(ZeroDivisionError())["hint"]
    assert SENTENCE in run("--version").stdout
    assert run("info", ARCHIVES / "sequential.pt").exit_code == 0


def test_versions_are_shown():
    first, second = run("--version").stdout.splitlines()
    assert first.startswith("tsarchive, version ")
    assert second.endswith(f"torch {metadata.version('torch')}")


@pytest.mark.parametrize("version", ["2.6.0", "2.13.0+cpu", "2.14.0a0+git1", "99.0", "nightly"])
def test_a_torch_is_taken_for_its_number(version):
    require_torch(version)


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1+cu124"])
def test_an_older_torch_is_refused_in_one_sentence(version):
    with pytest.raises(ImportError, match=r"^tsarchive needs torch 2\.6 or later; this is torch"):
        require_torch(version)


def test_the_command_tells_that_torch_is_too_old(tmp_path):
    """In one sentence, and not as a defect of its own."""
    code = (
        "import sys, torch; torch.__version__ = torch.torch_version.TorchVersion('2.5.1')\n"
        "from tsarchive.cli import main; main(sys.argv[1:])"
    )
    done = torch_process("-c", code, "run", ARCHIVES / "sequential.pt", cwd=tmp_path)
    assert done.returncode == 2
    assert "tsarchive needs torch 2.6 or later; this is torch 2.5.1" in done.stderr
    assert "defect" not in done.stderr


def test_versions_that_are_too_old_are_told(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda _: "2.5.1")
    installed_torch.cache_clear()
    try:
        assert untried_torch() == "tsarchive needs torch 2.6 or later; this is torch 2.5.1"
    finally:
        installed_torch.cache_clear()


def test_an_operator_of_another_build_is_told_as_that(monkeypatch):
    here = metadata.version("torch")
    number = ".".join(here.split(".")[:2])
    found = {"gpu::synchronize": registry.Span(number, number)}
    monkeypatch.setattr(registry, "span_of", found.get)
    assert what_registers("gpu::synchronize").startswith("Another build of torch has it")
