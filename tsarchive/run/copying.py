"""Copies and pickles of what an archive's classes make: modules, objects, members, named tuples.

Instances are copied by their state, as Python's are. Their classes cannot be imported by name, so
a pickle holds the code of the archive, once, and the names of classes in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tsarchive.ir.types import Type

if TYPE_CHECKING:
    from .classes import Classes

__all__ = ["ClassReference", "Origin", "reduce_instance", "reduce_member", "reduce_named_tuple"]

Reduced = tuple[Any, ...]


class Origin(Protocol):
    """What the classes of an archive were made from, and can be made from elsewhere."""

    def find(self, qualified_name: str) -> Type | None:
        """The class, enum or named tuple of that name."""

    def reduce(self) -> tuple[Callable[..., Classes], tuple[Any, ...]]:
        """A function of a module that gives the classes again, and its arguments."""


class ClassReference:
    """Stands for a Python class of an archive in copies and pickles; unpickles as the class."""

    def __init__(self, class_: type, classes: Classes, qualified_name: str) -> None:
        self.class_ = class_
        self._classes = classes
        self._name = qualified_name

    def __deepcopy__(self, memo: dict[int, Any]) -> type:
        return self.class_

    def __reduce__(self) -> Reduced:
        return _class_named, (self._classes, self._name)


def _class_named(classes: Classes, qualified_name: str) -> Any:
    return classes.class_named(qualified_name)


def _class(given: ClassReference | type) -> Any:
    return given.class_ if isinstance(given, ClassReference) else given


def _new_instance(class_: ClassReference | type, *arguments: Any) -> Any:
    made = _class(class_)
    return made.__new__(made, *arguments)


def _member(class_: ClassReference | type, name: str) -> Any:
    return _class(class_)[name]


def reduce_instance(value: Any, protocol: int) -> Any:
    """What ``__reduce_ex__`` of an instance gives: its own state, and a way to its class."""
    reduced = object.__reduce_ex__(value, max(protocol, 2))
    reference = vars(type(value)).get("tsarchive_reference")
    if not isinstance(reference, ClassReference) or isinstance(reduced, str):
        return reduced  # a class that was derived in Python
    _, (_, *arguments), *rest = reduced
    return (_new_instance, (reference, *arguments), *rest)


def reduce_member(member: Any, _protocol: int) -> Reduced:
    """The same for a member of an enum."""
    return _member, (type(member).tsarchive_reference, member.name)


def reduce_named_tuple(value: Any, _protocol: int) -> Reduced:
    """The same for a named tuple."""
    return _new_instance, (type(value).tsarchive_reference, *value)
