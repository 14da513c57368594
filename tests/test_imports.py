"""What a plain load imports of ours: no more than it takes."""

from __future__ import annotations

import json

from tests.support.archives import ARCHIVES
from tests.support.command_line import process

# What `tsarchive.load` is made of, before a file is named.
READY = {
    "tsarchive", "tsarchive.container", "tsarchive.container.caps",
    "tsarchive.container.contents", "tsarchive.container.directory",
    "tsarchive.container.faults", "tsarchive.container.layout", "tsarchive.container.members",
    "tsarchive.container.names", "tsarchive.container.reader", "tsarchive.container.recognise",
    "tsarchive.container.source", "tsarchive.errors", "tsarchive.findings", "tsarchive.formats",
    "tsarchive.formats.base", "tsarchive.formats.executorch",
    "tsarchive.formats.executorch.format", "tsarchive.formats.executorch.header",
    "tsarchive.formats.foreign", "tsarchive.formats.legacy", "tsarchive.formats.legacy.format",
    "tsarchive.formats.pt2", "tsarchive.formats.pt2.format", "tsarchive.formats.records",
    "tsarchive.formats.registry", "tsarchive.formats.torchscript",
    "tsarchive.formats.torchscript.format", "tsarchive.garbage", "tsarchive.ir",
    "tsarchive.ir.names", "tsarchive.ir.types", "tsarchive.lazy_members",
    "tsarchive.loading", "tsarchive.operators", "tsarchive.operators.registry",
    "tsarchive.operators.risks", "tsarchive.policy",
}  # fmt: skip
# Loading and calling a network takes none of these rooms and files.
NOT_NEEDED = (
    "tsarchive.adopt", "tsarchive.analyses", "tsarchive.archive", "tsarchive.auditing",
    "tsarchive.cli", "tsarchive.comparing", "tsarchive.container.surveying",
    "tsarchive.container.writer", "tsarchive.converting", "tsarchive.decompiler",
    "tsarchive.describing", "tsarchive.formats.executorch.", "tsarchive.formats.legacy.",
    "tsarchive.formats.pt2.", "tsarchive.formats.torchscript.devices",
    "tsarchive.formats.torchscript.inspection", "tsarchive.formats.torchscript.saving",
    "tsarchive.formats.torchscript.verifying", "tsarchive.operators.older_forms",
    "tsarchive.operators.releases", "tsarchive.printer.", "tsarchive.reporting",
    "tsarchive.run.costs", "tsarchive.run.metering", "tsarchive.run.natives.symbolic_shapes",
    "tsarchive.saving", "tsarchive.scanning", "tsarchive.testing", "tsarchive.verifying",
)  # fmt: skip
TAKEN = READY | {"tsarchive.printer.literals"}
MOST = 127
_PROBE = """
import json, sys
import torch
before = {*sys.modules}
imported = lambda: sorted({*sys.modules} - before)
import tsarchive
tsarchive.load
ready = imported()
module = tsarchive.load(sys.argv[1])
module(torch.ones(2, 3))
print(json.dumps([ready, imported()]))
"""
# Saving a live module takes none of these.
NOT_FOR_SAVES = (
    "tsarchive.caching", "tsarchive.describing", "tsarchive.formats.torchscript.importer",
    "tsarchive.formats.torchscript.inspection", "tsarchive.formats.torchscript.kept_code",
    "tsarchive.formats.torchscript.stored_code", "tsarchive.frontend", "tsarchive.run.classes",
    "tsarchive.run.compiler", "tsarchive.run.stored",
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


def test_a_load_imports_what_it_takes(tmp_path):
    done = process("-c", _PROBE, ARCHIVES / "sequential.pt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ready, called = json.loads(done.stdout)
    assert {name for name in ready if name.startswith("tsarchive")} == READY
    ours = {name for name in called if name.startswith("tsarchive")}
    assert {name for name in ours - TAKEN if name.startswith(NOT_NEEDED)} == set()
    assert len(ours) <= MOST
    # Names of packages outside that are slow to import.
    outside = {name.partition(".")[0] for name in called} - {"tsarchive"}
    assert outside & {"click", "rich", "zipfile_deflate64", "bz2", "lzma", "astor"} == set()


def test_a_save_of_a_live_module_imports_no_reader(tmp_path):
    done = process("-c", _SAVE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    size, imported = json.loads(done.stdout.splitlines()[-1])
    assert size > 0
    assert "tsarchive.formats.torchscript.saving" in imported
    assert [name for name in imported if name.startswith(NOT_FOR_SAVES)] == []


def test_all_natives_are_in_the_table_with_the_room(tmp_path):
    done = process("-c", _NATIVES, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
