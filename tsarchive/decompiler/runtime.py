"""The package's own small run time: the native operators that its code needs, as text.

Operators that neither Python nor torch has are functions of ``tsarchive.run.natives``. The files
that define them are copied with their imports made relative.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

from tsarchive.ir.graph import closure
from tsarchive.run import natives

from .references import HELPERS, helper_name

_FOLDER = Path(natives.__file__).parent
_PACKAGE = "tsarchive.run.natives"
_PROBED = "tsarchive_copied_natives"
_UPGRADER = "upgrader::"
_TABLE = "table"
_ERRORS = '''"""Errors of TorchScript programs."""


class ScriptError(RuntimeError):
    """A fault of the running program; ``exception`` names the class that was raised."""

    def __init__(self, message: str, exception: str = "RuntimeError") -> None:
        super().__init__(message)
        self.exception = exception


class ArchiveError(RuntimeError):
    """A defect of the table of operators."""
'''


def runtime_files(keys: Iterable[str], modules: Iterable[str]) -> dict[str, str]:
    """Return the files of the run time by name, for operators by key and for whole ``modules``."""
    wanted = sorted(set(keys))
    homes = _homes()
    needed = {homes[key] for key in wanted if not key.startswith(_UPGRADER)} | set(modules)
    if any(key.startswith(_UPGRADER) for key in wanted):
        needed.add("upgraders")
    if not needed:
        return {}
    files = {f"{HELPERS}/{name}.py": _relative(name) for name in sorted(closure(needed, _imports))}
    files[f"{HELPERS}/errors.py"] = _ERRORS
    files[f"{HELPERS}/__init__.py"] = _entry(wanted, homes)
    return files


def _entry(keys: list[str], homes: Mapping[str, str]) -> str:
    """Return the module that gives the functions their names."""
    lines = ['"""Operators of TorchScript that Python and torch do not have."""', ""]
    operators = [key for key in keys if not key.startswith(_UPGRADER)]
    for module in sorted({homes[key] for key in operators}):
        lines.append(f"from . import {module} as _{module}  # enters its operators into the table")
    if operators:
        lines.append("from .table import NATIVES")
    if len(operators) < len(keys):
        lines.append("from .upgraders import UPGRADERS")
    if keys:
        lines.append("")
    for key in keys:
        table, entry = "NATIVES", key
        if key.startswith(_UPGRADER):
            table, entry = "UPGRADERS", key.removeprefix(_UPGRADER)
        lines.append(f"{helper_name(key)} = {table}[{entry!r}]")
    return "\n".join(lines) + "\n"


@cache
def _imports(name: str) -> frozenset[str]:
    """Return the other native modules that one imports."""
    tree = ast.parse(_source(name))
    sources = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    prefix = f"{_PACKAGE}."
    return frozenset(source.removeprefix(prefix) for source in sources if source.startswith(prefix))


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.py").read_text(encoding="utf-8")


def _relative(name: str) -> str:
    text = _source(name).replace(f"from {_PACKAGE}.", "from .")
    return text.replace("from tsarchive.errors import", "from .errors import")


@cache
def _homes() -> Mapping[str, str]:
    """Return the module that enters each operator into the table.

    Found by running copies of the modules, each after those that it imports.
    """
    homes: dict[str, str] = {}
    made: list[str] = []
    try:
        _probe(_PROBED, "", made).__path__ = []
        _probe(f"{_PROBED}.errors", _ERRORS, made)
        names = (path.stem for path in _FOLDER.glob("*.py") if path.stem != "__init__")
        ordered = TopologicalSorter({name: {_TABLE, *_imports(name)} - {name} for name in names})
        for name in ordered.static_order():
            _probe(f"{_PROBED}.{name}", _relative(name), made)
            for key in sys.modules[f"{_PROBED}.{_TABLE}"].NATIVES:
                homes.setdefault(key, name)
    finally:
        for name in made:
            del sys.modules[name]
    return homes


def _probe(name: str, text: str, made: list[str]) -> ModuleType:
    module = ModuleType(name)
    module.__package__ = _PROBED
    sys.modules[name] = module
    made.append(name)
    exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)
    return module
