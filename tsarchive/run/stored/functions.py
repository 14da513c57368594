"""The compiled functions of one archive: those of an earlier process, and those to be kept.

An operator is decided over again by the policy in force whenever a function that reaches it is
taken. What cannot be taken, for whatever reason, is compiled as if nothing was stored.
"""

from __future__ import annotations

import hashlib
import logging
import marshal
import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from torch import is_tensor

from tsarchive.errors import ArchiveError
from tsarchive.run.compiler import MovedPlaces
from tsarchive.run.linkage import Call, Linkage, Source
from tsarchive.run.objects import as_number
from tsarchive.run.tracebacks import LAYERS

from .recipes import (
    ArchiveNames,
    Context,
    Handed,
    bound_stored,
    namespace_of,
    recipe_of,
)
from .types import TypeReader, TypeWriter, Unstorable

if TYPE_CHECKING:
    from tsarchive.ir.classes import Function, SharedMethod
    from tsarchive.ir.graph import Placed

logger = logging.getLogger("tsarchive.cache")

Key = tuple[str, Any, Any]
# Of a place: line and column, and those of the end.
_PLACE: Final = 4
_NOWHERE: Final = [0] * _PLACE


class Archive(ArchiveNames, Protocol):
    """What stored functions ask of the archive whose functions they are."""

    @property
    def fits(self) -> bool:
        """Whether what is stored was made for constants and operators like those of today."""

    def note_numbers(self) -> None:
        """Note the numbers in constants that code is made for."""

    def place(self, record: str, numbers: Sequence[int]) -> Placed:
        """Return the place in a code record of line, column, end line and end column."""


class StoredPlaces(Sequence["Placed | None"]):
    """The places of the lines of a body, each made when it is asked for."""

    def __init__(
        self, record: str, numbers: array[int], place: Callable[[str, Sequence[int]], Placed]
    ) -> None:
        self._record = record
        self._numbers = numbers
        self._place = place

    def __len__(self) -> int:
        return len(self._numbers) // _PLACE

    def __getitem__(self, index: Any) -> Any:
        first = range(len(self))[index] * _PLACE
        numbers = self._numbers[first : first + _PLACE].tolist()
        return None if numbers == _NOWHERE else self._place(self._record, numbers)


def _places_stored(places: Sequence[Any]) -> tuple[str, bytes]:
    """Return the record that places are in, and their numbers; lines from nowhere have zeros."""
    records = {place.record for place in places if place is not None}
    if len(records) > 1:
        raise Unstorable("a function has places in several records")
    numbers = array("i")
    for place in places:
        numbers.extend(_NOWHERE if place is None else place[1:])
    return records.pop() if records else "", numbers.tobytes()


class Compiled(NamedTuple):
    """A function that a process has compiled, and the names that the policy allowed."""

    call: Call
    source: Source
    allowed: frozenset[str]
    process: int


class StoredFunctions:
    """Takes functions from what is stored, and remembers those that are compiled.

    ``bodies`` are name, text, code and places of sources, and the names that the policy must allow;
    ``functions`` have by their call the number of their body, the recipes of their globals, and
    the method whose places theirs correspond to, if it is another one.
    """

    def __init__(
        self,
        archive: Archive,
        reader: TypeReader,
        bodies: list[Any],
        functions: dict[Key, Any],
        compared: Mapping[str, bool],
    ) -> None:
        self.archive = archive
        self.reader = reader
        self.bodies = bodies
        self.functions = functions
        self.compared = compared
        self.compiled: list[Compiled] = []
        # Functions that could not be stored, and why.
        self.refused: list[str] = []
        self.handed = Handed()
        self._made: dict[int, Source] = {}
        self.linkage: Linkage

    def link(self, linkage: Linkage) -> None:
        """Serve the code that refers to ``linkage``, whose calls of operators are remembered."""
        self.linkage = linkage
        self._dispatch = linkage.dispatch
        linkage.dispatch = self.handed.watched(linkage.dispatch)
        for name, compares in self.compared.items():
            function = self.archive.function(name)
            if function is not None:
                linkage.analyses.compared[function] = compares

    def take(self, call: Call) -> Source | None:
        """Return the stored code of a function; None where it must be compiled."""
        if not self.functions:
            return None
        name = call.function.qualified_name
        try:
            self._drop_unfit()
            stored = self.functions.get(self._key(call))
            return None if stored is None else self._source(call, *stored)
        except (ArchiveError, Unstorable, LookupError, TypeError, ValueError, EOFError) as error:
            logger.debug("%s is compiled again: %s", name, error)
            return None

    def _drop_unfit(self) -> None:
        """Forget what is stored if it was made for other constants or operators."""
        if self.functions and not self.archive.fits:
            self.bodies, self.functions = [], {}

    def add(self, call: Call, source: Source, allowed: Iterable[str]) -> None:
        """Remember a function that was compiled, after the policy has allowed what it names."""
        self.archive.note_numbers()
        self.compiled.append(Compiled(call, source, frozenset(allowed), os.getpid()))

    def _key(self, call: Call) -> Key:
        name = call.function.qualified_name
        if self.archive.function(name) is not call.function:
            raise Unstorable(f"{name} is not a function of the archive")
        wanted = None if call.wanted is None else tuple(sorted(call.wanted))
        return name, bound_stored(call.bound, self.archive), wanted

    def _context(self, writer: TypeWriter) -> Context:
        linkage = self.linkage
        return Context(linkage, self._dispatch, self.archive, self.handed, writer, self.reader)

    @cached_property
    def _reading(self) -> Context:
        return self._context(TypeWriter(self.reader.find))

    def _source(self, call: Call, number: int, recipes: Any, moved: str | None) -> Source:
        body = self._body(number)
        made = body._replace(namespace=namespace_of(recipes, self._reading))
        if moved is None:
            return made
        method = _sharing(self.archive.function(moved))
        places = MovedPlaces(body.places, method, _sharing(call.function), moved)
        return made._replace(places=places)

    def _body(self, number: int) -> Source:
        """Return a body without its globals, once the policy has allowed all that it names."""
        found = self._made.get(number)
        if found is None:
            name, text, code, record, numbers, allowed = self.bodies[number]
            for operator in allowed:
                self.linkage.enforcement.check_allowed(operator)
            lines = [f"{line}\n" for line in text.split("\n")]
            places = StoredPlaces(record, array("i", numbers), self.archive.place)
            found = self._made[number] = Source(name, lines, marshal.loads(code), {}, places)
        return found

    def extended(self, writer: TypeWriter) -> tuple[list[Any], dict[Key, Any]]:
        """Return the bodies and functions, with those that were compiled here."""
        self._drop_unfit()  # nothing may have been taken before
        allowed: dict[int, frozenset[str]] = {}
        for one in self.compiled:  # what shares a body names what its body does
            allowed[id(one.source.code)] = one.allowed | allowed.get(id(one.source.code), set())
        writing = _Writing(self._context(writer), list(self.bodies), dict(self.functions), allowed)
        for compiled in self.compiled:
            try:
                writing.functions[self._key(compiled.call)] = writing.function(compiled)
            except Unstorable as reason:
                self.refused.append(f"{compiled.call.function.qualified_name}: {reason}")
        return writing.bodies, writing.functions


