"""The options of the suite, and the fixtures and parameters that many of its files take."""

from __future__ import annotations

import gc
import os
from pathlib import Path

# There is a worker for each processor; a pool of threads in each, which torch makes as it is
# imported, would take turns with the others. Set the variable to see what more threads do.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from fixtures.modules import all_cases
from tests.support import fresh_registry, suite  # noqa: F401  # the registry before any test
from tests.support.archives import CORPUS, TORCH

# No test uses what this user's programs have compiled; all of them can share a folder of their own.
os.environ["TSARCHIVE_CACHE"] = os.environ.get("TSARCHIVE_TEST_CACHE", "0")

# Programs are exported as today's torch exports them; torch 2.6 had another default.
torch.export.export.__kwdefaults__["strict"] = False

# torch knows operators by the id of their function, also when the library that registered them is
# gone: what gets that id next would pass for an operator when a module is scripted.
_operators = []
_register_operator = torch.jit._builtins._register_builtin


def _register_and_keep(function, name):
    _operators.append(function)
    _register_operator(function, name)


torch.jit._builtins._register_builtin = _register_and_keep

# Hypothesis draws constants out of the source of whatever is imported: which that is depends on the
# tests that ran before.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

# The same examples each time, however busy the machine is; others with the profile "explore".
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def pytest_addoption(parser):
    help_ = "run the long suite: every item of every table, and many more random examples"
    parser.addoption("--everything", action="store_true", help=help_)


def pytest_configure(config):
    suite.set_long(config.getoption("everything"))
    settings.register_profile(
        "suite", derandomize=True, max_examples=suite.examples(100), **_UNHURRIED
    )
    settings.register_profile("explore", max_examples=1000, **_UNHURRIED)
    settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    config.stash[suite.ALL_ITEMS] = list(items)
    if suite.is_long():
        return
    kept = suite.kept(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_collection_finish():
    gc.freeze()  # else each collection would look through the items of the long suite


@pytest.fixture(scope="session")
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real archives is not beside the repository")
    return CORPUS


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", list(map(_parameter, all_cases())))


def _parameter(case):
    lacks = case.name == "constants_of_types" and TORCH < (2, 8)
    marks = [pytest.mark.skip("torch 2.7 and older do not script such a constant")] * lacks
    return pytest.param(case, id=case.name, marks=marks)
