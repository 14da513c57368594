"""Objects that ``is`` tells apart in torch, where Python has one.

torch makes a string, a member of an enum or a complex number anew for each that Python passes in,
for each result of an operator, and once for each constant in code. Python has one object for a
member, and often one for equal strings. So functions that compare such values by ``is``, which
few do, and those that pass such values to them, work with objects of their own.
"""

from __future__ import annotations

import contextlib
import enum
import operator
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import Function, InterfaceType
from tsarchive.ir.graph import Block, Node, Value, walk
from tsarchive.ir.subtyping import flat_members
from tsarchive.ir.types import (
    ANY,
    ANY_ENUM,
    ANY_LIST,
    ANY_TUPLE,
    COMPLEX,
    COMPOSITE,
    NUMBER,
    STRING,
    DictType,
    EnumType,
    ListType,
    TupleType,
    Type,
)

from .liveness import ALIASES, called_function

_SHARED: Final = frozenset({ANY, ANY_ENUM, COMPLEX, NUMBER, STRING})
_HOLDING: Final = _SHARED | {ANY_LIST, ANY_TUPLE}
_TEXTS: Final = frozenset({ListType(STRING), TupleType((STRING, STRING, STRING))})
_OF_TUPLES: Final = frozenset({"prim::TupleIndex", "prim::TupleUnpack"})
_COMPARISONS: Final = frozenset({"aten::__is__", "aten::__isnot__"})


def own_text(text: str) -> str:
    """An equal string that is another object, except for the empty one."""
    return "".join((text, "", ""))


def own_member(member: enum.Enum) -> enum.Enum:
    """Another object for a member of an enum of an archive, which equals it."""
    class_: Any = type(member)
    class_.__eq__ = lambda one, other: (
        type(one) is type(other) and one.name == getattr(other, "name", None)
    )
    made: enum.Enum = object.__new__(class_)
    made.__dict__.update(member.__dict__, _value_=own_value(member.value))
    return made


_OWN: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: own_text,
    complex: lambda number: complex(number.real, number.imag),
}


def own_value(value: Any) -> Any:
    """``value``, whose lists and dicts nobody else has, with objects of its own at every depth."""
    make = _OWN.get(type(value))
    if make is not None:
        return make(value)
    if isinstance(value, list):
        value[:] = map(own_value, value)
    elif isinstance(value, dict):
        pairs = [(own_value(key), own_value(item)) for key, item in value.items()]
        value.clear()
        value.update(pairs)
    elif isinstance(value, tuple):
        items = map(own_value, value)
        return tuple(items) if type(value) is tuple else type(value)(*items)
    elif isinstance(value, enum.Enum) and hasattr(value, "tsarchive_enum"):
        return own_member(value)
    return value


def may_hold_shared(type_: Type) -> bool:
    """Return whether values of a type are such, or hold such, that Python does not tell apart."""
    if type_ in _HOLDING or isinstance(type_, EnumType):
        return True
    return isinstance(type_, COMPOSITE) and any(map(may_hold_shared, type_.parts()))


def _may_be_shared(type_: Type) -> bool:
    return any(t in _SHARED or isinstance(t, EnumType) for t in flat_members(type_))


def makes_text(node: Node) -> bool:
    """Return whether an operator makes new strings, and does not take them from its operands."""
    if node.schema is None or node.kind == "prim::EnumValue":
        return node.kind == "prim::EnumName"
    returned = [value.type for value in node.schema.returns]
    if STRING in returned or _TEXTS.isdisjoint(returned):
        return STRING in returned
    given = (argument.type for argument in node.schema.arguments)
    return not any(isinstance(t, ListType | DictType) and STRING in t.parts() for t in given)


def must_differ(first: Value, second: Value, graph: Block) -> bool:
    """Return whether two values of a function are different objects in torch, whatever they hold.

    A constant is another object wherever code has it, and each time that torch reads it, unless
    it is a member of an enum.
    """
    first, second = _source(first), _source(second)
    if first is second:
        return _is_read(first)
    values = first, second
    if any(value.node.is_constant and isinstance(value.type, EnumType) for value in values):
        return True
    made = [_is_made(value) for value in values]
    given = [value.node is graph.param_node for value in values]
    return any(made) and all(map(operator.or_, made, given))


def _source(value: Value) -> Value:
    """The value that an object has first, before casts and before tuples that are unpacked."""
    while (before := _before(value)) is not None:
        value = before
    return value


def _before(value: Value) -> Value | None:
    node = value.node
    if node.kind in ALIASES and node.inputs:
        return node.input
    if node.kind not in _OF_TUPLES or node.input.node.kind != "prim::TupleConstruct":
        return None
    if node.kind == "prim::TupleUnpack":
        return node.input.node.inputs[node.outputs.index(value)]
    index = node.inputs[1].node
    return node.input.node.inputs[index.attributes["value"]] if index.is_constant else None


def _is_read(value: Value) -> bool:
    return value.node.is_constant and value.type in (STRING, COMPLEX)


def _is_made(value: Value) -> bool:
    """Return whether the object is one that its node makes."""
    if value.type == STRING and makes_text(value.node):
        return True
    return _is_read(value) or value.node.kind == "prim::TupleConstruct"


class Comparisons:
    """Finds the functions that compare such values; one for all functions of an archive."""

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self._lock = lock
        self._known: dict[Function, bool] = {}
        self._texts: dict[str, str] = {}

    def text(self, constant: str) -> str:
        """The object of a constant string, one for all functions."""
        return self._texts.setdefault(constant, own_text(constant))

    def of(self, function: Function) -> bool:
        """Return whether a function, or one that it passes them to, compares such values."""
        found = self._known.get(function)
        if found is None:
            with self._lock:
                found = self._known[function] = self._find(function)
        return found

    def _find(self, first: Function) -> bool:
        reached, waiting = {first}, [first]
        while waiting:
            function = waiting.pop()
            known = self._known.get(function)
            graph = Block()
            with contextlib.suppress(ArchiveError):  # it fails when it is called
                graph = function.graph if known is None else graph
            if known or any(_compares(node, graph) for node in walk(graph.nodes)):
                return True
            callees = {
                callee
                for node in walk(graph.nodes)
                if (callee := called_function(node))
                and any(may_hold_shared(value.type) for value in node.inputs)
            }
            waiting += callees - reached
            reached |= callees
        self._known.update(dict.fromkeys(reached, False))
        return False


def _compares(node: Node, graph: Block) -> bool:
    """Return whether a node compares such values; methods of interfaces may."""
    if node.kind == "prim::CallMethod" and isinstance(node.input.type, InterfaceType):
        return any(may_hold_shared(value.type) for value in node.inputs)
    if node.kind not in _COMPARISONS:
        return False
    first, second = node.inputs
    are_shared = _may_be_shared(first.type) and _may_be_shared(second.type)
    return are_shared and not must_differ(first, second, graph)
