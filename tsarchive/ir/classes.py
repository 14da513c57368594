"""Classes, interfaces and functions of an archive: types that hold schemas and graphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeGuard

from .schema import FunctionSchema
from .types import NamedType, Type

if TYPE_CHECKING:
    from .graph import Block, Placed

_OVERLOAD: Final = re.compile("forward__[0-9]+")


@dataclass(eq=False, slots=True)
class InterfaceType(NamedType):
    """An interface: method schemas (first argument ``self``), no bodies."""

    qualified_name: str
    is_module: bool
    methods: dict[str, FunctionSchema] = field(default_factory=dict)


class Attribute(NamedTuple):
    """One slot of a class; a slot may be flagged parameter or buffer whatever its type is."""

    name: str
    type: Type
    is_parameter: bool = False
    is_buffer: bool = False


class ClassConstant(NamedTuple):
    """``name : Final[type] = value`` of a class."""

    name: str
    type: Type
    value: Any


@dataclass(eq=False, slots=True)
class ClassType(NamedType):
    """A module class, a script class, or (``is_native``) a class bound from C++ (torchbind).

    ``methods`` are in definition order and include property accessors; hooks are not methods.
    A hook may stand several times in a hook list: it is called as often. ``is_revived`` is a class
    that torch bound from C++ once and this library defines: archives name it, as they name those
    that torch binds, and do not hold its code.
    """

    qualified_name: str
    is_module: bool = False
    is_native: bool = False
    is_revived: bool = False
    attributes: dict[str, Attribute] = field(default_factory=dict)
    constants: dict[str, ClassConstant] = field(default_factory=dict)
    methods: dict[str, Function] = field(default_factory=dict)
    forward_pre_hooks: list[Function] = field(default_factory=list)
    forward_hooks: list[Function] = field(default_factory=list)

    def parts(self) -> tuple[Type, ...]:
        return tuple(attribute.type for attribute in self.attributes.values())

    @property
    def has_state_methods(self) -> bool:
        """True if ``__getstate__`` and ``__setstate__`` say what is pickled; one alone does not."""
        return {"__getstate__", "__setstate__"} <= self.methods.keys()

    def function(self, name: str) -> Function:
        """Return a method or hook, which do not share names."""
        found = self.methods.get(name)
        return found or next(hook for hook in self.hooks() if hook.name == name)

    def hooks(self) -> Iterator[Function]:
        """Return each distinct hook once, in the order in which torch prints them."""
        by_name: dict[str, Function] = {}
        for hook in (*self.forward_hooks, *self.forward_pre_hooks):
            by_name.setdefault(hook.name, hook)
        yield from by_name.values()


def is_forward(class_: ClassType, method: str) -> bool:
    """Return whether calling the module runs this method: ``forward``, or an overload of it.

    An archive has overloads as ``forward__0``, ``forward__1`` and so on, and no ``forward`` then.
    """
    is_overload = "forward" not in class_.methods and _OVERLOAD.fullmatch(method) is not None
    return class_.is_module and (method == "forward" or is_overload)


def is_module(type_: Type | None) -> TypeGuard[ClassType]:
    """Return whether a type is a class of modules that an archive defines."""
    return isinstance(type_, ClassType) and type_.is_module and not type_.is_native


@dataclass(frozen=True, slots=True)
class FunctionType(NamedType):
    """The type of a function constant; it stands for exactly one function."""

    function: Function

    @property
    def qualified_name(self) -> str:
        return self.function.qualified_name


def method_schema(type_: Type, name: str) -> FunctionSchema | None:
    """Return the schema of a method of a class or interface; None where there is none."""
    match type_:
        case ClassType():
            method = type_.methods.get(name)
            return None if method is None else method.schema
        case InterfaceType():
            return type_.methods.get(name)
    return None


class SharedMethod(Protocol):
    """A method, or hook, that other classes of the archive may have as well.

    Classes are structurally equal if they differ in mangled names alone: their own and those of
    the classes of their submodules.
    """

    @property
    def owner(self) -> ClassType:
        """The class that the method belongs to."""

    @property
    def original(self) -> Function:
        """The one method that stands for those of all structurally equal classes."""

    def moved(self, place: Placed, other: SharedMethod) -> Placed:
        """Return the place in this method that corresponds to ``place`` in the ``other``."""


class Likeness(Protocol):
    """What a method has in common with others, known before its graph is made.

    Nodes have numbers in their order in the graph, each before those inside it.
    """

    @property
    def shape(self) -> bytes | None:
        """What is equal for graphs which differ in places, in numbers of values, in shapes of
        tensors and in names of classes and functions alone; None where that is not known."""

    def functions(self, constants: Sequence[int], kinds: Sequence[str]) -> list[Function]:
        """Return the functions that constants stand for, which are nodes of these numbers.

        ``kinds`` are those of all nodes.
        """

    def constants(self, numbers: Sequence[int], kinds: Sequence[str]) -> list[Any]:
        """Return the values of constants other than functions, which are nodes of these numbers."""

    def places(self, kinds: Sequence[str]) -> Sequence[Placed]:
        """Return the places of all nodes, given their kinds; one object where they are the same."""


class Function:
    """A function or method: qualified name, schema, and a graph made when first asked for.

    The first block parameter of a method is ``self``, as in its schema. The schema may be given
    as a callable, too: it is then made when first asked for. ``sharing`` is set for methods of
    module classes, which structurally equal classes may have as well. ``liken`` gives the likeness
    of a method whose graph is dear to make.
    """

    __slots__ = (
        "__weakref__", "_define", "_graph", "_schema", "liken", "qualified_name", "sharing", "type",
    )  # fmt: skip

    def __init__(
        self,
        qualified_name: str,
        schema: FunctionSchema | Callable[[], FunctionSchema],
        define: Callable[[], Block],
    ) -> None:
        self.qualified_name: str = qualified_name
        self._schema = schema
        self._define = define
        self._graph: Block | None = None
        self.sharing: SharedMethod | None = None
        self.liken: Callable[[], Likeness] | None = None
        self.type: FunctionType = FunctionType(self)

    @property
    def schema(self) -> FunctionSchema:
        if not isinstance(self._schema, FunctionSchema):
            self._schema = self._schema()
        return self._schema

    @property
    def has_schema(self) -> bool:
        """Return whether the schema is made."""
        return isinstance(self._schema, FunctionSchema)

    @property
    def name(self) -> str:
        return self.qualified_name.rpartition(".")[2]

    @property
    def original(self) -> Function:
        """A function that does the same, and is one for all that do; often this one."""
        return self if self.sharing is None else self.sharing.original

    @property
    def graph(self) -> Block:
        if self._graph is None:
            self._graph = self._define()
        return self._graph

    @property
    def has_graph(self) -> bool:
        """Whether the graph has been made."""
        return self._graph is not None

    def drop_graph(self) -> None:
        """Forget the graph, which is made again when it is asked for."""
        if self._graph is not None:
            from .graph import take_apart

            take_apart(self._graph)
            self._graph = None

    def forget(self) -> None:
        """Let go of all that leads back to the function, which cannot be used any more."""
        self.drop_graph()
        self._schema = self._define = _forgotten
        self.liken = self.sharing = None
        del self.type

    def __repr__(self) -> str:
        return f"<Function {self.qualified_name}>"


def _forgotten() -> Any:
    raise AssertionError("the function was forgotten")
