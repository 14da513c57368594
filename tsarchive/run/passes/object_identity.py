"""Objects that ``is`` tells apart in torch, where Python has one.

torch makes a string, a member of an enum or a complex number anew for each that Python passes in,
for each result of an operator, and once for each constant in code. Python has one object for a
member, and often one for equal strings. So functions that compare such values by ``is``, which
few do, and those that pass such values to them, work with objects of their own.
"""

from __future__ import annotations

import contextlib
import operator
from contextlib import AbstractContextManager
from typing import Any, Final

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import Function, InterfaceType
from tsarchive.ir.graph import Block, Node, Value, walk
from tsarchive.ir.subtyping import flat_members
from tsarchive.ir.types import (
    COMPLEX,
    STRING,
    DictType,
    EnumType,
    ListType,
    TupleType,
    Type,
)
from tsarchive.run.own_objects import SHARED, may_hold_shared, own_text

from .liveness import ALIASES, CALLS, called_function

_TEXTS: Final = frozenset({ListType(STRING), TupleType((STRING, STRING, STRING))})
OF_TUPLES: Final = frozenset({"prim::TupleIndex", "prim::TupleUnpack"})
COMPARISONS: Final = frozenset({"aten::__is__", "aten::__isnot__"})
# Nodes that compare such values, or pass them to functions that may.
_DECIDING: Final = COMPARISONS | CALLS


def _may_be_shared(type_: Type) -> bool:
    return any(t in SHARED or isinstance(t, EnumType) for t in flat_members(type_))


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
    while (before := value_before(value)) is not None:
        value = before
    return value


def value_before(value: Value) -> Value | None:
    """Return what a value was before a cast, or before it was put into a tuple; None where it was
    neither."""
    node = value.node
    if node.kind in ALIASES and node.inputs:
        return node.input
    if node.kind not in OF_TUPLES or node.input.node.kind != "prim::TupleConstruct":
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

    def __init__(self, lock: AbstractContextManager[Any], known: dict[Function, bool]) -> None:
        self._lock = lock
        self._known = known
        self._texts: dict[str, str] = {}

    def text(self, constant: str) -> str:
        """The object of a constant string, one for all functions."""
        return self._texts.setdefault(constant, own_text(constant))

    def has_text(self, text: str) -> bool:
        """Return whether this string is the object of a constant."""
        return self._texts.get(text) is text

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
            nodes = [node for node in walk(graph.nodes) if node.kind in _DECIDING]
            if known or any(_compares(node, graph) for node in nodes):
                return True
            callees = {
                callee
                for node in nodes
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
    if node.kind not in COMPARISONS:
        return False
    first, second = node.inputs
    are_shared = _may_be_shared(first.type) and _may_be_shared(second.type)
    return are_shared and not must_differ(first, second, graph)
