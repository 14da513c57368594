"""The pytest plugin, in a pytest of its own, found as an installed plugin is found."""

from __future__ import annotations

import importlib.util
import sys

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def installed(pytester, monkeypatch):
    """A distribution that declares the entry point of pyproject.toml, on the path of children."""
    about = pytester.path / "site" / "tsarchive-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tsarchive\nVersion: 0\n")
    (about / "entry_points.txt").write_text("[pytest11]\n" + entry_point())
    monkeypatch.setenv("PYTHONPATH", str(about.parent))
    pytester.makeini("[pytest]")  # else that of a checkout in which temporary files are kept
    return pytester


def entry_point() -> str:
    from tests.support.archives import ROOT

    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    return lines[lines.index("[project.entry-points.pytest11]") + 1].replace('"', "")


@pytest.mark.long("test_it_is_listed_among_the_fixtures")
def test_the_fixture_is_there_without_an_import(installed):
    installed.makepyfile(
        """
        import pytest, torch

        pytestmark = pytest.mark.filterwarnings("ignore")

        def test_good(assert_no_jitter):
            assert_no_jitter(torch.jit.script(torch.nn.Linear(2, 2)))

        def test_bad(assert_no_jitter):
            assert_no_jitter(torch.nn.Linear(2, 2))
        """
    )
    result = installed.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*SaveError: a Linear has no TorchScript code*"])


def test_it_is_listed_among_the_fixtures(installed):
    result = installed.runpytest_subprocess("--fixtures")
    result.stdout.fnmatch_lines(["assert_no_jitter*", "*Fails unless a module has one archive*"])


def test_it_imports_nothing_that_a_test_did_not_ask_for(installed):
    names = {"torch", "numpy", "hypothesis"}
    assert all(map(importlib.util.find_spec, names))
    # hypothesis has a plugin of its own, which is blocked to see what ours does.
    installed.makepyfile(
        f"""
        import sys

        def test_modules(request):
            assert request.config.pluginmanager.has_plugin("tsarchive")
            assert {names}.isdisjoint(sys.modules)
        """
    )
    result = installed.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:xdist")
    result.assert_outcomes(passed=1)


def test_without_hypothesis_the_strategies_say_what_is_missing(monkeypatch):
    import tsarchive.testing

    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for name in [n for n in sys.modules if n.startswith("tsarchive.testing.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"pip install 'tsarchive\[testing\]'"):
        tsarchive.testing.programs  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'strategy'"):
        tsarchive.testing.strategy  # noqa: B018
