"""What several test files need: the corpus, fixture cases, and torch's own saves."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from fixtures.modules import all_cases

ROOT = Path(__file__).parents[1]
ARCHIVES = ROOT / "fixtures" / "archives"
CORPUS = ROOT.parent / "shared" / "corpus"

# The same examples each time, however busy the machine is; others with the profile "explore".
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("suite", derandomize=True, **_UNHURRIED)
settings.register_profile("explore", max_examples=1000, **_UNHURRIED)
settings.load_profile("suite")


def torch_saved(module) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


def torch_loaded(data: bytes):
    return torch.jit.load(io.BytesIO(data))


def records_of(data: bytes) -> dict[str, bytes]:
    """Records by name without the root, in the order of the file, as zipfile reads them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="session")
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real archives is not beside the repository")
    return CORPUS


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        cases = all_cases()
        metafunc.parametrize("case", cases, ids=[case.name for case in cases])
