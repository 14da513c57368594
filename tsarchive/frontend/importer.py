"""From the code records of an archive to types and functions, each made when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tsarchive.errors import SourceError, UnknownClassError
from tsarchive.ir.classes import ClassType, FunctionType
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.source_ranges import TaggedRange
from tsarchive.ir.type_parser import parse_type
from tsarchive.ir.types import NamedType, Type
from tsarchive.operators.upgraders import Candidate, candidates

from .definitions import define
from .dialect import CURRENT, Dialect
from .libraries import what_registers
from .places import RecordPlaces
from .sizes import TypeSizes
from .splitting import Piece, split_record
from .syntax import bounded
from .twins import Twins

if TYPE_CHECKING:
    from .folding import Evaluate
    from .matching import Match

NATIVE_PREFIX = "__torch__.torch.classes."


class CodeImporter:
    """Gives the classes and functions that an archive's code defines.

    files: code records by name (``code/__torch__/a/b.py``), as text or a callable that reads it;
    operators: the overloads of an operator kind in the order of selection, none when unknown;
    constant: entry N of the constant table and its type; raises IndexError past the end;
    version: the archive's version, which decides the meaning of changed operators;
    native_class: the class that a library of this process registers under a qualified name;
    evaluate: the function that runs an operator on Python values, None where there is none;
    debug: the ranges of user source that text of a code record stands for, by record;
    dialect: what the text means otherwise than text of today;
    reads_bodies: whether the graphs of functions can be made, which takes operators.
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
    ) -> None:
        self.operators = operators
        self.constant = constant
        self.version = version
        self.evaluate = evaluate
        self.dialect = dialect
        self.reads_bodies = reads_bodies
        # The class whose ``__init__`` is read in order to learn the attributes that it assigns.
        self.initialising: ClassType | None = None
        self._files = files
        self._debug = debug
        self._native_class = native_class
        self._pieces: dict[str, dict[str, Piece]] = {}
        self._places: dict[str, RecordPlaces] = {}
        self._found: dict[str, NamedType | None] = {}
        self._early: dict[str, NamedType] = {}
        self._importing: set[str] = set()
        self._types: dict[str, Type] = {}
        self.sizes = TypeSizes()
        self.twins = Twins(self)
        # The overload that calls of an operator mean, by operator, version and Call.shape.
        self.choices: dict[Hashable, tuple[Candidate, Match]] = {}
        self._candidates: dict[tuple[str, int | None], tuple[Candidate, ...]] = {}

    def find(self, qualified_name: str) -> NamedType | None:
        """The class, enum, interface, named tuple or function of a qualified name.

        None when no record defines it. Raises SourceError for code that cannot be imported.
        """
        try:
            return self._found[qualified_name]
        except KeyError:
            pass
        early = self._early.get(qualified_name)
        if early is not None:
            return early
        if qualified_name in self._importing:
            raise SourceError(
                f"the definition of {qualified_name} contains itself",
                record=self.record_of(qualified_name),
            )
        self._importing.add(qualified_name)
        try:
            with bounded(self.record_of(qualified_name)):
                found = self._import(qualified_name)
            return self._found.setdefault(qualified_name, found)
        finally:
            self._importing.remove(qualified_name)
            self._early.pop(qualified_name, None)

    def find_class(self, qualified_name: str) -> NamedType:
        """Like :meth:`find`, for a type that must exist. Raises UnknownClassError."""
        found = self.find(qualified_name)
        if found is None or isinstance(found, FunctionType):
            raise self._unknown_class(qualified_name)
        return found

    def parse_type(self, text: str) -> Type:
        """The type that an annotation or a type tag writes."""
        found = self._types.get(text)
        if found is None:
            found = self.sizes.checked(parse_type(text, self.resolve_type))
            self._types[text] = found
        return found

    def definitions(self, record: str) -> list[str]:
        """The qualified names that a code record defines, in file order."""
        path = record.removeprefix(f"{self.dialect.folder}/").removesuffix(".py")
        qualifier = path.replace("/", ".")
        return [f"{qualifier}.{name}" for name in self._read(record)]

    def text_of(self, qualified_name: str) -> str | None:
        """The text that defines a qualified name; None when no record does."""
        qualifier, _, name = qualified_name.rpartition(".")
        piece = self._read(self.record_of(qualified_name)).get(name) if qualifier else None
        return None if piece is None else piece.text

    def resolve_type(self, qualified_name: str) -> Type | None:
        """The type of a name in an annotation; None for a bare name, which no record defines."""
        return self.find_class(qualified_name) if "." in qualified_name else None

    def record_of(self, qualified_name: str) -> str:
        """The code record that defines a qualified name."""
        qualifier = qualified_name.rpartition(".")[0]
        return f"{self.dialect.folder}/{qualifier.replace('.', '/')}.py"

    def add(self, named: ClassType) -> None:
        """Make a class known that no code record defines."""
        self._found[named.qualified_name] = named

    def register(self, qualified_name: str, named: NamedType) -> None:
        """Make a type known before its parts are, so that they may refer to it."""
        self._early[qualified_name] = named

    def candidates(self, kind: str, version: int | None) -> tuple[Candidate, ...]:
        """The overloads that a call of ``kind`` may mean in code of an archive version."""
        key = kind, version
        found = self._candidates.get(key)
        if found is None:
            found = self._candidates[key] = candidates(self.operators(kind), version)
        return found

    def places(self, record: str) -> RecordPlaces:
        """The places in a code record."""
        found = self._places.get(record)
        if found is None:
            found = RecordPlaces(record, lambda: self._text(record), self._debug)
            self._places[record] = found
        return found

    def _import(self, qualified_name: str) -> NamedType | None:
        if qualified_name.startswith(NATIVE_PREFIX):
            return self._native_class(qualified_name)
        piece = self._read(self.record_of(qualified_name)).get(qualified_name.rpartition(".")[2])
        return None if piece is None else define(self, qualified_name, piece)

    def _read(self, record: str) -> dict[str, Piece]:
        pieces = self._pieces.get(record)
        if pieces is None:
            pieces = self._pieces[record] = split_record(self._text(record), record)
        return pieces

    def _text(self, record: str) -> str:
        source = self._files.get(record, "")
        return source if isinstance(source, str) else source()

    def _unknown_class(self, qualified_name: str) -> UnknownClassError:
        if qualified_name.startswith(NATIVE_PREFIX):
            return UnknownClassError(
                f"the class {qualified_name} is not registered in this process",
                hint=what_registers(qualified_name),
            )
        return UnknownClassError(
            f"the archive does not define {qualified_name}",
            record=self.record_of(qualified_name),
            hint="The archive is incomplete, or was changed after it was written",
        )
