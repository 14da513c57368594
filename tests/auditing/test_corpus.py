"""The verdicts on real files: benign archives are fine, and every known attack is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, CORPUS
from tsarchive import Severity

FIXTURES = ARCHIVES.parent
# Harmless files among the attacks, by how their names begin.
HARMLESS = (
    "modelaudit__safe_",
    "picklescan__benign",
    "picklescan__int_arrays",
    "picklescan__not_a_pickle",
    "picklescan__object_array",
    "picklescan__pytorch_model",
)


def files(folder: Path, *suffixes: str) -> list:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = [path for path in found if path.name.endswith(suffixes)] if suffixes else found
    if chosen:
        return [pytest.param(path, id=path.name) for path in chosen]
    skip = pytest.mark.skip(reason=f"{folder.name} is not beside the repository")
    return [pytest.param(folder, marks=skip)]


def severities(path: Path) -> set[Severity]:
    return {finding.severity for finding in tsarchive.audit(path).findings}


@pytest.mark.sample(5)
@pytest.mark.parametrize("path", files(CORPUS / "torchscript"))
def test_archives_of_other_projects_are_fine(path):
    report = tsarchive.audit(path)
    assert report.ok, [f for f in report.findings if f.severity is not Severity.INFO]
    assert report.kind.startswith("torchscript")
    assert report.operators or report.entry_points


@pytest.mark.sample(1, gaps="a folder takes seconds, and holds what others hold")
@pytest.mark.parametrize("folder", ["archives", "old", "legacy"])
def test_fixtures_are_fine(folder):
    paths = sorted((FIXTURES / folder).rglob("*.pt"))
    bad = {path.name: found.findings for path in paths if not (found := tsarchive.audit(path)).ok}
    assert paths
    # Their methods put weights that they packed on the memory of tensors.
    warned = {path.name for path in paths if path.name.startswith("jit_quantized_")}
    assert bad.keys() <= warned
    assert {f.rule for findings in bad.values() for f in findings} <= {"operator-memory"}


@pytest.mark.parametrize("path", files(CORPUS / "other", ".pt", ".pth", ".ckpt", ".model"))
def test_files_of_torch_save_and_torch_package(path):
    report = tsarchive.audit(path)
    if report.kind == "torch.package":
        assert max(f.severity for f in report.findings) is Severity.WARNING
    else:
        assert report.kind.startswith("torch.save")
        assert report.ok, report.findings


@pytest.mark.parametrize("path", files(CORPUS / "pt2"))
def test_native_code_of_torch_export_is_a_warning(path):
    report = tsarchive.audit(path)
    assert report.kind == "pt2"
    assert {p.format for p in report.payloads} <= {"ELF", "Mach-O"}
    assert report.ok == (not report.payloads)
    assert Severity.ERROR not in severities(path)


@pytest.mark.parametrize("path", files(CORPUS / "hostile"))
def test_attacks_are_errors_and_harmless_files_are_not(path):
    is_harmless = path.name.startswith(HARMLESS)
    assert (Severity.ERROR in severities(path)) == (not is_harmless)
