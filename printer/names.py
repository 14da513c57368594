"""Names: what counts as an identifier, what is reserved, and how collisions are resolved."""

from __future__ import annotations

import keyword
import re
from collections import defaultdict

from .types import NamedType, own_name

# Names with a meaning in serialized code; Python's keywords are reserved as well.
RESERVED = frozenset(keyword.kwlist) | {
    "_", "as", "aten", "attribute", "CONSTANTS", "fork", "getattr", "inf", "nan", "infj", "nanj",
    "ops", "__torch__", "uninitialized", "unchecked_cast",
}  # fmt: skip

MANGLE_PREFIX = "___torch_mangle_"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_NOT_IN_IDENTIFIER = re.compile(r"[^A-Za-z_0-9]")
_UNIQUE_SUFFIX = re.compile(r"(.*)\.\d+", re.DOTALL)


def is_identifier(name: str) -> bool:
    """ASCII identifiers; keywords count too, since torch prints them as they are."""
    return _IDENTIFIER.fullmatch(name) is not None


def to_identifier(name: str) -> str:
    """``name`` with every other character replaced by ``_``, never starting with a digit."""
    prefix = "_" if not name or name[0] in "0123456789" else ""
    return prefix + _NOT_IN_IDENTIFIER.sub("_", name)


def base_name(debug_name: str) -> str | None:
    """The name of a value without the suffix that made it unique in its graph.

    Values without a name show only a number; they give None.
    """
    if debug_name.isdigit():
        return None
    match = _UNIQUE_SUFFIX.fullmatch(debug_name)
    return match.group(1) if match else debug_name


class NamePool:
    """Makes local names unique: names in use per function, counters per code record."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(int)

    def start_function(self) -> None:
        self.used.clear()

    def unique(self, candidate: str) -> str:
        name = candidate
        while name in self.used or name in RESERVED:
            # The counter belongs to the name that collided, not to the candidate.
            count = self._next[name]
            self._next[name] += 1
            name = f"{candidate}{count}"
        self.used.add(name)
        return name


class TypeNames:
    """Qualified names of types in one archive: a second type of the same name is mangled."""

    def __init__(self) -> None:
        self._names: dict[NamedType, str] = {}
        self._taken: set[str] = set()
        self._counter = 0

    def name(self, named: NamedType) -> str:
        found = self._names.get(named)
        if found is None:
            found = own_name(named)
            while found in self._taken:
                found = self._mangle(found)
            self._names[named] = found
            self._taken.add(found)
        return found

    def _mangle(self, name: str) -> str:
        atoms = name.split(".")
        for index, atom in enumerate(atoms):
            if atom.startswith(MANGLE_PREFIX):
                number = int(atom.removeprefix(MANGLE_PREFIX))
                self._counter = number + 1
                atoms[index] = f"{MANGLE_PREFIX}{self._counter}"
                self._counter += 1
                return ".".join(atoms)
        atoms.insert(len(atoms) - 1, f"{MANGLE_PREFIX}{self._counter}")
        self._counter += 1
        return ".".join(atoms)
