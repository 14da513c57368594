"""Modules that were compiled for a backend, and script modules in packages: no attacks."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
import torch.package
from torch.package import package_exporter

import tsarchive
from tests.support.auditing import archive_with, audited, object_of, rules_of, zip_of
from tests.support.processes import torch_process
from tsarchive import Nature, Severity

# Where torch puts the module that it compiles for a backend, and the one around it.
LOWERED = (
    "torch.jit.LoweredModule.demo.__torch__.Net",
    "torch.jit.LoweredWrapper.demo.__torch__.Net",
    "torch.jit.LoweredModule.demo.__torch__.___torch_mangle_3.some.module.Net",
    "torch.jit.demoLoweredModule",
    "torch.jit.___torch_mangle_0.demoLoweredModule",
)
NOT_LOWERED = ("torch.jit.Script", "torch.jit.Lowered.demo.Net", "torch.hub.LoweredModule.x.Net")
BACKEND = "__torch__.torch.classes.__backends__.demo"
CLASS = f"""\
class {{name}}(Module):
  __parameters__ = []
  __buffers__ = []
  def forward(self: {{qualified}},
    x: Tensor,
    backend: {BACKEND}) -> Tensor:
    return x
"""


def lowered(qualified: str, *, is_defined: bool = True) -> bytes:
    """An archive with one object of a class, and that class, or another, in its code."""
    module, _, name = qualified.rpartition(".")
    code = CLASS.format(name=name if is_defined else "Another", qualified=qualified)
    return archive_with(
        "", data=object_of(name, module=module),
        **{f"code/{module.replace('.', '/')}.py": code.encode()},
    )  # fmt: skip


def errors(data: bytes) -> set[str]:
    return {f.rule for f in audited(data).findings if f.severity is Severity.ERROR}


@pytest.mark.parametrize("qualified", LOWERED)
def test_a_lowered_module_tells_what_it_can_do(qualified):
    report = audited(lowered(qualified))
    (found,) = (f for f in report.findings if f.rule == "code-native-class")
    assert "__backends__.demo" in found.message
    assert "runs a program that was compiled for a backend" in found.message
    assert (found.severity, found.nature) == (Severity.INFO, Nature.ABILITY)
    assert not errors(lowered(qualified))
    module = tsarchive.load(io.BytesIO(lowered(qualified)))
    with pytest.raises(tsarchive.ArchiveError, match=r"demo.*not registered"):
        module(torch.ones(2), None)


@pytest.mark.parametrize("qualified", LOWERED)
def test_a_lowered_module_that_the_code_lacks_is_an_error(qualified):
    assert "pickle-make" in errors(lowered(qualified, is_defined=False))


@pytest.mark.parametrize("qualified", NOT_LOWERED)
def test_code_makes_no_other_name_of_torch_harmless(qualified):
    assert "pickle-make" in errors(lowered(qualified))


LIBRARY = Path(torch.__file__).parent / "lib" / "libjitbackend_test.so"
OF_TORCH = """
import sys, torch, tsarchive
torch.ops.load_library(sys.argv[1])
class Net(torch.nn.Module):
    def forward(self, x, h):
        return x + h
module = torch.jit.script(Net())
module = torch._C._jit_to_backend("test_backend", module, {"forward": {"": ""}})
torch.jit.save(module, sys.argv[2])
try:
    tsarchive.load(sys.argv[2])
except tsarchive.PolicyError as error:
    print(error)
"""


@pytest.mark.long("test_a_lowered_module_tells_what_it_can_do")
@pytest.mark.skipif(not LIBRARY.exists(), reason="torch comes without its backend for tests")
def test_a_module_that_torch_lowers(tmp_path):
    """Its classes are registered there, where the policy refuses them, and not here."""
    path, program = tmp_path / "lowered.pt", tmp_path / "program.py"
    program.write_text(OF_TORCH)
    ran = torch_process("-W", "ignore", program, LIBRARY, path, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "which the policy refuses" in ran.stdout
    report = tsarchive.audit(path)
    assert [(f.rule, f.severity) for f in report.findings] == [("code-native-class", Severity.INFO)]
    assert "__backends__.test_backend" in report.classes
    with pytest.raises(tsarchive.SourceError, match=r"torch\.ops\.load_library"):
        tsarchive.load(path)


# Packages.


class Plain(torch.nn.Module):
    def forward(self, x):
        return x + 1


def packaged(value, monkeypatch) -> bytes:
    """A torch.package of one pickle."""
    monkeypatch.setattr(package_exporter, "_gate_torchscript_serialization", False)
    written = io.BytesIO()
    with torch.package.PackageExporter(written) as exporter:
        exporter.extern("**")
        exporter.save_pickle("model", "model.pkl", value)
    return written.getvalue()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: {"a": [m, m], "b": torch.ones(2)}])
def test_a_script_module_in_a_package_is_an_ability(wrap, monkeypatch):
    data = packaged(wrap(torch.jit.script(Plain())), monkeypatch)
    report = audited(data)
    (found,) = report.findings
    assert (found.rule, found.severity) == ("pickle-call", Severity.WARNING)
    assert found.nature is Nature.ABILITY
    assert "has torch.jit load a TorchScript module of the package" in found.message
    assert "aten::add" in {use.operator for use in report.operators}
    with pytest.raises(tsarchive.MissingRecordError, match="PackageImporter"):
        tsarchive.load(io.BytesIO(data))


def test_what_a_script_module_in_a_package_does_is_told():
    records = {
        ".data/extern_modules": b"torch\n",
        ".data/ts_code/code/__torch__.py": (
            b"class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
            b"  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
            b'    torch.save(x, "here")\n    return x\n'
        ),
        ".data/ts_code/0/data.pkl": object_of("Net"),
        "model/model.pkl": _unpackaging(b"torch.jit._script\nunpackage_script_module"),
    }
    assert errors(zip_of(records)) == {"operator-files"}


def _unpackaging(function: bytes) -> bytes:
    return b"\x80\x02(X\x0e\0\0\0reduce_packageK\0c" + function + b"\nX\x01\0\0\x000\x85tQ."


def test_another_function_of_a_package_or_another_file_is_an_error():
    function = b"torch.jit._script\nunpackage_script_module"
    package = {".data/extern_modules": b"torch\n"}
    assert not errors(zip_of({**package, "m/m.pkl": _unpackaging(function)}))
    other = _unpackaging(b"torch.jit._serialization\nload")
    assert errors(zip_of({**package, "m/m.pkl": other})) == {"pickle-call"}
    elsewhere = zip_of({"data.pkl": _unpackaging(function), "version": b"3\n"})
    assert "pickle-call" in rules_of(audited(elsewhere))
    assert "pickle-call" in errors(elsewhere)
