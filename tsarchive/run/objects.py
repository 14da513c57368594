"""Python classes of one archive, and the run-time values that its graphs and modules hold."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import torch

from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import EnumType, ListType, OptionalType, TupleType, Type

from .conversion import Converter, Converters, native_name, type_of_class
from .foreign import ForeignObject
from .operators import native_class
from .slots import set_slot, unset_slots

if TYPE_CHECKING:
    from tsarchive.ir.constants import ObjectValue
    from tsarchive.ir.graph import Node


class ClassTable:
    """Holds the Python classes for the classes, enums and named tuples of an archive.

    ``build`` makes one of them. ``converter`` gives the function that converts values from Python
    to a type.
    """

    def __init__(self, build: Callable[[Type], Any], lock: AbstractContextManager[Any]) -> None:
        self._build = build
        self._lock = lock
        self._known: dict[Type, Any] = {}
        self.converter: Callable[[Type], Converter] = Converters(self.python_class).converter

    def python_class(self, type_: Type) -> Any:
        """The Python class for a class, enum or named tuple of the archive."""
        with self._lock:
            found = self._known.get(type_)
            if found is None:
                found = self._known[type_] = self._build(type_)
            return found

    def known_class(self, qualified_name: str) -> Any:
        """The Python class of that name, if it is built already; otherwise None."""
        with self._lock:
            return next((c for t, c in self._known.items() if name_of(t) == qualified_name), None)

    def module_classes(self) -> list[tuple[type, ClassType]]:
        """The module and script classes that are built so far."""
        with self._lock:
            made = list(self._known.items())
        return [(class_, type_) for type_, class_ in made if isinstance(type_, ClassType)]

    def enum_member(self, type_: EnumType, value: Any) -> enum.Enum | None:
        """The member whose value is ``value``; None without one."""
        members: Iterable[enum.Enum] = self.python_class(type_)
        equal = (m for m in members if type(m.value) is type(value) and m.value == value)
        return next(equal, None)

    def type_of(self, value: Any) -> Type | None:
        """The archive's type of an object, enum member or named tuple; None for other values."""
        native = native_name(value)
        if native is not None:
            return native_class(native)
        if isinstance(value, ForeignObject):
            return value.class_
        return type_of_class(type(value))


def name_of(type_: Type) -> str:
    """The qualified name of a type that has a Python class."""
    assert isinstance(type_, ClassType | EnumType | TupleType)
    return type_.qualified_name or ""


def as_number(value: Any) -> int | float | complex | None:
    """The number that a constant acts as; None for other tensors.

    A bool stays a tensor: torch has no operator for it and fails.
    """
    if not isinstance(value, torch.Tensor) or value.dim() or value.dtype is torch.bool:
        return None
    return None if value.requires_grad or value.is_meta else value.item()


def new_object(class_: type) -> Any:
    """An instance of a Python class of the archive, for slots to be set next."""
    return class_() if issubclass(class_, torch.nn.Module) else class_.__new__(class_)


def unset_object(class_: type) -> Any:
    """An instance for code of the archive, which may read slots before it sets them."""
    made = new_object(class_)
    if isinstance(made, torch.nn.Module):
        unset_slots(made)
    return made


_AS_THEY_ARE: Final = frozenset({type(None), bool, int, float, complex, str})


class Objects:
    """Makes run-time values; each object, list and dict is made once.

    ``native_object`` makes an object of a class bound from C++ from its state, and ``call`` runs a
    function of the archive.
    """

    def __init__(
        self,
        table: ClassTable,
        native_object: Callable[[ClassType, Any], Any],
        call: Callable[..., Any],
        lock: AbstractContextManager[Any],
    ) -> None:
        self._table = table
        self._native_object = native_object
        self._call = call
        self._lock = lock
        self._constants: dict[Node, Any] = {}
        self._known: dict[ObjectValue, Any] = {}
        self._containers: dict[int, tuple[Any, Any]] = {}
        self._numbers: dict[int, tuple[Any, torch.Tensor]] = {}

    def constant(self, node: Node) -> Any:
        """The run-time value of a constant node, one for all calls."""
        with self._lock:
            if node not in self._constants:
                value = node.attributes["value"]
                self._constants[node] = self.typed(value, node.output.type)
            return self._constants[node]

    def noted_number(self, tensor: torch.Tensor, number: Any) -> Any:
        """The number, of which it is known from now on that ``tensor`` acts as it."""
        self._numbers[id(number)] = number, tensor
        return number

    def acting_as(self, number: Any) -> torch.Tensor | None:
        """The constant tensor that acts as a number, which is this very object."""
        noted = self._numbers.get(id(number))
        return None if noted is None else noted[1]

    def value(self, value: Any) -> Any:
        """The run-time value of a value that a graph holds."""
        if type(value) in _AS_THEY_ARE:
            return value
        # Imported late: code that is stored has no graphs, and its default values are plain.
        from tsarchive.ir.constants import (
            Device,
            EnumMember,
            GeneratorSeed,
            ObjectValue,
            TableConstant,
        )

        match value:
            case TableConstant(content):
                return self.value(content)
            case Device(text):
                return torch.device(text)
            case EnumMember(type_, name):
                return self._table.python_class(type_)[name]
            case GeneratorSeed(device, seed):
                return torch.Generator(device).manual_seed(seed)
            case ObjectValue():
                return self._object(value)
            case tuple():
                return tuple([self.value(item) for item in value])
            case list() | dict():
                return self._container(value)
        return value

    def typed(self, value: Any, type_: Type) -> Any:
        """Like ``value``; tuples of a named type become such."""
        match type_, value:
            case TupleType(elements, name), tuple():
                items = map(self.typed, value, elements)
                return self._table.python_class(type_)(*items) if name else tuple(items)
            case ListType(element), list():
                return [self.typed(item, element) for item in value]
            case OptionalType(element), _ if value is not None:
                return self.typed(value, element)
        return self.value(value)

    def _container(self, value: Any) -> Any:
        if id(value) not in self._containers:
            made: Any
            if isinstance(value, list):
                made = [self.value(item) for item in value]
            else:
                made = {self.value(key): self.value(item) for key, item in value.items()}
            # The original is kept alive, so that nothing else gets its id.
            self._containers[id(value)] = (value, made)
        return self._containers[id(value)][1]

    def _object(self, described: ObjectValue) -> Any:
        found = self._known.get(described)
        if found is None:
            type_ = described.type
            if type_.is_native:
                found = self._native_object(type_, self._state(described))
            else:
                class_ = self._table.python_class(type_)
                make = new_object if described.state is None else unset_object
                found = self._known[described] = make(class_)
                if described.state is not None:
                    self._call(type_.methods["__setstate__"], found, self._state(described))
                else:
                    for name, attribute in type_.attributes.items():
                        set_slot(found, attribute, self.value(described.slots[name]))
            self._known[described] = found
        return found

    def _state(self, described: ObjectValue) -> Any:
        return None if described.state is None else self.value(described.state.value)
