"""Names: what counts as an identifier, what is reserved, and how collisions are resolved."""

from __future__ import annotations

import keyword
import re
from collections import defaultdict
from collections.abc import Container, Mapping

from tsarchive.errors import SaveError

from .types import NamedType, own_name

# What TorchScript's parser never takes for a name, wherever it stands.
KEYWORDS = frozenset(
    {
        "and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else",
        "Ellipsis", "False", "for", "global", "if", "import", "in", "is", "None", "NoneType",
        "not", "or", "pass", "raise", "return", "True", "while", "with",
    }
)  # fmt: skip
# Names with a meaning in serialized code; Python's keywords are reserved as well.
RESERVED = frozenset(keyword.kwlist) | KEYWORDS | {
    "_", "aten", "attribute", "CONSTANTS", "fork", "getattr", "inf", "nan", "infj", "nanj",
    "ops", "__torch__", "uninitialized", "unchecked_cast",
}  # fmt: skip

# Qualified names of classes that libraries register.
NATIVE_PREFIX = "__torch__.torch.classes."
MANGLE_PREFIX = "___torch_mangle_"
_NOT_IN_IDENTIFIER = r"[^A-Za-z_0-9]"


def unmangled(qualified_name: str) -> str:
    """Return the name without the parts that tell apart classes of one name."""
    if MANGLE_PREFIX not in qualified_name:
        return qualified_name
    atoms = qualified_name.split(".")
    return ".".join([atom for atom in atoms if not _is_mangle(atom)])


def _is_mangle(atom: str) -> bool:
    return atom.startswith(MANGLE_PREFIX) and atom[len(MANGLE_PREFIX) :].isdecimal()


_MANGLED = re.compile(rf"\b{MANGLE_PREFIX}\d+\.")


def unmangled_text(text: str) -> str:
    """Return text in which names stand, without the parts that tell apart classes of one name."""
    return _MANGLED.sub("", text) if MANGLE_PREFIX in text else text


def closest(path: str, paths: Container[str]) -> str:
    """Return a dotted path, or else the longest of those that it begins with, which is one of
    ``paths``; "" where none is."""
    while path and path not in paths:
        path = path.rpartition(".")[0]
    return path


def is_identifier(name: str) -> bool:
    """ASCII identifiers that are no keywords: names that can stand in code as they are."""
    return name.isidentifier() and name.isascii() and name not in KEYWORDS


def checked_identifier(name: str, what: str) -> str:
    """``name`` if it can stand in code. Raises SaveError: torch writes it, and cannot read it."""
    if not is_identifier(name):
        raise name_error(name, what)
    return name


def name_error(name: str, what: str) -> SaveError:
    return SaveError(
        f"{what} {name!r} has no form that torch.jit reads back",
        hint="Names in TorchScript are ASCII identifiers, and none of its keywords",
    )


def checked_type_name(name: str) -> str:
    """``name`` if it can stand for a type. Raises SaveError.

    torch takes a type by its text, which only has to parse: ``__torch__.my-model.Net`` does.
    """
    return _checked_parts(name, "[-.+*/]")


def checked_value_name(name: str) -> str:
    """``name`` if it can stand for a function, a class or a member of one. Raises SaveError."""
    return _checked_parts(name, "[.]")


def _checked_parts(name: str, separator: str) -> str:
    for part in re.split(separator, name):
        checked_identifier(part, f"in {name}, the part")
    return name


def to_identifier(name: str) -> str:
    """``name`` with every other byte replaced by ``_``, never starting with a digit."""
    if name.isascii() and name.isidentifier():
        return name
    prefix = "_" if not name or name[0] in "0123456789" else ""
    shown = name.encode("utf-8", "surrogateescape").decode("latin-1")
    return prefix + re.sub(_NOT_IN_IDENTIFIER, "_", shown)


def to_type_name(name: str) -> str:
    """``name`` with each of its dotted parts an identifier that is no keyword."""
    parts = [to_identifier(part) for part in name.split(".")]
    return ".".join([part if is_identifier(part) else f"{part}_" for part in parts])


def untaken_name(qualified_name: str, taken: set[str]) -> str:
    """Return the name, mangled where it is ``taken``; it is added to those that are."""
    qualifier, _, own = qualified_name.rpartition(".")
    found, number = qualified_name, 0
    while found in taken:
        found = f"{qualifier}.{MANGLE_PREFIX}{number}.{own}"
        number += 1
    taken.add(found)
    return found


def base_name(debug_name: str) -> str | None:
    """Return the name of a value without the suffix that made it unique in its graph.

    Values without a name show only a number; they give None.
    """
    if debug_name.isdigit():
        return None
    base, dot, number = debug_name.rpartition(".")
    return base if dot and number.isdecimal() else debug_name


class NamePool:
    """Makes local names unique: names in use per function, counters per code record."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(int)

    def start_function(self) -> None:
        self.used.clear()

    @property
    def counters(self) -> dict[str, int]:
        """The counters of the code record, which decide over names beside what is in use."""
        return dict(self._next)

    @counters.setter
    def counters(self, counters: Mapping[str, int]) -> None:
        self._next.update(counters)

    def unique(self, candidate: str) -> str:
        name = candidate
        while name in self.used or name in RESERVED:
            # The counter belongs to the name that collided, not to the candidate.
            count = self._next[name]
            self._next[name] += 1
            name = f"{candidate}{count}"
        self.used.add(name)
        return name

    def parameter(self, name: str, *, is_chosen: bool = True) -> str:
        """Return the name of a parameter, which callers know where a person has chosen it."""
        return self.unique(name)


class TypeNames:
    """Qualified names of types in one archive: a second type of the same name is mangled."""

    def __init__(self) -> None:
        self._names: dict[NamedType, str] = {}
        self._taken: set[str] = set()
        self._counter = 0

    def name(self, named: NamedType) -> str:
        found = self._names.get(named)
        if found is None:
            found = self._names[named] = self._choose(named)
            self._taken.add(found)
        return found

    def expected(self, named: NamedType) -> str | None:
        """Return the name, without giving it to a type that has none; None where it is mangled."""
        own = own_name(named)
        return self._names.get(named, None if own in self._taken else own)

    def tag(self, named: NamedType) -> str:
        """Return the name in type tags of pickles and in annotations that torch does not rename."""
        return self.name(named)

    def meet(self, named: NamedType) -> None:
        """Called for every type that code depends on, before the code itself is printed."""

    def _choose(self, named: NamedType) -> str:
        found = own_name(named)
        while found in self._taken:
            found = self._mangle(found)
        return found

    def _mangle(self, name: str) -> str:
        atoms = name.split(".")
        index = next((i for i, atom in enumerate(atoms) if atom.startswith(MANGLE_PREFIX)), None)
        if index is None:
            index = len(atoms) - 1
            atoms.insert(index, MANGLE_PREFIX)
        else:
            self._counter = max(self._counter, int(atoms[index].removeprefix(MANGLE_PREFIX)) + 1)
        atoms[index] = f"{MANGLE_PREFIX}{self._counter}"
        self._counter += 1
        return ".".join(atoms)
