"""The reference of Python: every public name is in it, with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re
import runpy
from types import ModuleType
from typing import Final

import pytest

import tsarchive
from tests.support.archives import ROOT
from tsarchive import pickler

PAGE: Final = ROOT / "docs" / "api.md"
FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# A type of all values, which has no docstring of its own.
ALIASES: Final = {"Value"}


def names(module: ModuleType) -> list[str]:
    return [name for name in module.__all__ if name not in ALIASES]


NAMES: Final = [(module, name) for module in (tsarchive, pickler) for name in names(module)]


def example(module: ModuleType, name: str) -> doctest.DocTest:
    """Return what the docstring of a name has for an example, to be run anywhere."""
    text = inspect.getdoc(getattr(module, name)) or ""
    return doctest.DocTestParser().get_doctest(text, {}, f"{module.__name__}.{name}", None, 0)


def test_signatures_have_defaults_that_read():
    """A default that shows an address or a class of its own tells a reader nothing."""
    functions = {n: getattr(m, n) for m, n in NAMES if inspect.isfunction(getattr(m, n))}
    shown = {name: str(inspect.signature(function)) for name, function in functions.items()}
    assert {name: text for name, text in shown.items() if re.search(r"= ?<", text)} == {}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """What the page starts from: its folder, and its names."""
    folder = tmp_path_factory.mktemp("reference")
    code = re.search(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert code
    (folder / "page.py").write_text(code[1], encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder, runpy.run_path("page.py", run_name="page")


def test_every_public_name_has_an_example():
    assert [name for module, name in NAMES if not example(module, name).examples] == []


def test_examples_are_code_on_the_page():
    """What is not indented there would be a quotation."""
    assert [n for m, n in NAMES if re.search("^>>>", inspect.getdoc(getattr(m, n)), re.M)] == []


def test_examples_run(start, monkeypatch):
    folder, namespace = start
    monkeypatch.chdir(folder)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    told: list[str] = []
    for module, name in NAMES:
        test = example(module, name)
        test.globs = dict(namespace)
        runner.run(test, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


def test_every_public_name_is_in_the_reference():
    listed = [name.rpartition(".")[2] for name in re.findall(r"^::: (.*)$", PAGE.read_text(), re.M)]
    assert sorted(listed) == sorted(tsarchive.__all__)
