"""The Python classes of one archive, each built when it is first asked for."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import EnumType, TupleType, Type

from .conversion import Converters
from .operators import native_class
from .typecheck import type_of_class


class ClassTable:
    """Holds the Python classes for the classes, enums and named tuples of an archive.

    ``build`` makes one of them. ``converter`` gives the function that converts values from Python
    to a type.
    """

    def __init__(self, build: Callable[[Type], Any], lock: AbstractContextManager[Any]) -> None:
        self._build = build
        self._lock = lock
        self._known: dict[Type, Any] = {}
        self.converter = Converters(self.python_class).converter

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
        for member in self.python_class(type_):
            if type(member.value) is type(value) and member.value == value:
                found: enum.Enum = member
                return found
        return None

    def type_of(self, value: Any) -> Type | None:
        """The archive's type of an object, enum member or named tuple; None for other values."""
        if isinstance(value, torch.ScriptObject):
            return native_class(value._type().annotation_str)
        return type_of_class(type(value))


def name_of(type_: Type) -> str:
    """The qualified name of a type that has a Python class."""
    assert isinstance(type_, ClassType | EnumType | TupleType)
    return type_.qualified_name or ""
