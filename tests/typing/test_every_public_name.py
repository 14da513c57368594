"""The file that type checkers check uses every public name; `.ci/typecheck` runs them on it."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest

import tsarchive
from tsarchive import library, pickler, testing

USED = Path(__file__).with_name("every_public_name.py")


@pytest.mark.parametrize(
    "module", [tsarchive, library, pickler, testing], ids=lambda module: module.__name__
)
def test_every_public_name_is_used(module: ModuleType):
    name = module.__name__.rpartition(".")[2]
    used = {
        node.attr
        for node in ast.walk(ast.parse(USED.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }
    assert set(module.__all__) - used == set()
