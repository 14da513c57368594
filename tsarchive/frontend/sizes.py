"""A bound on the size of types.

A few lines can build a type of 2**60 parts: ``t1 = (t0, t0)``, ``t2 = (t1, t1)`` and so on, or a
chain of named tuples. Such a type takes little memory, but cannot be compared or printed.
"""

from __future__ import annotations

from typing import Final

from tsarchive.errors import SourceError
from tsarchive.ir.types import COMPOSITE, SimpleType, Type

MAX_TYPE_SIZE: Final = 10_000


class TypeSizes:
    """Counts the parts of types; a part that is met again is not walked again."""

    def __init__(self) -> None:
        # The types are kept, so that their ids stay theirs.
        self._known: dict[int, tuple[Type, int]] = {}

    def checked(self, type_: Type) -> Type:
        """The type itself. Raises SourceError when it has too many parts."""
        if type(type_) is SimpleType:
            return type_
        if isinstance(type_, COMPOSITE) and self._size(type_) > MAX_TYPE_SIZE:
            raise SourceError(f"a type of more than {MAX_TYPE_SIZE} parts is not supported")
        return type_

    def _size(self, type_: Type) -> int:
        if not isinstance(type_, COMPOSITE):
            return 1
        found = self._known.get(id(type_))
        if found is None:
            size = 1 + sum(map(self._size, type_.parts()))
            found = self._known[id(type_)] = (type_, size)
        return found[1]
