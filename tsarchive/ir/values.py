"""Values that Python has no plain form for, and the builder of the graphs that hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .classes import ClassType, Function, FunctionType
from .graph import CONSTANT, Block, Node, Placed, Use, Value
from .schema import Argument, FunctionSchema
from .types import (
    GENERATOR,
    STRING,
    TENSOR,
    DictType,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    simple_type,
)

# The names of device types that need no extension of torch.
_DEVICE = re.compile(
    r"(?:cpu|cuda|fpga|hip|hpu|ideep|ipu|lazy|maia|meta|mkldnn|mps|mtia|opencl|opengl"
    r"|privateuseone|ve|vulkan|xla|xpu)(?::(?:0|[1-9]\d{0,2}))?"
)


@dataclass(frozen=True, slots=True)
class Device:
    """A device constant; ``text`` is torch's form, such as ``cpu`` or ``cuda:0``."""

    text: str


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A member of an Enum that the archive defines."""

    type: EnumType
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class GeneratorSeed:
    """A Generator constant: its device and current seed."""

    device: str
    seed: int


@dataclass(frozen=True, slots=True)
class TableConstant:
    """A constant kept in constants.pkl: a tensor or an object. ``value`` is opaque here."""

    value: Any


@dataclass(eq=False, slots=True)
class ObjectValue:
    """An instance of an archive class, for writing.

    ``slots`` maps attribute names to values in slot order. For a class with ``__getstate__``
    (and for torchbind) ``state`` holds the returned value and its type, and slots are not
    written. Two references to one ObjectValue are one object.
    """

    type: ClassType
    slots: dict[str, Any] = field(default_factory=dict)
    state: TypedValue | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """The parts of a tuple that have other owners, by position: ``elements`` themselves, and of the
    lists in ``items`` each item. The pickle form depends on it."""

    elements: tuple[int, ...] = ()
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value with the static type it was produced with, and what else holds its parts."""

    value: Any
    type: Type
    held: Held = Held()


def conforms(value: Any, type_: Type, is_of: Callable[[Any, Type], bool]) -> bool:
    """Return whether ``value`` can be of ``type_``; ``is_of`` decides for scalar types.

    An empty container fits every element type.
    """
    match type_:
        case OptionalType(element):
            return value is None or conforms(value, element, is_of)
        case UnionType(members):
            return any(conforms(value, member, is_of) for member in members)
        case ListType(element):
            return isinstance(value, list) and all(conforms(v, element, is_of) for v in value)
        case DictType(key, item):
            return isinstance(value, dict) and all(
                conforms(k, key, is_of) and conforms(v, item, is_of) for k, v in value.items()
            )
        case TupleType(elements):
            return (
                isinstance(value, tuple)
                and len(value) == len(elements)
                and all(conforms(v, t, is_of) for v, t in zip(value, elements, strict=True))
            )
    return is_of(value, type_)


def is_device(text: str) -> bool:
    """Return whether a string names a device of a type that torch knows by itself."""
    return _DEVICE.fullmatch(text) is not None


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
