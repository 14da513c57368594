"""Type checkers see every public name in use, and what stubs and ``help`` say of methods."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tsarchive
from tsarchive import pickler

PROGRAM = Path(__file__).with_name("every_public_name.py")


@pytest.mark.parametrize("module", [tsarchive, pickler], ids=lambda module: module.__name__)
def test_the_program_uses_every_name(module):
    owner = module.__name__.rpartition(".")[2]
    used = {
        node.attr
        for node in ast.walk(ast.parse(PROGRAM.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == owner
    }
    assert {*module.__all__} - used == set()
