"""The canonical form of code, which depends on the program alone.

torch numbers a class by what its process compiled before, and a variable by the definitions before
it in the same record; it lists class constants in hash order, and methods in the order in which the
process happened to compile them. Here the numbers are assigned anew, from zero, and constants and
methods are sorted.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tsarchive.ir.classes import ClassConstant, ClassType, Function, FunctionType
from tsarchive.ir.graph import Node
from tsarchive.ir.names import MANGLE_PREFIX, RESERVED, NamePool, TypeNames, unmangled
from tsarchive.ir.types import NamedType, own_name

from .definitions import Definitions
from .reading_back import BUILTINS

# torch names the value of an attribute "0" _0: that number is a name.
_NUMBERED = re.compile(r"(?!_\d+$)(.*?\D)\d+", re.DOTALL)
# Values named like builtins are renamed where they would shadow one; here they always are.
_NEVER_LOCAL = RESERVED | BUILTINS
# Python has no parameters named like keywords, so torch never had to rename one.
_RENAMED_PARAMETERS = RESERVED.difference(keyword.kwlist)


class CanonicalNames(TypeNames):
    """Qualified names without process-dependent numbers; types that share a name are counted.

    The first type keeps the name as it is. Type tags use the same names.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()
        self._owners: dict[FunctionType, ClassType] = {}

    def meet(self, named: NamedType) -> None:
        if isinstance(named, ClassType):
            for hook in named.hooks():
                self._owners.setdefault(hook.type, named)

    def _choose(self, named: NamedType) -> str:
        # A call of a hook names it as a member of its class.
        if isinstance(named, FunctionType) and named in self._owners:
            return f"{self.name(self._owners[named])}.{named.function.name}"
        plain = found = unmangled(own_name(named))
        folder, _, name = plain.rpartition(".")
        while found in self._taken:
            found = f"{folder}.{MANGLE_PREFIX}{self._counts[plain]}.{name}"
            self._counts[plain] += 1
        return found


class CanonicalPool(NamePool):
    """Local names whose numbers depend on the function alone.

    ``x3`` beside ``x`` may be torch's third ``x`` or the user's own name; the text does not tell,
    so both are counted as one more ``x``. Where there is no ``x`` the number is part of the name.
    """

    def start_function(self) -> None:
        super().start_function()
        self._next.clear()

    def unique(self, candidate: str) -> str:
        base = next(filter(self._is_taken, _bases(candidate)), candidate)
        name = base
        while self._is_taken(name):
            name = f"{base}{self._next[base]}"
            self._next[base] += 1
        self.used.add(name)
        return name

    def parameter(self, name: str, *, is_chosen: bool = True) -> str:
        """Name a parameter. Callers use parameter names: only those that torch renamed change."""
        if not is_chosen:
            return self.unique(name)
        renamed = next(filter(_RENAMED_PARAMETERS.__contains__, _bases(name)), name)
        return super().unique(renamed)

    def _is_taken(self, name: str) -> bool:
        return name in self.used or name in _NEVER_LOCAL


def _bases(name: str) -> Iterator[str]:
    """Yield the name without some of its last digits, shortest first: ``x`` and ``x1`` of x12."""
    numbered = _NUMBERED.fullmatch(name)
    if numbered is not None:
        for end in range(numbered.end(1), len(name)):
            yield name[:end]


class CanonicalDefinitions(Definitions):
    """Prints definitions with members in sorted order."""

    name_pool = CanonicalPool
    has_samples = False

    def written_arguments(self, node: Node) -> int:
        return 0

    def constants_of(self, class_: ClassType) -> Iterable[ClassConstant]:
        return [constant for _, constant in sorted(class_.constants.items())]

    def methods_of(self, class_: ClassType) -> Iterable[Function]:
        return [method for _, method in sorted(class_.methods.items())]
