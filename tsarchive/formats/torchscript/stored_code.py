"""The code of an archive as an earlier process has read and compiled it.

What is stored are the layouts of classes, and the functions that were compiled. Everything else,
graphs and whatever an earlier process did not come across, is read from the text of the archive:
the types are then those that are there already.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import marshal
import os
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from tsarchive.caching import CacheFolder, cache_folder
from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import ClassType, Function, FunctionType, SharedMethod
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import NamedType
from tsarchive.operators.registry import minor, schema_texts
from tsarchive.run.checks import described, registered_schemas
from tsarchive.run.foreign import readable_schemas
from tsarchive.run.operators import without_modes
from tsarchive.run.stored.functions import StoredFunctions, numbers_in, schemas_of
from tsarchive.run.stored.types import TypeReader, TypeWriter, Unstorable, contain_themselves

if TYPE_CHECKING:
    from tsarchive.container import Container
    from tsarchive.frontend import CodeImporter
    from tsarchive.ir.graph import Placed
    from tsarchive.policy import Guard

logger = logging.getLogger("tsarchive.cache")

_FORM: Final = "TorchScript 2"
_MOST_BYTES: Final = 32 << 20
_CONSTANTS: Final = "constants/"
# The bytes of the largest number, which is complex.
_NUMBER: Final = 16
# The rooms that decide what code means and becomes.
_DECIDING: Final = ("container", "formats", "frontend", "ir", "operators", "policy", "run")
_WRONG: Final = (ArchiveError, Unstorable, LookupError, TypeError, ValueError, AttributeError)

ReadSchemas = Callable[[str], Sequence[FunctionSchema]]
Constant = Callable[[int], Any]


class StoredCode:
    """Gives the classes and functions that an archive's code defines, stored ones first.

    ``read`` makes the reader of the archive's text, given what tells the overloads of operators.
    ``constants`` gives all entries of the table of constants, and none before one was asked for.
    """

    def __init__(
        self,
        folder: CacheFolder,
        key: bytes,
        read: Callable[[ReadSchemas], CodeImporter],
        constant: Constant,
        constants: Callable[[], Sequence[Any]],
    ) -> None:
        self._folder, self._key = folder, key
        self._read, self._constant, self._constants = read, constant, constants
        entry = _entry(folder.read(key))
        self._made_for = entry.get("made for")
        # What was registered under each name when code asked for it.
        self._operators: dict[str, Sequence[Any]] = {}
        self._schemas: dict[str, Any] = dict(entry.get("schemas", {}))
        self._originals: dict[str, str] = dict(entry.get("originals", {}))
        self._reader = TypeReader(entry.get("layouts", {}), self._function, self._find_in_text)
        self.functions = StoredFunctions(
            self, self._reader, entry.get("bodies", []), entry.get("functions", {}),
            entry.get("compared", {}),
        )  # fmt: skip
        self._process = os.getpid()
        self._first_numbers: bytes | None = None
        _stored.add(self)

    def find(self, qualified_name: str) -> NamedType | None:
        """Return the class, enum, interface, named tuple or function of a qualified name."""
        return self._known(qualified_name) or self.text.find(qualified_name)

    def _known(self, qualified_name: str) -> NamedType | None:
        """Return what is stored or was read under a name."""
        reader = self._reader
        known = reader.found.get(qualified_name)
        if known is not None:
            return known
        before = len(reader.found)
        try:
            found = reader.find(qualified_name)
        except _WRONG as error:
            logger.debug("the layout of %s is not used: %s", qualified_name, error)
            reader.forget(before)
            found = None
        if found is None and "text" in vars(self):
            found = dict.get(self.text.found, qualified_name)
        return found

    @cached_property
    def text(self) -> CodeImporter:
        """What reads the text of the archive; it finds the types that are stored."""
        made = self._read(self._asked)
        made.found = _Found(self._reader.find)
        return made

    def _find_in_text(self, qualified_name: str) -> NamedType | None:
        return self.text.find(qualified_name)

    def _asked(self, operator: str) -> Sequence[FunctionSchema]:
        """Return the overloads of an operator; the answer decides over what is compiled."""
        self._note_operators((operator,))
        return readable_schemas(operator)

    def _note_operators(self, names: Iterable[str]) -> None:
        for name in names:
            found = registered_schemas(name)
            if self._operators.setdefault(name, found) is not found:
                self._operators[name] = _REPLACED

    def _function(self, qualified_name: str, owner: ClassType | None) -> Function:
        def schema() -> FunctionSchema:
            stored = self._schemas.get(qualified_name)
            if stored is not None:
                return self._reader.schema(stored)
            return self.text.reader(qualified_name, owner).schema()

        made = Function(
            qualified_name, schema, lambda: self.text.reader(qualified_name, owner).graph()
        )
        if owner is not None and owner.is_module:
            made.sharing = _StoredMethod(self, owner, made)
        return made

    def original(self, function: Function) -> Function:
        """Return the method that stands for those that equal this one."""
        name = self._originals.get(function.qualified_name)
        return (self.function(name) if name else None) or function

    # What stored functions ask.

    def function(self, qualified_name: str) -> Function | None:
        owner, _, name = qualified_name.rpartition(".")
        type_ = self._known(owner)
        if isinstance(type_, ClassType):
            hooks = (hook for hook in type_.hooks() if hook.name == name)
            return type_.methods.get(name) or next(hooks, None)
        found = self._known(qualified_name)
        return found.function if isinstance(found, FunctionType) else None

    def constant(self, index: int) -> Any:
        value = self._read_constant(index)
        if not isinstance(value, _OBJECTS):
            raise Unstorable(f"constant {index} is no object")
        return value

    def _read_constant(self, index: int) -> Any:
        # Constants must not become the tensors of a tracer.
        with without_modes():
            return self._constant(index)

    def position(self, constant: Any) -> int | None:
        found = (i for i, value in enumerate(self._constants()) if value is constant)
        return next(found, None) if isinstance(constant, _OBJECTS) else None

    def place(self, record: str, numbers: Sequence[int]) -> Placed:
        return self.text.place(record, numbers)

    @cached_property
    def fits(self) -> bool:
        if self._made_for is None:
            return False
        (operators, others, registry), numbers = self._made_for
        if registry != _registry(operators, others):
            return False
        self._note_operators(operators)
        if numbers is not None and not self._constants():
            self._read_constant(0)  # and with it all of the table
        self.note_numbers()
        return numbers is None or numbers == self._first_numbers

    def note_numbers(self) -> None:
        """Note what code is made for, before it runs: it may change its constants."""
        if self._first_numbers is None:
            self._first_numbers = self._numbers()

    def _numbers(self) -> bytes | None:
        """Return a digest of the numbers in constants, None where no constant was asked for."""
        constants = self._constants()
        # Neither tracers nor modes that look at operators may see that constants are read.
        with without_modes():
            return numbers_in(constants) if constants else None

    # What is kept for the next process.

    def keep(self) -> None:
        """Write an entry with what this process has found, unless the entry has it already."""
        compiled = self.functions.compiled
        found_by = {one.process for one in compiled} or {self._process}
        # What a process has found before it forked is for that process to write.
        if os.getpid() in found_by and (compiled or self._has_found()):
            content = marshal.dumps(self._content())
            if len(content) <= _MOST_BYTES:
                self._folder.write(self._key, content)

    def _has_found(self) -> bool:
        """Return whether the text had types that are not stored."""
        if "text" not in vars(self):
            return False
        return any(type_ is not None for type_ in self.text.found.values())

    def _content(self) -> dict[str, Any]:
        found = {**self._in_text(), **self._reader.found}
        writer = TypeWriter(found.get)
        layouts: dict[str, Any] = dict(self._reader.layouts)
        named: dict[str, set[str]] = {}
        for name, type_ in found.items():
            writer.named = named[name] = set()
            layouts[name] = writer.layout(type_)
        if contain_themselves(layouts, named):
            raise Unstorable("a named tuple contains itself")
        functions = [one.call.function for one in self.functions.compiled]
        functions = [f for f in functions if self.function(f.qualified_name) is f]
        bodies, stored = self.functions.extended(writer)
        linkage = self.functions.linkage
        compared = {
            function.qualified_name: compares
            for function, compares in list(linkage.analyses.compared.items())
            if self.function(function.qualified_name) is function
        }
        numbers = self._numbers()
        if self._first_numbers not in (None, numbers):
            raise Unstorable("code has changed the numbers in constants")
        return {
            "layouts": layouts,
            "schemas": self._schemas | schemas_of(_with_schemas(found.values()), writer),
            "originals": self._originals
            | {f.qualified_name: f.original.qualified_name for f in functions},
            "made for": (self._registry(), numbers),
            "bodies": bodies,
            "functions": stored,
            "compared": compared,
        }

    def _registry(self) -> tuple[tuple[str, ...], tuple[str, ...], bytes]:
        """Return the names of operators, those of others than torch, and a digest of them all."""
        operators = self._operators
        if any(registered_schemas(name) is not found for name, found in operators.items()):
            raise Unstorable("operators were registered anew")
        others = tuple(sorted(name for name in operators if not _is_torchs_own(name)))
        return tuple(sorted(operators)), others, _registry(sorted(operators), others)

    def _in_text(self) -> dict[str, NamedType]:
        found = self.text.found if "text" in vars(self) else {}
        return {name: type_ for name, type_ in found.items() if type_ is not None}

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _keep(self)


def _with_schemas(types: Iterable[NamedType]) -> Iterator[Function]:
    """Return the functions among types, and their methods, whose schemas were asked for."""
    for type_ in types:
        functions: list[Function] = []
        if isinstance(type_, ClassType) and not type_.is_native:
            functions = [*type_.methods.values(), *type_.hooks()]
        elif isinstance(type_, FunctionType):
            functions = [type_.function]
        yield from (function for function in functions if function.has_schema)


_OBJECTS: Final = (torch.Tensor, torch.ScriptObject)
_REPLACED: Final = ("registered anew",)


class _StoredMethod:
    """A method of a module class of which an earlier process knows the original."""

    def __init__(self, code: StoredCode, owner: ClassType, function: Function) -> None:
        self.code = code
        self.owner = owner
        self.function = function

    @property
    def original(self) -> Function:
        return self.code.original(self.function)

    def moved(self, place: Placed, other: SharedMethod) -> Placed:
        assert isinstance(other, _StoredMethod)
        return self.in_text().moved(place, other.in_text())

    def in_text(self) -> SharedMethod:
        """Return the method as the reader of the text has it."""
        return self.code.text.shared_method(self.function.qualified_name, self.owner)


class _Found(dict[str, "NamedType | None"]):
    """The types that text has defined, behind those that are stored."""

    def __init__(self, stored: Callable[[str], NamedType | None]) -> None:
        super().__init__()
        self._stored = stored

    def __missing__(self, qualified_name: str) -> NamedType | None:
        found = self._stored(qualified_name)
        if found is None:
            raise KeyError(qualified_name)
        return found


_stored: Final[weakref.WeakSet[StoredCode]] = weakref.WeakSet()


@atexit.register
def _keep_all() -> None:
    for code in list(_stored):
        _keep(code)


def _keep(code: StoredCode) -> None:
    """Keep what code has found. The cache is a convenience: nothing that fails here is an error."""
    try:
        code.keep()
    except Exception as error:
        logger.debug("the code of an archive is not stored: %s", error)


def _entry(content: bytes | None) -> dict[str, Any]:
    if content is None:
        return {}
    try:
        found = marshal.loads(content)
    except (EOFError, ValueError, TypeError) as error:
        logger.debug("an entry is not used: %s", error)
        return {}
    return found if isinstance(found, dict) else {}


def folder_for(container: Container, guard: Guard) -> tuple[CacheFolder, bytes] | None:
    """Return the folder and the key of an archive's code; None where there is no cache.

    Raises nothing: a record that cannot be read is left to whoever needs it.
    """
    folder = cache_folder()
    if folder is None:
        return None
    try:
        return folder, _key(container, guard)
    except (ArchiveError, OSError) as error:
        logger.debug("the code of an archive has no key: %s", error)
        return None


def _key(container: Container, guard: Guard) -> bytes:
    digest = hashlib.sha256(_process().encode())
    policy = guard.policy
    shown = sorted(policy.allowed), policy.is_trusting, sorted(policy.forbidden), guard.limits
    digest.update(repr(shown).encode())
    for name in sorted(filter(_decides, container.records)):
        payload, record = container.payload(name), container.records[name]
        facts = name, record.method, record.size, record.crc, len(payload)
        digest.update(f"\n{facts!a}\n".encode())
        digest.update(payload)
    digest.update(ascii(_small_constants(container)).encode())
    return digest.digest()


def _small_constants(container: Container) -> list[tuple[str, int, int | None]]:
    """Return the records that may hold one number, which code is made for.

    Archives of equal code would replace each other's entry. What tells whether an entry fits is
    still the number itself.
    """
    records = container.records
    found = [(name, records[name]) for name in records if name.startswith(_CONSTANTS)]
    small = [(name, record.size, record.crc) for name, record in found if record.size <= _NUMBER]
    return sorted(small)


def _decides(record: str) -> bool:
    is_code = record.startswith("code/") and record.endswith(".py")
    return is_code or record in ("constants.pkl", "version", ".data/version")


@cache
def _process() -> str:
    """Return all that decides over code in this process, whatever the archive."""
    git: Any = getattr(torch.version, "git_version", None)
    flags = sys.implementation.cache_tag, sys.hexversion, sys.flags.optimize, sys.byteorder
    built = torch.__version__, git, sys.platform
    own = sys.modules[__name__.partition(".")[0]]
    return repr((_FORM, own.__version__, tuple(_own_files(own)), flags, built))


def _own_files(package: ModuleType) -> Iterator[tuple[str, int, int]]:
    """Return name, size and time of the files that decide, none where there are no files."""
    folder = os.path.dirname(package.__file__ or "")
    for room in _DECIDING:
        with contextlib.suppress(OSError):
            yield from _files(os.path.join(folder, room))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    for entry in sorted(os.scandir(folder), key=lambda found: found.name):
        if entry.is_dir():
            yield from _files(entry.path) if entry.name != "__pycache__" else ()
        else:
            facts = entry.stat()
            yield entry.path, facts.st_size, facts.st_mtime_ns


def _registry(names: Iterable[str], others: Collection[str]) -> bytes:
    """Return a digest of what this process has registered under names of operators.

    ``others`` are the names with overloads that are not torch's own. Under the rest of the names,
    a build of torch has registered each overload before anybody else could.
    """
    digest = hashlib.sha256()
    for name in names:
        told = described if name in others else _overload_name
        digest.update(f"{name}\n{list(map(told, registered_schemas(name)))!a}\n".encode())
    return digest.digest()


def _overload_name(schema: Any) -> str:
    name: str = schema.overload_name
    return name


def _is_torchs_own(name: str) -> bool:
    """Return whether a name has the overloads alone that torch itself registers when it starts."""
    from tsarchive.operators.effects import OF_TORCH  # asked only where something was compiled

    found = tuple(map(str, registered_schemas(name)))
    return name.startswith(OF_TORCH) and found == schema_texts(name, minor(torch.__version__))
