"""The state shared by everything that reads the code of one archive.

In an open world, code is lowered whatever it names, and the graph says what nobody knows: code
that cannot run here, or nowhere, is looked into like any other. An operator, method or function
that is not known becomes a node of its kind with a ``refusal`` and an output of the type UNKNOWN;
so do the constructs of ``UNLOWERED``. What is known runs exactly as it is lowered.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from tsarchive.errors import ArchiveError, SourceError, UnknownClassError
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import Value
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.source_ranges import TaggedRange
from tsarchive.ir.subtyping import has_unknown
from tsarchive.ir.type_parser import parse_type, type_of_expression
from tsarchive.ir.types import COMPOSITE, NamedType, SimpleType, Type
from tsarchive.operators.libraries import what_registers
from tsarchive.operators.overloads import native_class
from tsarchive.operators.upgraders import ANY_AGE, Age, Candidate

from .splitting import Sources
from .structural_sharing import StructuralSharing, Twins

if TYPE_CHECKING:
    from .matching import Overloads

MAX_TYPE_SIZE: Final = 10_000

Evaluate = Callable[[FunctionSchema], Callable[..., Any] | None]
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Dialect(NamedTuple):
    """The differences of the text of one family of archives from text that torch writes today.

    The defaults are the rules of archives with a data.pkl.

    ``folder`` holds the code records of qualified names. ``free_version`` is the operator
    version of functions and closures, None for the current one; a number is none that methods
    have. ``functions`` gives, by the names of old operators, the qualified names of functions
    that stand for them there, and by the overloads of today those that stand for these
    everywhere; they are read as code of today. ``renamed`` gives operators that
    changed their name, not their meaning, their name of today. ``dtypes`` gives the number of
    the dtype that an operator used where ``dtype`` is None or not given, and
    ``element_dtypes`` the same by the types of the numbers in its first argument; ``masks`` the
    place of an argument that could hold numbers and has to be a mask of bools today; ``flags``
    the number of arguments before a flag that operators have got since, and were as if it was
    set.
    """

    folder: str = "code"
    free_version: int | None = None
    functions: Mapping[str, str] = _NOTHING
    renamed: Mapping[str, str] = _NOTHING
    dtypes: Mapping[str, int] = _NOTHING
    element_dtypes: Mapping[str, Mapping[Type, int]] = _NOTHING
    masks: Mapping[str, int] = _NOTHING
    flags: Mapping[str, int] = _NOTHING


CURRENT: Final = Dialect()


def no_constant(index: int) -> NoReturn:
    """Stand for the table of constants of code that has none."""
    raise IndexError(index)


class Context(ABC):
    """The state that the readers of one archive's code share.

    files: code records by name (``code/__torch__/a/b.py``), as text or a callable that reads it;
    operators: the overloads of an operator kind in the order of selection, none when unknown;
    constant: entry N of the constant table and its type; raises IndexError past the end;
    version: the archive's version, which decides the meaning of changed operators;
    native_class: the class that a library of this process registers under a qualified name;
    evaluate: the function that runs an operator on Python values, None where there is none;
    debug: the ranges of user source that text of a code record stands for, by record;
    dialect: how the text differs from text of today;
    reads_bodies: whether the graphs of functions can be made, which takes operators;
    open_world: whether code is lowered whatever it names, as told above; ``open`` is None
    where it is not;
    infers_foreign: whether operators and methods of libraries that are not here are lowered by the
    calls alone, as if their results were tensors: for text, which shows no types.
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
        debug: Mapping[str, Sequence[TaggedRange]] = _NOTHING,
        dialect: Dialect = CURRENT,
        reads_bodies: bool = True,
        open_world: bool = False,
        age: Age = ANY_AGE,
        infers_foreign: bool = False,
    ) -> None:
        self.sources: Sources = Sources(files, debug, dialect.folder)
        self.operators = operators
        self.constant = constant
        self.version = version
        self.native_class = native_class
        self.evaluate = evaluate
        self.dialect = dialect
        self.age = age
        self.reads_bodies = reads_bodies
        self.open: OpenWorld | None = OpenWorld() if open_world else None
        self.infers_foreign = infers_foreign
        # Types with their sizes, by their ids, which stay theirs as the types are kept.
        self._sizes: dict[int, tuple[Type, int]] = {}
        self.sharing: StructuralSharing = StructuralSharing(self.sources)
        self.twins: Twins = Twins()
        self.found: dict[str, NamedType | None] = {}
        # What is being read; of the types in ``early`` the parts, which may refer to them.
        self.importing: set[str] = set()
        self.early: dict[str, NamedType] = {}
        # The class whose ``__init__`` is read in order to learn the attributes that it assigns.
        self.initialising: ClassType | None = None
        self._types: dict[str, Type] = {}

    @abstractmethod
    def find(self, qualified_name: str) -> NamedType | None:
        """Return the class, enum, interface, named tuple or function of a qualified name.

        None when no record defines it. Raises SourceError for code that cannot be imported.
        """

    @abstractmethod
    def stand_in(self, candidate: Candidate) -> Function | None:
        """Return the function in TorchScript that stands for an old overload, if there is one."""

    def refuse(self, error: ArchiveError) -> None:
        """Raise the error or, in an open world, note it: reading goes on without what it names."""
        if self.open is None:
            raise error
        self.open.refuse(error)

    @cached_property
    def overloads(self) -> Overloads:
        from .matching import Overloads  # looking at an archive reads no bodies

        return Overloads(self.operators, self.age)

    def find_class(self, qualified_name: str) -> NamedType:
        """Like :meth:`find`, for a type that must exist. Raises UnknownClassError."""
        found = self.find(qualified_name)
        if found is None or isinstance(found, FunctionType):
            return self._unknown(qualified_name)
        return found

    def _unknown(self, qualified_name: str) -> NamedType:
        """Return the class of a name that nothing defines, in an open world; else raise."""
        if self.open is not None:
            return self.open.class_of(qualified_name)
        if qualified_name.startswith(NATIVE_PREFIX):
            message = f"the class {qualified_name} is not registered in this process"
            raise UnknownClassError(message, hint=what_registers(qualified_name))
        record = self.sources.record_of(qualified_name)
        hint = "The archive is incomplete, or was changed after it was written"
        message = f"the archive does not define {qualified_name}"
        raise UnknownClassError(message, record=record, hint=hint)

    def parse_type(self, text: str) -> Type:
        """Return the type that an annotation or a type tag writes."""
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = self.checked(parse_type(text, self.resolve_type))
        return found

    def type_of(self, node: ast.expr) -> Type:
        """Return the type that a parsed annotation writes."""
        return self.checked(type_of_expression(node, self.resolve_type))

    def checked(self, type_: Type) -> Type:
        """Return the type itself. Raises SourceError when it has too many parts.

        A few lines can build a type of 2**60 parts: ``t1 = (t0, t0)``, ``t2 = (t1, t1)`` and so
        on, or a chain of named tuples. Such a type takes little memory, but cannot be compared or
        printed.
        """
        if self._size(type_) > MAX_TYPE_SIZE:
            raise SourceError(f"a type of more than {MAX_TYPE_SIZE} parts is not supported")
        return type_

    def _size(self, type_: Type) -> int:
        """Return the number of parts. Each is walked once, however often it occurs."""
        if type(type_) is SimpleType or not isinstance(type_, COMPOSITE):
            return 1
        found = self._sizes.get(id(type_))
        if found is None:
            size = 1 + sum(map(self._size, type_.parts()))
            found = self._sizes[id(type_)] = (type_, size)
        return found[1]

    def resolve_type(self, qualified_name: str) -> Type | None:
        """Return the type of a name in an annotation; None for a bare name."""
        return self.find_class(qualified_name) if "." in qualified_name else None


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

    @property
    def unknown(self) -> Collection[str]:
        """The qualified names that nothing defines."""
        return self._classes.keys()

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
