"""Types, schemas, plain values and the layouts of classes, as values that ``marshal`` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from tsarchive.ir.classes import (
    Attribute,
    ClassConstant,
    ClassType,
    Function,
    FunctionType,
    InterfaceType,
)
from tsarchive.ir.schema import NO_DEFAULT, Argument, FunctionSchema
from tsarchive.ir.types import (
    SIMPLE_TYPES,
    DictType,
    EnumType,
    HandleType,
    ListType,
    NamedType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    UnionType,
)
from tsarchive.run.foreign import any_native_class, is_foreign
from tsarchive.run.operators import native_class


class Unstorable(Exception):
    """Something has no stored form, or a stored form does not fit this process."""


class Names(Protocol):
    """The types of one archive by their qualified names."""

    def find(self, qualified_name: str) -> NamedType | None:
        """Return the type or function of that name."""


_SCALARS: Final = (bool, int, float, complex, str, type(None))
_NO_DEFAULT: Final = ("no default",)


def value_stored(value: Any) -> Any:
    """Return the form of a value that graphs hold: a scalar as it is, all else as a tuple."""
    if type(value) in _SCALARS:
        return value
    if value is NO_DEFAULT:
        return _NO_DEFAULT
    from tsarchive.ir.constants import Device

    match value:
        case list():
            return ("list", *map(value_stored, value))
        case tuple():
            return ("tuple", *map(value_stored, value))
        case Device(text):
            return ("device", text)
    raise Unstorable(f"a {type(value).__name__} has no stored form")


def value_of(stored: Any) -> Any:
    if not isinstance(stored, tuple):
        return stored
    if stored == _NO_DEFAULT:
        return NO_DEFAULT
    kind, *items = stored
    if kind == "device":
        from tsarchive.ir.constants import Device  # few schemas have one

        return Device(items[0])
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(map(value_of, items))
    raise Unstorable(f"unknown value {kind!r}")


class TypeWriter:
    """Gives the forms of types; ``named`` collects the names of those that it met."""

    def __init__(self, find: Callable[[str], NamedType | None]) -> None:
        self._find = find
        self.named: set[str] = set()

    def type(self, type_: Type) -> Any:
        match type_:
            case SimpleType(name) if SIMPLE_TYPES.get(name) is type_:
                return name
            case TupleType(elements, None):
                return ("tuple", *map(self.type, elements))
            case OptionalType(element):
                return ("optional", self.type(element))
            case ListType(element):
                return ("list", self.type(element))
            case DictType(key, value):
                return ("dict", self.type(key), self.type(value))
            case UnionType(members):
                return ("union", *map(self.type, members))
            case HandleType(kind, element):
                return ("handle", kind, self.type(element))
            case NamedType():
                return self._named(type_)
        raise Unstorable(f"{type_!r} has no stored form")

    def _named(self, type_: NamedType) -> Any:
        name = type_.qualified_name or ""
        if isinstance(type_, ClassType) and (type_.is_native or type_.is_revived):
            return (self._bound(type_), name)
        found = self._find(name)
        if not (found is type_ or (isinstance(found, TupleType) and found == type_)):
            raise Unstorable(f"{name} is not a name of the archive")
        self.named.add(name)
        return ("named", name)

    def _bound(self, class_: ClassType) -> str:
        """Return the kind of a class that C++ binds here, or elsewhere."""
        if is_foreign(class_):
            return "foreign"
        if class_.is_revived or native_class(class_.qualified_name) is not class_:
            raise Unstorable(f"{class_.qualified_name} is neither of torch nor of the archive")
        return "bound"

    def schema(self, schema: FunctionSchema) -> Any:
        arguments = tuple(
            (a.name, self.type(a.type), value_stored(a.default), a.kwarg_only, a.repeat, a.is_write)
            for a in schema.arguments
        )
        returns = tuple((a.name, self.type(a.type)) for a in schema.returns)
        if schema.is_vararg or schema.is_varret or schema.overload:
            raise Unstorable("a schema of variable arguments has no stored form")
        return schema.name, arguments, returns

    def layout(self, type_: NamedType) -> Any:
        """Return the form of a type or function that the archive defines."""
        match type_:
            case ClassType(is_native=False, is_revived=False):
                return self._class(type_)
            case ClassType():
                return (self._bound(type_),)
            case InterfaceType():
                methods = {name: self.schema(s) for name, s in type_.methods.items()}
                return ("interface", type_.is_module, methods)
            case EnumType():
                members = {name: value_stored(v) for name, v in type_.members.items()}
                return ("enum", self.type(type_.value_type), members)
            case TupleType(elements, str(), fields):
                return ("tuple", tuple(map(self.type, elements)), fields)
            case FunctionType():
                return ("function",)
        raise Unstorable(f"{type_.qualified_name} has no stored form")

    def _class(self, class_: ClassType) -> Any:
        attributes = tuple(
            (a.name, self.type(a.type), a.is_parameter, a.is_buffer)
            for a in class_.attributes.values()
        )
        constants = tuple(
            (c.name, self.type(c.type), value_stored(c.value)) for c in class_.constants.values()
        )
        hooks = (
            tuple(hook.name for hook in class_.forward_pre_hooks),
            tuple(hook.name for hook in class_.forward_hooks),
        )
        return ("class", class_.is_module, attributes, constants, tuple(class_.methods), *hooks)


def contain_themselves(layouts: Mapping[str, Any], named: Mapping[str, Iterable[str]]) -> bool:
    """Return whether a named tuple leads back to itself through classes.

    Such archives can be read in one order and not in another.
    """
    for name in (name for name, layout in layouts.items() if layout[0] == "tuple"):
        reached: set[str] = set()
        waiting = list(named.get(name, ()))
        while waiting:
            inner = waiting.pop()
            if inner == name:
                return True
            if inner not in reached:
                reached.add(inner)
                waiting += named.get(inner, ())
    return False


MakeFunction = Callable[[str, "ClassType | None"], Function]


class TypeReader:
    """Makes types of their stored forms; types of the archive are made when they are asked for.

    ``layouts`` are those of the archive's types; ``make`` makes a function of the archive, by its
    qualified name and owner. ``others`` finds what the layouts do not have.
    """

    def __init__(
        self,
        layouts: Mapping[str, Any],
        make: MakeFunction,
        others: Callable[[str], NamedType | None],
    ) -> None:
        self.layouts = layouts
        self.found: dict[str, NamedType] = {}
        self._make = make
        self._others = others

    def find(self, qualified_name: str) -> NamedType | None:
        """Return the type or function of that name that the layouts have, if they have it."""
        found = self.found.get(qualified_name)
        if found is None and qualified_name in self.layouts:
            found = self._read(qualified_name, self.layouts[qualified_name])
            self.found[qualified_name] = found
        return found

    def forget(self, since: int) -> None:
        """Leave the rest of the layouts to others, and what was found after so many types."""
        self.layouts = {}
        for name in list(self.found)[since:]:
            del self.found[name]

    def type(self, stored: Any) -> Type:
        if isinstance(stored, str):
            return SIMPLE_TYPES[stored]
        kind, *parts = stored
        match kind, parts:
            case "named", (name,):
                return _existing(self.find(name) or self._others(name), name)
            case "bound" | "foreign", (name,):
                return _bound(kind, name)
            case "handle", (handle, element):
                return HandleType(handle, self.type(element))
            case "tuple", _:
                return TupleType(tuple(map(self.type, parts)))
            case "union", _:
                return UnionType(tuple(map(self.type, parts)))
        return _COMPOSED[kind](*map(self.type, parts))

    def schema(self, stored: Any) -> FunctionSchema:
        name, arguments, returns = stored
        return FunctionSchema(
            name,
            "",
            tuple(
                Argument(name, self.type(type_), value_of(default), *rest)
                for name, type_, default, *rest in arguments
            ),
            tuple(Argument(name, self.type(type_)) for name, type_ in returns),
        )

    def _read(self, name: str, layout: Any) -> NamedType:
        match layout:
            case ("class", *parts):
                return self._class(name, *parts)
            case ("interface", is_module, methods):
                interface = InterfaceType(name, is_module)
                self.found[name] = interface
                interface.methods.update((m, self.schema(s)) for m, s in methods.items())
                return interface
            case ("enum", value_type, members):
                values = {member: value_of(value) for member, value in members.items()}
                return EnumType(name, self.type(value_type), values)
            case ("tuple", elements, fields):
                return TupleType(tuple(map(self.type, elements)), name, tuple(fields))
            case ("function",):
                return self._make(name, None).type
            case ("bound" | "foreign" as kind,):
                return _bound(kind, name)
        raise Unstorable(f"unknown layout {layout[0]!r}")

    def _class(
        self, name: str, is_module: bool, attributes: Any, constants: Any, methods: Any, *hooks: Any
    ) -> ClassType:
        # Known before its parts, which may name it.
        class_ = self.found[name] = ClassType(name, is_module)
        for attribute, type_, *flags in attributes:
            class_.attributes[attribute] = Attribute(attribute, self.type(type_), *flags)
        for constant, type_, value in constants:
            class_.constants[constant] = ClassConstant(constant, self.type(type_), value_of(value))
        made = {
            member: self._make(f"{name}.{member}", class_)
            for member in dict.fromkeys((*methods, *hooks[0], *hooks[1]))
        }
        class_.methods = {member: made[member] for member in methods}
        class_.forward_pre_hooks, class_.forward_hooks = (
            [made[member] for member in names] for names in hooks
        )
        return class_


_COMPOSED: Final[Mapping[str, Callable[..., Type]]] = {
    "optional": OptionalType,
    "list": ListType,
    "dict": DictType,
}


def _bound(kind: str, name: str) -> NamedType:
    """Return a class that C++ binds, if it is registered, or not, as it was."""
    found = any_native_class(name)
    if found is None or is_foreign(found) != (kind == "foreign"):
        raise Unstorable(f"{name} is not registered as it was")
    return found


def _existing(found: NamedType | None, name: str) -> NamedType:
    if found is None:
        raise Unstorable(f"{name} is not there")
    return found
