"""Modules of an archive that are written as objects of torch.nn and other libraries.

Those that ``tsarchive.library`` proves to be such, and torch's containers that hold nothing else.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.library import Recovered, recovered
from tsarchive.library.known import class_named, importable_name
from tsarchive.run.modules import ArchiveModule

from . import syntax
from .naming import container_base, runs_in_order

_SHORT = {"torch.nn": "nn", "torch.nn.functional": "F"}
_CONTAINERS = "__torch__.torch.nn.modules.container."


class LibraryModules:
    """Tells which modules of an archive are objects of a library.

    ``written`` holds the others, whose classes the package has, by the first path of each. What
    an object of a library holds is its own, and no concern of the package.
    """

    def __init__(
        self, root: ArchiveModule, find: Callable[[ArchiveModule], Recovered | None] = recovered
    ) -> None:
        self.written: dict[ArchiveModule, str] = {}
        self._found: dict[ArchiveModule, Recovered] = {}
        self._find = cache(find)
        self._of_type: dict[ClassType, list[ArchiveModule]] = {}
        for module in root.modules():
            assert isinstance(module, ArchiveModule)
            self._of_type.setdefault(module.tsarchive_class, []).append(module)
        self._visit(root, "")
        kept = {module.tsarchive_class for module in self.written}
        self._names = {
            module.tsarchive_class: found.qualified_name
            for module, found in self._found.items()
            if module.tsarchive_class not in kept
        }

    @property
    def copies(self) -> dict[str, int]:
        """How many modules are of a class that the package has, named after one of a library."""
        classes = [module.tsarchive_class for module in self.written]
        names = [class_.qualified_name for class_ in classes if self.name_of(class_) is None]
        known = [class_ for class_ in map(class_named, names) if class_ is not None]
        return dict(Counter(map(importable_name, known)))

    def _visit(self, module: ArchiveModule, path: str) -> None:
        if module in self.written or module in self._found:
            return
        found = self._find(module)
        if found is not None and self._may_replace(module.tsarchive_class):
            self._found[module] = found
            return
        self.written[module] = path
        for name, child in module.named_children():
            assert isinstance(child, ArchiveModule)
            self._visit(child, f"{path}.{name}" if path else name)

    def _may_replace(self, type_: ClassType) -> bool:
        """Return whether calls can stay as they are if some modules of a class are replaced."""
        return "forward" in type_.methods or all(map(self._find, self._of_type[type_]))

    def class_(self, type_: ClassType) -> ast.expr | None:
        """Return the class of a library that stands for one of the archive; None for others."""
        name = self.name_of(type_)
        return None if name is None else of_library(name)

    def name_of(self, type_: ClassType) -> str | None:
        """Return the qualified name of that class."""
        if type_ in self._names:
            return self._names[type_]
        base = container_base(type_)
        if base is None or not type_.qualified_name.startswith(_CONTAINERS):
            return None
        is_usual = base == "Sequential" and runs_in_order(type_)
        return None if "forward" in type_.methods and not is_usual else f"torch.nn.{base}"

    def made(self, module: torch.nn.Module) -> ast.expr | None:
        """Return the call that makes an object of a library; None for other modules."""
        found = self._found.get(module)  # type: ignore[call-overload]
        if found is None:
            return None
        positional = [_argument(value) for value in found.positional]
        keywords = {name: _argument(value) for name, value in found.keywords.items()}
        return syntax.call(of_library(found.qualified_name), positional, keywords)


def of_library(qualified_name: str) -> ast.expr:
    """Refer to a class or function that users import by this name."""
    home, _, name = qualified_name.rpartition(".")
    return syntax.form(f"{_SHORT[home]}.{name}") if home in _SHORT else syntax.imported(home, name)


def _argument(value: Any) -> ast.expr:
    """Return the expression of an argument of a constructor.

    Raises UnsupportedError for what a call cannot say.
    """
    if isinstance(value, torch.dtype):
        return syntax.form(str(value))
    if isinstance(value, torch.device):
        return syntax.form("torch.device(_0)", syntax.literal(str(value)))
    try:
        return syntax.literal(value)
    except TypeError:
        shown = type(value).__name__
        raise UnsupportedError(f"an argument of type {shown} has no Python form") from None
