"""The open world: code is lowered whatever it names, and what nobody knows is said in the graph.

Code that cannot run here, or nowhere, is looked into like any other. An operator, method or
function that is not known becomes a node of its kind with a ``refusal`` and an output of the type
UNKNOWN; so do the constructs of ``UNLOWERED``. What is known runs exactly as it is lowered.
"""

from __future__ import annotations

from typing import Final

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Value
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.subtyping import has_unknown
from tsarchive.ir.types import Type
from tsarchive.operators.overloads import native_class

UNLOWERED: Final = "prim::Unlowered"
"""An expression or statement that is refused; what stands in it is lowered before it."""
EARLY_RETURN: Final = "prim::EarlyReturn"
"""A return that is not the last statement of a function, which is refused; its value."""
UNKNOWN_NAME: Final = "prim::UnknownName"
"""A bare name that means nothing, in ``name``; or an attribute of Python's own, in ``attribute``
as well."""
UNREACHABLE: Final = "prim::Unreachable"
"""One block: the branch that a condition rules out; the attribute ``is_literal`` tells whether
the condition is a literal, and not a type."""


class OpenWorld:
    """The classes that nobody knows, and what of the code is refused, in the order of reading."""

    def __init__(self) -> None:
        self.refused: list[ArchiveError] = []
        # Constants of classes and defaults of parameters as they are written, by the qualified
        # name of the class or function, and their own.
        self.constants: dict[tuple[str, str], Value] = {}
        self._classes: dict[str, ClassType] = {}
        self._known: set[str] = set()

    def class_of(self, qualified_name: str) -> ClassType:
        """Return the class of a name that nothing defines; it may have any attributes."""
        found = self._classes.get(qualified_name)
        if found is None:
            is_native = qualified_name.startswith(NATIVE_PREFIX)
            made = native_class if is_native else ClassType
            found = self._classes[qualified_name] = made(qualified_name)
        return found

    def bound_class(self, qualified_name: str) -> ClassType | None:
        """Return the class of a name that a library may bind; None for any other name."""
        is_bound = qualified_name.startswith(NATIVE_PREFIX)
        has_namespace = qualified_name.count(".") == NATIVE_PREFIX.count(".") + 1
        return self.class_of(qualified_name) if is_bound and has_namespace else None

    def is_open(self, type_: Type) -> bool:
        """Return whether values of a type may have attributes and methods that nobody knows."""
        if not isinstance(type_, ClassType):
            return has_unknown(type_)
        return type_.is_native or self._classes.get(type_.qualified_name) is type_

    def refuse(self, error: ArchiveError) -> None:
        """Note, once, that something is not lowered as it is written."""
        text = str(error)
        if text not in self._known:
            self._known.add(text)
            self.refused.append(error)
