"""The package around the code: weights, what shares memory, and where it may be written."""

from __future__ import annotations

import ast
import importlib
import io
import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

import tsarchive
from tests.support.archives import ARCHIVES, torch_saved
from tests.support.command_line import document, error, process, run
from tsarchive.operators.python_forms import (
    NON_ZERO_DIVISOR,
    READABLE_FORMS,
    READABLE_STATEMENTS,
    WRAPPING,
)
from tsarchive.run import natives
from tsarchive.run.operators import operator_schemas

ARCHIVE = ARCHIVES / "sequential.pt"


class Sharing(nn.Module):
    """Tied parameters, views of one storage, other layouts and dtypes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        base = torch.arange(12.0)
        self.register_buffer("whole", base)
        self.register_buffer("part", base[2:8].view(2, 3))
        self.register_buffer("turned", torch.arange(6).view(2, 3).t())
        self.register_buffer("low", torch.ones(2, dtype=torch.bfloat16))
        self.register_buffer("wide", torch.ones(2, dtype=torch.complex128))
        self.register_buffer("nothing", torch.empty(0, 3))
        self.register_buffer("sparse", torch.eye(3).to_sparse())
        self.tables = [torch.ones(2), torch.zeros(3)]
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.whole += 1
        return self.second(self.first(x)) + self.part[0] + self.tables[0].sum()


def test_operators_that_packages_copy_import_nothing_else_of_the_library():
    folder = Path(natives.__file__).parent
    copied = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
    assert len(copied) > 5
    for file in copied:
        imports = [
            n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ImportFrom)
        ]
        own = {n.module for n in imports if n.module.startswith("tsarchive")}
        assert own - {"tsarchive.errors"} == {n for n in own if n.startswith(natives.__name__)}, (
            file
        )


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Decompiles a module and imports the package."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def load(module: nn.Module):
        name = f"package_{len(names)}_{tmp_path.name}"
        names.append(name)
        tsarchive.decompile(io.BytesIO(torch_saved(torch.jit.script(module))), tmp_path / name)
        return importlib.import_module(name)

    yield load
    for name in list(sys.modules):
        if name.startswith(tuple(names)):
            del sys.modules[name]


def test_tensors_come_back_as_they_were(imported):
    scripted = torch.jit.script(Sharing().eval())
    model = imported(Sharing().eval()).load()
    assert model.first.weight is model.second.weight
    assert model.part.untyped_storage()._cdata == model.whole.untyped_storage()._cdata
    for (name, theirs), ours in zip(
        scripted.state_dict().items(), model.state_dict().values(), strict=True
    ):
        assert (theirs.dtype, theirs.shape, theirs.layout) == (ours.dtype, ours.shape, ours.layout)
        if theirs.layout == torch.strided:
            assert theirs.stride() == ours.stride(), name
    assert not model.frozen.requires_grad
    assert not model.training


def test_two_models_share_nothing(imported):
    package = imported(Sharing())
    one, two = package.load(), package.load()
    with torch.no_grad():
        one.first.weight.fill_(7)
        one.tables[0].fill_(7)
    assert not torch.equal(one.first.weight, two.first.weight)
    assert not torch.equal(one.tables[0], two.tables[0])


def test_gradients(imported):
    torch.manual_seed(0)
    module = Sharing()
    model = imported(module).load()
    x = torch.randn(2, 3)
    torch.jit.script(module)(x).sum().backward()
    model(x).sum().backward()
    assert torch.equal(module.first.weight.grad, model.first.weight.grad)


def test_a_new_directory_comes_whole(tmp_path, monkeypatch):
    target = tmp_path / "model"
    seen: list[set[str]] = []

    def watched(move):
        def moved(*places, **options):
            move(*places, **options)
            seen.append({str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()})

        return moved

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    written = {str(Path(file.name)) for file in tsarchive.decompile(ARCHIVE, target).files}
    assert len(written) > 1
    assert seen
    assert all(files in (set(), written) for files in seen)
    assert target.stat().st_mode == _made(tmp_path / "other").stat().st_mode
    assert [*tmp_path.glob(".tsarchive-*")] == []


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_weights_follow_the_safetensors_format(tmp_path):
    tsarchive.decompile(ARCHIVE, tmp_path / "model")
    data = (tmp_path / "model" / "weights.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert size % 8 == 0
    metadata = header.pop("__metadata__")
    assert all(isinstance(value, str) for value in metadata.values())
    ends = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    assert ends[0][0] == 0
    assert ends[-1][1] == len(data) - 8 - size
    assert all(before[1] == after[0] for before, after in pairwise(ends))


def test_a_directory_with_files_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text("kept")
    with pytest.raises(tsarchive.CallError, match="not an empty directory"):
        tsarchive.decompile(ARCHIVE, tmp_path)
    report = tsarchive.decompile(ARCHIVE, tmp_path, force=True)
    assert (tmp_path / "mine.py").read_text() == "kept"
    assert all((tmp_path / file.name).stat().st_size == file.nbytes for file in report.files)


@pytest.mark.parametrize("name", ["class", "my-model.v2", "torch", "json", "1st", ""])
def test_a_directory_that_no_package_can_be_in_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for force in (False, True):
        with pytest.raises(tsarchive.CallError) as caught:
            tsarchive.decompile(ARCHIVE, tmp_path / name if name else name, force=force)
        assert "my_model" in caught.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("below", ["", "inner"])
def test_a_file_in_the_way_is_told_as_such(below, tmp_path):
    (tmp_path / "net").write_text("kept")
    for force in (False, True):
        with pytest.raises(tsarchive.CallError, match="net' is a file, not a directory"):
            tsarchive.decompile(ARCHIVE, tmp_path / "net" / below, force=force)
    assert (tmp_path / "net").read_text() == "kept"


@pytest.mark.long("test_command")
def test_nothing_in_the_package_hides_a_module(tmp_path):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(
                renamed("torch.x", "D"),
                renamed("numpy", "A"),
                renamed("typing.x", "B"),
                renamed("re", "C"),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x)

    traced = torch.jit.trace(Outer(), torch.ones(1, 2))
    package = tmp_path / "package"
    tsarchive.decompile(io.BytesIO(torch_saved(traced)), package)
    tops = {path.stem for path in package.iterdir()}
    assert {"torch_", "numpy_", "typing_", "re_"} <= tops
    assert not tops & {"torch", "numpy", *sys.stdlib_module_names}
    code = "import torch, typing; print(torch.ones(1).item())"
    assert process("-c", code, cwd=package).stdout == "1.0\n"


def test_command_imports_libraries(tmp_path):
    found = error("decompile", ARCHIVE, "-o", tmp_path / "model", "--import", "no_such_module")
    assert "no_such_module" in found["message"]
    document("decompile", ARCHIVE, "-o", tmp_path / "model", "--import", "json")
    assert "not a directory" in error("decompile", ARCHIVE, "-o", ARCHIVE, "--force")["message"]
    assert "has no name" in error("decompile", ARCHIVE, "-o", "", "--force")["message"]


def test_command(tmp_path):
    found = document("decompile", ARCHIVE, "-o", tmp_path / "model")
    assert {file["name"] for file in found["files"]} >= {"__init__.py", "weights.safetensors"}
    assert found["untranslated"] == []
    assert error("decompile", ARCHIVE, "-o", tmp_path / "model")["hint"]
    shown = run("decompile", ARCHIVE, "-o", tmp_path / "model", "--force").stdout
    assert f"{found['root']} and load()" in shown


def test_the_report_tells_of_layers_that_stay_the_code_of_the_archive():
    copies = {"torch.nn.ReLU": 1, "torch.nn.Dropout": 2}
    report = tsarchive.DecompileReport("net", "net.Net", (), copies=copies)
    assert report.copied.endswith(": 2 torch.nn.Dropout, 1 torch.nn.ReLU")
    assert tsarchive.DecompileReport("net", "net.Net", ()).copied == ""


@pytest.mark.parametrize(
    ("make", "package", "root", "said"),
    [
        (Sharing, "named_own", "Sharing", "Sharing and load() are in "),
        (lambda: renamed("own", "load"), "named_load", "load_1", "load_1 and load() are in "),
        (
            lambda: nn.Sequential(nn.ReLU()),
            "named_library",
            "torch.nn.Sequential",
            "load(), which gives a torch.nn.Sequential, is in ",
        ),
    ],
    ids=["own", "load", "library"],
)
def test_the_command_names_what_the_package_has(make, package, root, said, tmp_path, monkeypatch):
    archive = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(make()), archive)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert document("decompile", archive, "-o", package)["root"] == root
    last = run("decompile", archive, "-o", package, "--force").stdout.splitlines()[-1]
    place, _, line = last.partition(": ")
    assert place == f"{said}{package}"
    names: dict[str, object] = {}
    exec(line, names)
    assert {root, "load"} - {"torch.nn.Sequential"} <= names.keys()


@pytest.mark.parametrize(
    "key", sorted({*READABLE_FORMS, *READABLE_STATEMENTS, *NON_ZERO_DIVISOR, *WRAPPING})
)
def test_forms_are_of_known_operators(key):
    name = key.partition(".")[0]
    assert key in {schema.full_name for schema in operator_schemas(name)}


def renamed(module: str, name: str) -> torch.nn.Module:
    """A module whose class claims to be another."""

    class Claimed(torch.nn.Module):
        def __init__(self):
            torch.nn.Module.__init__(self)
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    Claimed.__module__, Claimed.__name__, Claimed.__qualname__ = module, name, name
    return Claimed()


@pytest.mark.sample(4, gaps="each name is a package of its own")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("build", "Net"), ("load", "load"), ("Top", "Top"), ("torch", "Net"), ("nn.x", "nn"),
        ("_model", "build"), ("_weights", "Net"), ("weights", "Net"), ("a", "__Private"),
        ("a", "super"), ("a", "__getattr__"),
        ("a", "self"), ("a", "torch"), ("a", "print"),
    ],
)  # fmt: skip
def test_names_that_mean_something_to_python_or_to_the_package(module, name, tmp_path, monkeypatch):
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.claimed = renamed(module, name)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.claimed(x) + 1

    monkeypatch.syspath_prepend(tmp_path)
    for number, made in enumerate((renamed(module, name), Outer())):
        traced = torch.jit.trace(made, torch.ones(1, 2))
        package = f"names_{module.replace('.', '_')}_{name}_{number}"
        tsarchive.decompile(io.BytesIO(torch_saved(traced)), tmp_path / package)
        importlib.invalidate_caches()
        ours = importlib.import_module(package).load()
        assert torch.equal(ours(torch.ones(1, 2)), traced(torch.ones(1, 2)))
