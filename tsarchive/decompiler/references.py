"""References to what a module imports or defines, in the place of names.

A reference is an ``ast.Name`` whose identifier is a key until the module that holds it is laid out;
then it gets a name that no variable of the module has.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from dataclasses import dataclass
from typing import Any

from . import syntax

HELPERS = "_torchscript"
"""The module of a package that holds operators which Python and torch do not have."""
OBJECTS = "_objects"
WEIGHTS = "_weights"

_MODULES = {
    "F": "torch.nn.functional", "enum": "enum", "math": "math", "nn": "torch.nn", "torch": "torch",
}  # fmt: skip
"""The modules that forms name, by the name that they have there."""

_HOMES = {
    **dict.fromkeys(("casting", "entered", "missing", "native", "new"), OBJECTS),
    **dict.fromkeys(("build", "shared", "tensor"), WEIGHTS),
    **dict.fromkeys(("Any", "NamedTuple", "Optional", "Union"), "typing"),
}
"""The modules from which forms take what is no builtin, by its name."""

_REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
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

    def __deepcopy__(self, memo: object) -> Reference:
        return self  # copies of a tree refer to the same


def _to(reference: Reference) -> ast.Name:
    made = ast.Name(reference.key, ast.Load())
    setattr(made, _REFERENCE, reference)
    return made


def reference_of(node: ast.AST) -> Reference | None:
    """Return what a node refers to; None for other nodes."""
    return getattr(node, _REFERENCE, None)


def to_definition(definition: Any) -> ast.Name:
    return _to(Reference("", "", "", definition))


def builtin(name: str) -> ast.Name:
    return _to(Reference("", name, name))


def imported(home: str, name: str) -> ast.Name:
    return _to(Reference(home, name, name))


def helper(key: str) -> ast.Name:
    """Refer to a function of the package's own small run time."""
    return _to(Reference(HELPERS, key, helper_name(key)))


def helper_name(key: str) -> str:
    """Return the name of the function for an operator: ``aten::sorted.int`` is ``sorted_int``."""
    shown = key.partition("::")[2].replace(".", "_").strip("_")
    is_taken = keyword.iskeyword(shown) or hasattr(builtins, shown)
    return f"{shown}_" if is_taken else shown


def form(text: str, *arguments: ast.expr) -> ast.expr:
    """Return an expression such as ``torch.device(_0)`` with its arguments filled in.

    Its other names are those of modules, builtins, and what packages import by its name.
    """
    filled = statement(text, *arguments)
    assert isinstance(filled, ast.Expr)
    return filled.value


def statement(text: str, *arguments: ast.expr) -> ast.stmt:
    """Return a statement such as ``del _0[_1]`` with its arguments filled in."""
    return syntax.substituted(text, arguments, _global)


def _global(name: str) -> ast.expr:
    if name in _MODULES:
        return _to(Reference(_MODULES[name], "", name))
    return imported(_HOMES[name], name) if name in _HOMES else builtin(name)
