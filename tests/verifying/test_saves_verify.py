"""What is saved passes ``verify``: it is whole, and nothing in it belongs to nothing."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import pytest

import tsarchive
from tests.support.archives import CORPUS, ROOT
from tsarchive import ArchiveError, Policy, SaveError, SourceError
from tsarchive.errors import UnknownClassError, UnknownOperatorError
from tsarchive.findings import Finding, Severity

FOLDERS = (ROOT / "fixtures", CORPUS / "torchscript", CORPUS / "pt2", CORPUS / "generated")
SUFFIXES = (".pt", ".ptl", ".pth", ".pt2", ".pte")
LARGEST = 30_000_000
WRONG = {"hostile", "bad", "pt2_opaque.pt2"}


def files() -> list[Path]:
    found = (path for folder in FOLDERS for path in sorted(folder.rglob("*")))
    archives = [path for path in found if path.suffix in SUFFIXES and ".io" not in path.suffixes]
    return [path for path in archives if not WRONG & {*path.parts}]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_a_loaded_file_that_is_saved_verifies(path):
    if path.stat().st_size > LARGEST:
        pytest.skip("too large for a test that is run often")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = tsarchive.load(path, policy=Policy.trusted())
    except ArchiveError as error:
        pytest.skip(f"not loaded: {error}")
    for canonical in (False, True):
        assert findings_of_saved(module, canonical) == []


def findings_of_saved(module, canonical) -> list[Finding]:
    """Those that are more than a note; none where its code needs what is not installed here."""
    buffer = io.BytesIO()
    try:
        tsarchive.save(module, buffer, canonical=canonical)
    except (UnknownOperatorError, UnknownClassError, SourceError):
        return []
    findings = tsarchive.verify(io.BytesIO(buffer.getvalue())).findings
    return [finding for finding in findings if finding.severity is not Severity.INFO]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bad/infinite_loop.pte", "never comes to an end"),
        ("bad/no_plans.pte", "has no methods"),
        ("pt2_opaque.pt2", "nothing before it defines"),
    ],
)
def test_a_broken_program_is_not_saved(name, reason):
    path = CORPUS / "generated" / name
    if not path.exists():
        pytest.skip("the corpus is not here")
    with pytest.raises(SaveError, match=reason):
        tsarchive.save(tsarchive.load(path), io.BytesIO())


def test_the_bytecode_of_real_archives_is_kept():
    names = sorted(path.name for path in (CORPUS / "torchscript").glob("*vit4mnist.ptl"))
    if not names:
        pytest.skip("the corpus is not here")
    for name in names:
        path, buffer = CORPUS / "torchscript" / name, io.BytesIO()
        tsarchive.save(tsarchive.load(path), buffer)
        buffer.seek(0)
        before, after = tsarchive.open(path), tsarchive.open(buffer)
        assert all(before.read(record) == after.read(record) for record in before.records)
