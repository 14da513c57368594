"""What a plain load imports of ours: no more than it takes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from tests.support.archives import ARCHIVES
from tests.support.processes import torch_process

# Who asks for `tsarchive.load` waits for all that a plain load takes, and for no more than that.
READY = 87
# Loading and calling a network takes none of these rooms and files.
NOT_NEEDED = (
    "tsarchive.adopt", "tsarchive.analyses", "tsarchive.archive", "tsarchive.auditing",
    "tsarchive.cli", "tsarchive.comparing", "tsarchive.container.surveying",
    "tsarchive.container.writer", "tsarchive.converting", "tsarchive.decompiler",
    "tsarchive.describing", "tsarchive.formats.executorch.", "tsarchive.formats.legacy.",
    "tsarchive.formats.pt2.", "tsarchive.formats.torchscript.devices",
    "tsarchive.formats.torchscript.inspection", "tsarchive.formats.torchscript.saving",
    "tsarchive.formats.torchscript.verifying", "tsarchive.operators.older_forms",
    "tsarchive.operators.releases", "tsarchive.printer.", "tsarchive.remote.",
    "tsarchive.reporting", "tsarchive.run.costs", "tsarchive.run.metering",
    "tsarchive.run.natives.symbolic_shapes", "tsarchive.saving", "tsarchive.scanning",
    "tsarchive.testing", "tsarchive.verifying",
)  # fmt: skip
# Tables that tell formats apart, and how lists of callers are typed.
TAKEN = {
    "tsarchive.formats.executorch.format", "tsarchive.formats.executorch.header",
    "tsarchive.formats.legacy.format", "tsarchive.formats.pt2.format", "tsarchive.printer.literals",
}  # fmt: skip
# What reads and compiles code: where it is stored, nothing of it is imported.
NOT_STORED = (
    "tsarchive.formats.torchscript.debug_records", "tsarchive.frontend", "tsarchive.ir.constants",
    "tsarchive.ir.graph", "tsarchive.ir.source_ranges", "tsarchive.ir.text_limits",
    "tsarchive.ir.type_parser", "tsarchive.ir.values",
    "tsarchive.operators.python_forms", "tsarchive.operators.removed", "tsarchive.pickler.writer",
    "tsarchive.run.codegen", "tsarchive.run.expressions", "tsarchive.run.natives.all_natives",
    "tsarchive.run.passes",
    "torch._subclasses.schema_check_mode",
)  # fmt: skip
MOST = 135
_PROBE = """
import json, sys
import torch
before = {*sys.modules}
imported = lambda: sorted({*sys.modules} - before)
import tsarchive
tsarchive.load
ready = imported()
module = tsarchive.load(sys.argv[1])
loaded = imported()
module(torch.ones(2, 3))
print(json.dumps([ready, loaded, imported()]))
"""
# Saving a live module takes none of these.
NOT_FOR_SAVES = (
    "secrets", "tsarchive.adopt.code_texts", "tsarchive.adopt.hidden_functions",
    "tsarchive.caching", "tsarchive.describing", "tsarchive.formats.torchscript.importer",
    "tsarchive.formats.torchscript.inspection", "tsarchive.formats.torchscript.kept_code",
    "tsarchive.formats.torchscript.stored_code", "tsarchive.frontend", "tsarchive.run.classes",
    "tsarchive.printer.canonical", "tsarchive.run.compiler", "tsarchive.run.stored",
)  # fmt: skip
_SAVE = """
import io, json, sys
import torch
import tsarchive
written = io.BytesIO()
tsarchive.save(torch.jit.script(torch.nn.Linear(3, 2)), written)
print(json.dumps([len(written.getvalue()), sorted(sys.modules)]))
"""
_NATIVES = """
import importlib, pkgutil
import tsarchive.run.natives as natives
before = {*natives.NATIVES}
for module in pkgutil.iter_modules(natives.__path__, natives.__name__ + "."):
    importlib.import_module(module.name)
print(*({*natives.NATIVES} - before))
"""


def _imported(cwd: Path, file: str, **environment: str) -> tuple[set[str], ...]:
    """Return the modules that are there once `load` is, after a load, and after a call."""
    done = torch_process("-c", _PROBE, ARCHIVES / file, cwd=cwd, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return tuple(map(set, json.loads(done.stdout)))


def _ours(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith("tsarchive")}


def test_a_load_imports_what_it_takes(tmp_path):
    ready, _, called = _imported(tmp_path, "sequential.pt", TSARCHIVE_CACHE="0")
    assert len(_ours(ready)) <= READY
    assert {name for name in _ours(called) - TAKEN if name.startswith(NOT_NEEDED)} == set()
    assert len(_ours(called)) <= MOST
    # Names of packages outside that are slow to import.
    outside = {name.partition(".")[0] for name in called} - {"tsarchive"}
    assert outside & {"click", "rich", "zipfile_deflate64", "bz2", "lzma"} == set()


@pytest.mark.parametrize("file", ["sequential.pt", "frozen.pt"])
def test_a_load_of_stored_code_imports_nothing_more(tmp_path, file):
    folder = str(tmp_path / "cache")
    _imported(tmp_path, file, TSARCHIVE_CACHE=folder)
    ready, loaded, called = _imported(tmp_path, file, TSARCHIVE_CACHE=folder)
    assert _ours(loaded) == _ours(ready)
    assert _ours(called) - _ours(ready) <= TAKEN
    assert {name for name in called if name.startswith(NOT_STORED)} == set()


class _Ranked(torch.nn.Module):
    """Has operators that are Python functions, and one behind a check."""

    def forward(self, x: torch.Tensor, times: int = 1, name: str = "") -> torch.Tensor:
        if x.dim() != 2:
            raise ValueError(f"rank {x.dim()}")
        images = torch.conv2d(x[None, None], torch.ones(1, 1, 1, 1))
        return torch.zeros([len([1, 2]), x.size(1)]) + images[0, 0] * times


def test_stored_operators_import_their_own_files_alone(tmp_path):
    file, folder = str(tmp_path / "ranked.pt"), str(tmp_path / "cache")
    torch.jit.script(_Ranked()).save(file)
    *_, compiled = _imported(tmp_path, file, TSARCHIVE_CACHE=folder)
    *_, called = _imported(tmp_path, file, TSARCHIVE_CACHE=folder)
    assert "tsarchive.run.natives.all_natives" in compiled
    assert "tsarchive.run.natives.formatting" in called
    assert {name for name in called if name.startswith(NOT_STORED)} == set()


def test_a_save_of_a_live_module_imports_no_reader(tmp_path):
    done = torch_process("-c", _SAVE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    size, imported = json.loads(done.stdout.splitlines()[-1])
    assert size > 0
    assert "tsarchive.formats.torchscript.saving" in imported
    assert [name for name in imported if name.startswith(NOT_FOR_SAVES)] == []


def test_all_natives_are_in_the_table_with_the_room(tmp_path):
    done = torch_process("-c", _NATIVES, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
