"""References of generated code to imports and definitions, named when a module is complete.

A reference is an ``ast.Name`` whose identifier is a key until the module that holds it is laid
out; then it becomes a name that no variable of the module has.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, frozen=True, slots=True)
class Reference:
    """Something that a module imports or defines.

    ``home``: the module it comes from, "" for builtins; ``name``: its name there, "" for the
    module itself; ``shown``: the name that the importing module should give it. ``definition``
    takes the place of all three for what the package itself defines.
    """

    home: str
    name: str
    shown: str
    definition: Any = None

    @property
    def wanted_name(self) -> str:
        return self.shown if self.definition is None else str(self.definition.name)

    @property
    def key(self) -> str:
        if self.definition is not None:
            return f"definition@{self.definition.number}"
        return f"{self.shown}@{self.home}:{self.name}"


class References:
    """Everything that the code of one package refers to, by key."""

    def __init__(self) -> None:
        self._known: dict[str, Reference] = {}

    def by_key(self, key: str) -> Reference | None:
        return self._known.get(key)

    def to(self, reference: Reference) -> ast.Name:
        self._known.setdefault(reference.key, reference)
        return ast.Name(reference.key, ast.Load())

    def to_definition(self, definition: Any) -> ast.Name:
        return self.to(Reference("", "", "", definition))

    def builtin(self, name: str) -> ast.Name:
        return self.to(Reference("", name, name))

    def module(self, home: str, shown: str | None = None) -> ast.Name:
        return self.to(Reference(home, "", shown or home))

    def imported(self, home: str, name: str) -> ast.Name:
        return self.to(Reference(home, name, name))

    def helper(self, key: str) -> ast.Name:
        """A function of the package's own small run time."""
        return self.to(Reference(HELPERS, key, helper_name(key)))


HELPERS = "_torchscript"
"""The module of a package that holds operators which Python and torch do not have."""


def helper_name(key: str) -> str:
    """The name of the function for an operator: ``aten::sorted.int`` is ``sorted_int``."""
    shown = key.partition("::")[2].replace(".", "_").strip("_")
    is_taken = keyword.iskeyword(shown) or hasattr(builtins, shown)
    return f"{shown}_" if is_taken else shown
