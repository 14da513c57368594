"""The options of the suite, and the fixtures and parameters that many of its files take."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fixtures.modules import all_cases
from tests.support.archives import CORPUS

# The same examples each time, however busy the machine is; others with the profile "explore".
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("suite", derandomize=True, **_UNHURRIED)
settings.register_profile("explore", max_examples=1000, **_UNHURRIED)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real archives is not beside the repository")
    return CORPUS


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        cases = all_cases()
        metafunc.parametrize("case", cases, ids=[case.name for case in cases])
