"""Packages hold copies of the native modules, which need nothing of this library."""

from __future__ import annotations

import ast

from tests.natives.oracle import OF_EXECUTORCH
from tsarchive.decompiler.package import runtime_files
from tsarchive.run.natives import NATIVES


def test_copied_modules_import_nothing_of_this_library():
    # Those of ExecuTorch's programs are in the table once one is read; packages do not hold them.
    keys = [key for key in NATIVES if not OF_EXECUTORCH.match(key)]
    for name, text in runtime_files(keys, ()).items():
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        assert [n.module for n in nodes if (n.module or "").startswith("tsarchive")] == [], name
