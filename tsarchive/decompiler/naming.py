"""Names of modules, classes and members: identifiers of Python, whatever the archive says."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

from tsarchive.ir.names import to_identifier, unmangled

_LONGEST = 60
_ROOT = "__torch__"
_ROOT_MODULE = "model"

GLOBAL_NAMES = frozenset(
    {name for name in dir(builtins) if name.islower()} | {"torch", "nn", "F", "math", "self"}
) - {"input", "id", "hash", "vars", "dir", "iter", "next", "format", "filter", "map", "object"}
"""Names that variables leave to what every reader takes them for."""


def identifier(text: str, *, private: bool = True) -> str:
    """An identifier like ``text``, which may be anything."""
    found = to_identifier(text)[:_LONGEST]
    if not private:
        found = found.lstrip("_") or "v"
    if found[0].isdigit():
        found = f"v{found}"
    return f"{found}_" if keyword.iskeyword(found) or found == "_" else found


def definition_name(text: str) -> str:
    """The name of a class or function, which stands for it in classes and modules alike.

    Python gives names in two underscores other names inside of classes, or a meaning in modules;
    and ``super()`` means the class around it by that name alone.
    """
    found = identifier(text)
    if found.startswith("__"):
        found = identifier(text, private=False)
    return f"{found}_" if found == "super" else found


def module_path(qualified_name: str) -> tuple[str, ...]:
    """The parts of the module that holds a class or function of an archive."""
    *atoms, _ = unmangled(qualified_name).split(".")
    if atoms[:1] == [_ROOT]:
        del atoms[0]
    parts = tuple(identifier(atom) for atom in atoms)
    # Names in double underscores mean something to Python, those of one belong to the package.
    return tuple(f"m{part}" if part[0] == "_" else part for part in parts) or (_ROOT_MODULE,)


class Pool:
    """Makes names unique within one scope, also where case is ignored."""

    def __init__(self, taken: Iterable[str] = (), *, fold: bool = True) -> None:
        self._fold = fold
        self._taken = set(taken)

    def unique(self, candidate: str) -> str:
        found, number = candidate, 1
        while self._key(found) in self._taken:
            found = f"{candidate}_{number}"
            number += 1
        self._taken.add(self._key(found))
        return found

    def _key(self, name: str) -> str:
        return name.lower() if self._fold else name
