"""TorchScript types and their annotation text.

Anonymous types are frozen values and compare by structure. Named types that carry members
(classes, interfaces, enums) compare by identity: two archives may both define ``__torch__.Net``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any


class Type:
    """Base of all types."""

    __slots__ = ()

    def parts(self) -> tuple[Type, ...]:
        """Return the types this one contains, in the order in which torch visits them."""
        return ()


class NamedType(Type):
    """A type that code refers to by its qualified name."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def qualified_name(self) -> str | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class SimpleType(Type):
    """A type without parameters; ``name`` is its annotation.

    There is one for each name, which :func:`simple_type` gives, so they compare by identity.
    """

    name: str


@cache
def simple_type(name: str) -> SimpleType:
    """Return the type without parameters of that name."""
    return SimpleType(name)


@dataclass(frozen=True, slots=True)
class VarType(Type):
    """A type variable of an operator schema, such as ``t`` in ``append(t[] self, t el)``."""

    name: str


@dataclass(frozen=True, slots=True)
class _OfElement(Type):
    """A type that is made of one other."""

    element: Type

    def parts(self) -> tuple[Type, ...]:
        return (self.element,)


class OptionalType(_OfElement):
    """A value of another type, or None."""

    __slots__ = ()


class ListType(_OfElement):
    """A list of values of one type."""

    __slots__ = ()


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
class TupleType(NamedType):
    """A tuple; with ``qualified_name`` and ``fields`` set it is a NamedTuple."""

    elements: tuple[Type, ...]
    qualified_name: str | None = None
    fields: tuple[str, ...] = ()

    def parts(self) -> tuple[Type, ...]:
        return self.elements


# Types that are made of their parts alone. Classes and enums have parts too, but are names.
COMPOSITE = OptionalType | ListType | DictType | UnionType | HandleType | TupleType


@dataclass(eq=False, slots=True)
class EnumType(NamedType):
    """An enum class: members by name in definition order, all values of one type."""

    qualified_name: str
    value_type: Type
    members: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> tuple[Type, ...]:
        return (self.value_type,)


ANY = simple_type("Any")
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
STORAGE = simple_type("Storage")
STREAM = simple_type("Stream")
STRING = simple_type("str")
TENSOR = simple_type("Tensor")
# Of values about which open-world lowering knows nothing. No annotation writes it.
UNKNOWN = simple_type("<unknown>")

# Those that an annotation may write.
SIMPLE_TYPES = {
    name: simple_type(name)
    for name in (
        "Any", "AnyClassType", "AnyEnumType", "list", "tuple", "bool", "Capsule", "complex",
        "Device", "float", "Generator", "int", "NoneType", "number", "PyObject", "QScheme",
        "Quantizer", "Storage", "Stream", "str", "Tensor",
    )
}  # fmt: skip

Rename = Callable[[NamedType], str]


def own_name(named: NamedType) -> str:
    """Return the qualified name that the type itself carries (no uniquing)."""
    assert named.qualified_name is not None
    return named.qualified_name


def is_named(type_: Type) -> bool:
    """True for types that print as a qualified name and are defined in a code record."""
    return isinstance(type_, NamedType) and type_.qualified_name is not None


def annotation(type_: Type, rename: Rename = own_name) -> str:
    """Return the text of a type in code and type strings; ``rename`` gives class names."""
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
        case NamedType():
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
