"""The types of values in graphs, and the builder of the graphs that hold them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .classes import Function, FunctionType
from .constants import Device, EnumMember, GeneratorSeed, ObjectValue, TableConstant
from .graph import CONSTANT, Block, Node, Placed, Use, Value
from .schema import Argument, FunctionSchema
from .types import (
    GENERATOR,
    STRING,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    simple_type,
)

# Types have the names of these classes.
_NAMED_ALIKE = (bool, int, float, complex, str, type(None), Device)
_EXACT = {kind: simple_type(kind.__name__) for kind in _NAMED_ALIKE} | {GeneratorSeed: GENERATOR}


def type_of_constant(value: Any) -> Type:
    """Return the run-time type of a constant, as torch infers it for ``Final[...]``."""
    if type(value) in _EXACT:
        return _EXACT[type(value)]
    match value:
        case EnumMember() | ObjectValue():
            return value.type
        case tuple():
            return TupleType(tuple(type_of_constant(item) for item in value))
        case list():
            return ListType(type_of_constant(value[0]) if value else TENSOR)
        case dict() if value:
            key, item = next(iter(value.items()))
            return DictType(type_of_constant(key), type_of_constant(item))
        case dict():
            return DictType(STRING, TENSOR)
    return TENSOR


def necessary_arguments(schema: FunctionSchema, inputs: Sequence[Value]) -> tuple[int, int]:
    """Return how many leading inputs must be printed, and how many trailing ones are ``out``.

    Trailing arguments equal to their defaults are omitted.
    """
    arguments = schema.arguments
    needed = len(arguments)
    while needed and arguments[needed - 1].is_out:
        needed -= 1
    out_count = len(arguments) - needed
    if len(arguments) < len(inputs):
        return len(inputs), out_count
    while needed and is_default(arguments[needed - 1].default, inputs[needed - 1]):
        needed -= 1
    return needed, out_count


def is_default(default: Any, value: Value) -> bool:
    """Return whether a value is the constant that a call has where it leaves the argument out."""
    if isinstance(value.type, FunctionType):
        return False
    # torch distinguishes 1, 1.0 and True.
    return type(value.constant) is type(default) and bool(value.constant == default)


# Half the time of a call of the class.
_new = tuple.__new__


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
        return self.add(Node(kind, [*inputs], [], [], attributes, schema, self.place()), *outputs)

    def add(self, node: Node, *outputs: Type) -> Node:
        """Append a node that is made, but for its outputs and its uses of its inputs."""
        for offset, value in enumerate(node.inputs):
            value.uses.append(_new(Use, (node, offset)))
        for type_ in outputs:
            node.outputs.append(Value(node, type_))
        self.block.nodes.append(node)
        return node

    def constant(self, value: Any, type_: Type) -> Value:
        """Return a constant; constants that cannot be told apart are one value."""
        if not self.shares_constants:
            return self.append(CONSTANT, (), type_, value=value).output
        kind = type(value)
        key = (kind, value, type_) if kind in _PLAIN else (_constant_key(value), type_)
        found = self.constants.get(key)
        if found is None:
            if self.hoists_constants:
                made = Node(CONSTANT, [], [], [], {"value": value})
                found = Value(made, type_)
                made.outputs.append(found)
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
    if type(value) is TableConstant:
        return id(value)
    match value:
        case float() | complex():
            return type(value), repr(value)
        case tuple() | list():
            return type(value), tuple(map(_constant_key, value))
        case dict():
            return dict, tuple((_constant_key(k), _constant_key(v)) for k, v in value.items())
        case ObjectValue() | Function() | EnumMember() | GeneratorSeed():
            # torch, too, keeps each mention of an enum member as a constant of its own.
            return id(value)
    return type(value), value
