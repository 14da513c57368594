"""Objects of classes that a library binds from C++, and this process does not have.

An archive is loaded, looked into, decompiled and saved without the library; what needs it is a call
of a method, or of an operator that is given such an object.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from tsarchive.ir.classes import ClassType
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import Type
from tsarchive.operators.overloads import overloads_of, parsed
from tsarchive.operators.registry import schema_texts

from .operators import native_class, operator_schemas


@cache
def foreign_class(qualified_name: str) -> ClassType:
    """Return the one class of a name that stands for what a library would register."""
    return ClassType(qualified_name, is_native=True)


def any_native_class(qualified_name: str) -> ClassType | None:
    """Return the class bound from C++, or what stands for it; None for what none can be called."""
    found = native_class(qualified_name)
    if found is not None:
        return found
    namespace, _, name = qualified_name.removeprefix(NATIVE_PREFIX).partition(".")
    fits = qualified_name.startswith(NATIVE_PREFIX) and namespace.isidentifier()
    return foreign_class(qualified_name) if fits and name.isidentifier() else None


def is_foreign(class_: ClassType) -> bool:
    """Return whether a class bound from C++ is not registered."""
    return class_.is_native and foreign_class(class_.qualified_name) is class_


def readable_schemas(name: str) -> tuple[FunctionSchema, ...]:
    """Return the overloads of an operator; those of another torch where this one has none.

    Code that calls them is read like any other, and cannot be compiled. Those that every torch of
    today lacks are not among them: functions stand for them, or they are refused with a reason.
    """
    return operator_schemas(name) or _absent_schemas(name)


@cache
def _absent_schemas(name: str) -> tuple[FunctionSchema, ...]:
    from tsarchive.operators.removed import removed

    gone = [candidate.schema for candidate in removed(name)]
    texts = zip(schema_texts(name), overloads_of(name), strict=False)  # builtins follow the texts
    return tuple(parsed(text, any_native_class) for text, schema in texts if schema not in gone)


class ForeignObject:
    """An object of a class that is not registered: its state, as the archive has it."""

    __slots__ = ("class_", "state", "state_type")

    def __init__(self, class_: ClassType, state: Any, state_type: Type) -> None:
        self.class_ = class_
        self.state = state
        self.state_type = state_type

    def __repr__(self) -> str:
        return f"<an object of {self.class_.qualified_name}, which is not registered>"

    def __deepcopy__(self, memo: dict[int, Any]) -> ForeignObject:
        return ForeignObject(self.class_, copy.deepcopy(self.state, memo), self.state_type)
