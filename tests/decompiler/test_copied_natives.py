"""Packages hold copies of the native modules, which need nothing of this library."""

from __future__ import annotations

import ast

from tsarchive.decompiler.package import runtime_files
from tsarchive.run.natives import NATIVES


def test_copied_modules_import_nothing_of_this_library():
    for name, text in runtime_files(NATIVES, ()).items():
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        assert [n.module for n in nodes if (n.module or "").startswith("tsarchive")] == [], name