def _sharing(function: Function | None) -> SharedMethod:
    if function is None or function.sharing is None:
        raise Unstorable("a body is shared by what is no method of a module")
    return function.sharing


class _Writing:
    """Puts compiled functions into their stored form, each body once."""

    def __init__(
        self,
        context: Context,
        bodies: list[Any],
        functions: dict[Key, Any],
        allowed: Mapping[int, frozenset[str]],
    ) -> None:
        self.context = context
        self.bodies = bodies
        self.functions = functions
        self.allowed = allowed
        self._numbers: dict[int, tuple[int, str]] = {}

    def function(self, compiled: Compiled) -> Any:
        source = compiled.source
        recipes = tuple(
            (name, recipe_of(value, self.context)) for name, value in _used(source).items()
        )
        own = compiled.call.function.qualified_name
        number, moved = self._body(source, own)
        return number, recipes, None if moved == own else moved

    def _body(self, source: Source, own: str) -> tuple[int, str]:
        """Return the number of a body, and the method that has the places that it is stored with.

        Equal methods have one code object, that of the first.
        """
        places, of = source.places, own
        if isinstance(places, MovedPlaces):
            of = places.body_name
            places = places.places
        found = self._numbers.get(id(source.code))
        if found is None:
            text = "".join(source.lines).removesuffix("\n")
            code = marshal.dumps(source.code)
            allowed = tuple(sorted(self.allowed[id(source.code)]))
            self.bodies.append((source.name, text, code, *_places_stored(places), allowed))
            found = self._numbers[id(source.code)] = len(self.bodies) - 1, of
        return found


def _used(source: Source) -> dict[str, Any]:
    """Return the globals of a source without those that its text came to do without.

    A default value has a name before it is known that the operator is called without it.
    """
    names = _names_in(source.code) | {LAYERS, *(n for _, n in source.namespace.get(LAYERS, ()))}
    return {name: value for name, value in source.namespace.items() if name in names}


def _names_in(code: CodeType) -> set[str]:
    """Return the names that code, and what it defines, may look up as globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names


def schemas_of(functions: Iterable[Function], writer: TypeWriter) -> dict[str, Any]:
    """Return the stored schemas of functions, of those that have a stored form."""
    found = {}
    for function in functions:
        try:
            found[function.qualified_name] = writer.schema(function.schema)
        except (ArchiveError, Unstorable):
            continue
    return found


def numbers_in(constants: Iterable[Any]) -> bytes:
    """Return a digest of what code is made for in constants: those that act as numbers.

    Of numbers that are not whole, code has the place in the table, and is made for their type.
    """
    shown = [_number_shown(value) if is_tensor(value) else "" for value in constants]
    return hashlib.sha256("\n".join(shown).encode()).digest()


def _number_shown(value: Any) -> str:
    number = as_number(value)
    return f"{number}" if isinstance(number, int) else type(number).__name__
