"""From the code records of an archive to types and functions, each made when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from tsarchive.errors import ArchiveError, SourceError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.source_ranges import TaggedRange
from tsarchive.ir.types import NamedType, Type

from .context import CURRENT, Context, Dialect, Evaluate
from .definitions import define
from .functions import FunctionReader
from .sources import Sources
from .splitting import Piece
from .syntax import bounded


class CodeImporter:
    """Gives the classes and functions that an archive's code defines.

    files: code records by name (``code/__torch__/a/b.py``), as text or a callable that reads it;
    operators: the overloads of an operator kind in the order of selection, none when unknown;
    constant: entry N of the constant table and its type; raises IndexError past the end;
    version: the archive's version, which decides the meaning of changed operators;
    native_class: the class that a library of this process registers under a qualified name;
    evaluate: the function that runs an operator on Python values, None where there is none;
    debug: the ranges of user source that text of a code record stands for, by record;
    dialect: how the text differs from text of today;
    reads_bodies: whether the graphs of functions can be made, which takes operators;
    open_world: whether code is lowered whatever it names, as :mod:`.open_world` tells.
    """

    def __init__(
        self,
        files: Mapping[str, Callable[[], str] | str],
        *,
        operators: Callable[[str], Sequence[FunctionSchema]],
        constant: Callable[[int], tuple[Any, Type]],
        version: int,
        native_class: Callable[[str], ClassType | None],
        evaluate: Evaluate,
        debug: Mapping[str, Sequence[TaggedRange]] = MappingProxyType({}),
        dialect: Dialect = CURRENT,
        reads_bodies: bool = True,
        open_world: bool = False,
    ) -> None:
        self.context = Context(
            Sources(files, debug, dialect.folder),
            self.find,
            operators=operators,
            constant=constant,
            version=version,
            evaluate=evaluate,
            dialect=dialect,
            reads_bodies=reads_bodies,
            open_world=open_world,
        )
        self._native_class = native_class
        self._found: dict[str, NamedType | None] = {}
        self._importing: set[str] = set()

    def find(self, qualified_name: str) -> NamedType | None:
        """Return the class, enum, interface, named tuple or function of a qualified name.

        None when no record defines it. Raises SourceError for code that cannot be imported.
        """
        try:
            return self._found[qualified_name]
        except KeyError:
            pass
        early = self.context.early.get(qualified_name)
        if early is not None:
            return early
        record = self.context.sources.record_of(qualified_name)
        if qualified_name in self._importing:
            message = f"the definition of {qualified_name} contains itself"
            error = SourceError(message, record=record)
            if self.context.open is None:
                raise error
            self.context.open.refuse(error)
            return self.context.open.class_of(qualified_name)
        self._importing.add(qualified_name)
        try:
            found = self._defined(qualified_name, record, partial(self._import, qualified_name))
            return self._found.setdefault(qualified_name, found)
        finally:
            self._importing.remove(qualified_name)
            self.context.early.pop(qualified_name, None)

    def _defined(
        self, name: str, record: str, read: Callable[[], NamedType | None]
    ) -> NamedType | None:
        """Read a definition; in an open world one that is refused is of an unknown class."""
        try:
            with bounded(record):
                return read()
        except ArchiveError as error:
            world = self.context.open
            if world is None:
                raise
            world.refuse(error)
            return world.class_of(name)

    def _import(self, qualified_name: str) -> NamedType | None:
        if qualified_name.startswith(NATIVE_PREFIX):
            return self._native_class(qualified_name)
        piece = self.context.sources.piece(qualified_name)
        return None if piece is None else define(self.context, qualified_name, piece)

    def find_class(self, qualified_name: str) -> NamedType:
        """Like :meth:`find`, for a type that must exist. Raises UnknownClassError."""
        return self.context.find_class(qualified_name)

    def parse_type(self, text: str) -> Type:
        """Return the type that an annotation or a type tag writes."""
        return self.context.parse_type(text)

    def definitions(self, record: str) -> list[str]:
        """Return the qualified names that a code record defines, in file order."""
        return self.context.sources.definitions(record)

    def define_all(self, record: str) -> dict[str, NamedType]:
        """Return what a code record defines by its name, even where no name leads to the record."""
        sources = self.context.sources
        found: dict[str, NamedType | None] = {}
        for name, piece in zip(self.definitions(record), sources.pieces(record), strict=True):
            if sources.record_of(name) == record:
                found[name] = self.find(name)
            else:
                found[name] = self._defined(
                    name, record, partial(define, self.context, name, piece)
                )
        return {name: type_ for name, type_ in found.items() if type_ is not None}

    def add(self, named: ClassType) -> None:
        """Make a class known that no code record defines."""
        self._found[named.qualified_name] = named

    def method(self, owner: ClassType, piece: Piece, version: int) -> Function:
        """Return a method of a class that no code record defines."""
        name = f"{owner.qualified_name}.{piece.name}"
        return FunctionReader(self.context, name, piece, owner, version).function
