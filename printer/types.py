"""TorchScript types and their annotation text.

Anonymous types are frozen values and compare by structure. Named types that carry members
(classes, interfaces, enums) compare by identity: two archives may both define ``__torch__.Net``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .graph import Function
    from .schema import FunctionSchema


class Type:
    """Base of all types."""

    __slots__ = ()

    def parts(self) -> tuple[Type, ...]:
        """The types this one contains, in the order in which torch visits them."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class SimpleType(Type):
    """A type without parameters; ``name`` is its annotation.

    There is one for each name, which :func:`simple_type` gives, so they compare by identity.
    """

    name: str


@cache
def simple_type(name: str) -> SimpleType:
    """The type without parameters of that name."""
    return SimpleType(name)


@dataclass(frozen=True, slots=True)
class VarType(Type):
    """A type variable of an operator schema, such as ``t`` in ``append(t[] self, t el)``."""

    name: str


@dataclass(frozen=True, slots=True)
class OptionalType(Type):
    """A value of another type, or None."""

    element: Type

    def parts(self) -> tuple[Type, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """A list of values of one type."""

    element: Type

    def parts(self) -> tuple[Type, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True)
class DictType(Type):
    """A dict with keys of one type and values of one type."""

    key: Type
    value: Type

    def parts(self) -> tuple[Type, ...]:
        return (self.key, self.value)


@dataclass(frozen=True, slots=True)
class UnionType(Type):
    """Members stand in torch's canonical order."""

    members: tuple[Type, ...]

    def parts(self) -> tuple[Type, ...]:
        return self.members


@dataclass(frozen=True, slots=True)
class HandleType(Type):
    """``Future[T]``, ``Await[T]`` or ``RRef[T]``: a handle to a value that may come later."""

    kind: str
    element: Type

    def parts(self) -> tuple[Type, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """A tuple; with ``qualified_name`` and ``fields`` set it is a NamedTuple."""

    elements: tuple[Type, ...]
    qualified_name: str | None = None
    fields: tuple[str, ...] = ()

    def parts(self) -> tuple[Type, ...]:
        return self.elements


# Types that are made of their parts alone. Classes and enums have parts too, but are names.
COMPOSITE = OptionalType | ListType | DictType | UnionType | HandleType | TupleType


@dataclass(eq=False, slots=True)
class EnumType(Type):
    """An enum class: members by name in definition order, all values of one type."""

    qualified_name: str
    value_type: Type
    members: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> tuple[Type, ...]:
        return (self.value_type,)


@dataclass(eq=False, slots=True)
class InterfaceType(Type):
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
class ClassType(Type):
    """A module class, a script class, or (``is_native``) a class bound from C++ (torchbind).

    ``methods`` are in definition order and include property accessors; hooks are not methods.
    A hook may stand several times in a hook list: it is called as often.
    """

    qualified_name: str
    is_module: bool = False
    is_native: bool = False
    attributes: dict[str, Attribute] = field(default_factory=dict)
    constants: dict[str, ClassConstant] = field(default_factory=dict)
    methods: dict[str, Function] = field(default_factory=dict)
    forward_pre_hooks: list[Function] = field(default_factory=list)
    forward_hooks: list[Function] = field(default_factory=list)

    def parts(self) -> tuple[Type, ...]:
        return tuple(attribute.type for attribute in self.attributes.values())

    @property
    def has_state_methods(self) -> bool:
        """Whether ``__getstate__`` and ``__setstate__`` say what is pickled; one alone does not."""
        return {"__getstate__", "__setstate__"} <= self.methods.keys()

    def function(self, name: str) -> Function:
        """A method or hook, which do not share names."""
        found = self.methods.get(name)
        return found or next(hook for hook in self.hooks() if hook.name == name)

    def hooks(self) -> Iterator[Function]:
        """Each distinct hook once, in the order in which torch prints them."""
        by_name: dict[str, Function] = {}
        for hook in (*self.forward_hooks, *self.forward_pre_hooks):
            by_name.setdefault(hook.name, hook)
        yield from by_name.values()


@dataclass(frozen=True, slots=True)
class FunctionType(Type):
    """The type of a function constant; it stands for exactly one function."""

    function: Function

    @property
    def qualified_name(self) -> str:
        return self.function.qualified_name


NamedType = TupleType | EnumType | InterfaceType | ClassType | FunctionType

ANY = simple_type("Any")
ANY_CLASS = simple_type("AnyClassType")
ANY_ENUM = simple_type("AnyEnumType")
ANY_LIST = simple_type("list")
ANY_TUPLE = simple_type("tuple")
BOOL = simple_type("bool")
CAPSULE = simple_type("Capsule")
COMPLEX = simple_type("complex")
DEVICE = simple_type("Device")
FLOAT = simple_type("float")
GENERATOR = simple_type("Generator")
INT = simple_type("int")
NONE = simple_type("NoneType")
NUMBER = simple_type("number")
PYOBJECT = simple_type("PyObject")
QSCHEME = simple_type("QScheme")
QUANTIZER = simple_type("Quantizer")
STORAGE = simple_type("Storage")
STREAM = simple_type("Stream")
STRING = simple_type("str")
TENSOR = simple_type("Tensor")

SIMPLE_TYPES = {
    simple.name: simple
    for simple in (
        ANY, ANY_CLASS, ANY_ENUM, ANY_LIST, ANY_TUPLE, BOOL, CAPSULE, COMPLEX, DEVICE, FLOAT,
        GENERATOR, INT, NONE, NUMBER, PYOBJECT, QSCHEME, QUANTIZER, STORAGE, STREAM, STRING, TENSOR,
    )
}  # fmt: skip

Rename = Callable[[NamedType], str]


def own_name(named: NamedType) -> str:
    """The qualified name that the type itself carries (no uniquing)."""
    assert named.qualified_name is not None
    return named.qualified_name


def is_named(type_: Type) -> bool:
    """True for types that print as a qualified name and are defined in a code record."""
    if isinstance(type_, TupleType):
        return type_.qualified_name is not None
    return isinstance(type_, EnumType | InterfaceType | ClassType | FunctionType)


def annotation(type_: Type, rename: Rename = own_name) -> str:
    """The text of a type in code records and type strings; ``rename`` gives names of classes."""
    match type_:
        case SimpleType(name) | VarType(name):
            return name
        case OptionalType(element):
            return f"Optional[{annotation(element, rename)}]"
        case ListType(element):
            return f"List[{annotation(element, rename)}]"
        case DictType(key, value):
            return f"Dict[{annotation(key, rename)}, {annotation(value, rename)}]"
        case HandleType(kind, element):
            return f"{kind}[{annotation(element, rename)}]"
        case TupleType(elements, None):
            return f"Tuple[{_joined(elements, rename) or '()'}]"
        case UnionType(members):
            return f"Union[{_joined(_with_number(members), rename)}]"
        case TupleType() | EnumType() | InterfaceType() | ClassType() | FunctionType():
            return rename(type_)
    raise AssertionError(f"no annotation for {type_!r}")


def _joined(types: tuple[Type, ...], rename: Rename) -> str:
    return ", ".join(annotation(part, rename) for part in types)


def _with_number(members: tuple[Type, ...]) -> tuple[Type, ...]:
    """int, float and complex together are written as ``number``, after the other members."""
    scalars = {INT, FLOAT, COMPLEX}
    if not scalars.issubset(members):
        return members
    return (*(member for member in members if member not in scalars), NUMBER)
