"""Appending to program graphs: what every frontend that makes them holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .classes import Function
from .graph import CONSTANT, Block, Node, Placed, Use, Value
from .schema import Argument, FunctionSchema
from .types import ListType, OptionalType, Type
from .values import EnumMember, GeneratorSeed, ObjectValue, TableConstant, type_of_constant


@dataclass(eq=False)
class Builder:
    """Appends nodes to ``block``, which is ``body`` or a block nested in it.

    ``place`` gives the place of a node that is appended now; ``checked`` raises for types that
    are too large. Equal constants are one value. Their nodes stand where they are first used or,
    with ``hoists_constants``, at the start of the finished body. Without ``shares_constants`` each
    stands where it is written, with its place.
    """

    body: Block
    place: Callable[[], Placed | None]
    checked: Callable[[Type], Type] = lambda type_: type_
    hoists_constants: bool = False
    shares_constants: bool = True

    def __post_init__(self) -> None:
        self.block = self.body
        self.constants: dict[Hashable, Value] = {}
        self._temporary: list[tuple[Block, Node]] = []

    def append(
        self,
        kind: str,
        inputs: Sequence[Value] = (),
        *outputs: Type,
        schema: FunctionSchema | None = None,
        **attributes: Any,
    ) -> Node:
        """Append a node with outputs of the given types."""
        node = Node(kind, [*inputs], [], [], attributes, schema, self.place())
        for offset, value in enumerate(inputs):
            value.uses.append(Use(node, offset))
        node.outputs = [Value(node, type_) for type_ in outputs]
        self.block.nodes.append(node)
        return node

    def constant(self, value: Any, type_: Type) -> Value:
        """Return a constant; constants that cannot be told apart are one value."""
        if not self.shares_constants:
            return self.append(CONSTANT, (), type_, value=value).output
        key = (_constant_key(value), type_)
        found = self.constants.get(key)
        if found is None:
            if self.hoists_constants:
                found = Node(CONSTANT, attributes={"value": value}).add_output(type_)
            else:
                found = self.append(CONSTANT, (), type_, value=value).output
            self.constants[key] = found
        return found

    def default(self, argument: Argument) -> Value:
        """Return the value of an argument that a call leaves out."""
        type_ = argument.type
        if isinstance(type_, OptionalType):
            type_ = type_.element
        if not isinstance(argument.default, list):
            type_ = type_of_constant(argument.default)
        value = self.constant(argument.default, type_)
        if not self.shares_constants:
            value.node.place = None  # it is not written
        return value

    def list_of(self, element: Type, values: Sequence[Value]) -> Value:
        """Return a list of values of the type ``element``."""
        return self.append("prim::ListConstruct", values, self.checked(ListType(element))).output

    def drop_if_unused(self, value: Value) -> None:
        """Remove a literal that was made to be taken apart, unless something else uses it."""
        if value.node.kind in ("prim::TupleConstruct", "prim::ListConstruct"):
            self._temporary.append((self.block, value.node))

    def remove_unused(self) -> None:
        """Remove the literals of :meth:`drop_if_unused`, now that all uses are known."""
        for block, node in reversed(self._temporary):
            if node in block.nodes and not any(value.uses for value in node.outputs):
                node.drop_inputs()
                block.nodes.remove(node)

    def finish(self) -> Block:
        """Return the whole body."""
        if self.hoists_constants:
            self.body.nodes[:0] = [value.node for value in self.constants.values()]
        return self.body


# Of these, equal values of one type cannot be told apart.
_PLAIN = frozenset({bool, int, str, type(None)})


def _constant_key(value: Any) -> Hashable:
    """Return a key under which only constants that cannot be told apart are equal."""
    if type(value) in _PLAIN:
        return type(value), value
    match value:
        case float() | complex():
            return type(value), repr(value)
        case tuple() | list():
            return type(value), tuple(map(_constant_key, value))
        case dict():
            return dict, tuple((_constant_key(k), _constant_key(v)) for k, v in value.items())
        case TableConstant() | ObjectValue() | Function() | EnumMember() | GeneratorSeed():
            # torch, too, keeps each mention of an enum member as a constant of its own.
            return id(value)
    return type(value), value
