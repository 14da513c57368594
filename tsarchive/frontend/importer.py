"""From the code records of an archive to types and functions, each made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tsarchive.errors import ArchiveError, SourceError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.types import NamedType

from .context import Context
from .definitions import define
from .functions import FunctionReader
from .splitting import Piece
from .syntax import bounded


class CodeImporter(Context):
    """Gives the classes and functions that an archive's code defines."""

    def find(self, qualified_name: str) -> NamedType | None:
        try:
            return self.found[qualified_name]
        except KeyError:
            pass
        early = self.early.get(qualified_name)
        if early is not None:
            return early
        record = self.sources.record_of(qualified_name)
        if qualified_name in self.importing:
            message = f"the definition of {qualified_name} contains itself"
            self.refuse(SourceError(message, record=record))
            return self._unknown(qualified_name)
        self.importing.add(qualified_name)
        try:
            found = self._defined(qualified_name, record, partial(self._import, qualified_name))
            return self.found.setdefault(qualified_name, found)
        finally:
            self.importing.remove(qualified_name)
            self.early.pop(qualified_name, None)

    def _defined(
        self, name: str, record: str, read: Callable[[], NamedType | None]
    ) -> NamedType | None:
        """Read a definition; in an open world one that is refused is of an unknown class."""
        try:
            with bounded(record):
                return read()
        except ArchiveError as error:
            self.refuse(error)
            return self._unknown(name)

    def _import(self, qualified_name: str) -> NamedType | None:
        is_native = qualified_name.startswith(NATIVE_PREFIX)
        if is_native and self.open is None:
            return self.native_class(qualified_name)
        piece = self.sources.piece(qualified_name)
        # torch runs code in this namespace, too, where no library has a class of the name.
        if is_native and (piece is None or "def " not in piece.text):
            return self.native_class(qualified_name)
        return None if piece is None else define(self, qualified_name, piece)

    def definitions(self, record: str) -> list[str]:
        """Return the qualified names that a code record defines, in file order."""
        return self.sources.definitions(record)

    def define_all(self, record: str) -> dict[str, NamedType]:
        """Return what a code record defines by its name, even where no name leads to the record."""
        found: dict[str, NamedType | None] = {}
        for name, piece in zip(self.definitions(record), self.sources.pieces(record), strict=True):
            if self.sources.record_of(name) == record:
                found[name] = self.find(name)
            else:
                found[name] = self._defined(name, record, partial(define, self, name, piece))
        return {name: type_ for name, type_ in found.items() if type_ is not None}

    def add(self, named: ClassType) -> None:
        """Make a class known that no code record defines."""
        self.found[named.qualified_name] = named

    def method(self, owner: ClassType, piece: Piece, version: int) -> Function:
        """Return a method of a class that no code record defines."""
        name = f"{owner.qualified_name}.{piece.name}"
        return FunctionReader(self, name, piece, owner, version).function
