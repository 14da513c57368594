"""The canonical encoding of programs: bytes that depend on what code means, not on how it is told.

A program becomes plain data, and plain data becomes bytes, which a fingerprint digests. The rules
stand in ``docs/fingerprint.md``; they are part of the version of the fingerprint.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tsarchive.analyses.carried_order import CarriedOrder, is_carrying, reordered
from tsarchive.frontend.context import UNREACHABLE
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.constants import Device, EnumMember, GeneratorSeed, TableConstant
from tsarchive.ir.graph import CONSTANT, Block, Node, Value, nested_blocks
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import EnumType, NamedType, TupleType, Type, annotation, is_named
from tsarchive.printer.canonical import CanonicalNames

Plain: TypeAlias = (
    bool | int | float | complex | str | bytes | Sequence["Plain"] | Mapping[str, "Plain"] | None
)

_FLOAT: Final = struct.Struct(">d")
# Constants stand where they are used. What never runs has no meaning, and torch does not keep it;
# bodies of closures stand where they are forked.
_UNWRITTEN: Final = frozenset({CONSTANT, UNREACHABLE, "prim::Closure"})


def encode(value: Plain) -> bytes:
    """Return the bytes of plain data: each item is a letter, its length, and its content."""
    parts: list[bytes] = []
    _encode(value, parts.append)
    return b"".join(parts)


def _encode(value: Any, put: Callable[[bytes], Any]) -> None:
    match value:
        case None:
            put(b"n0:")
        case bool():
            put(b"b1:1" if value else b"b1:0")
        case int():
            _item(b"i", b"%d" % value, put)
        case float():
            _item(b"f", _FLOAT.pack(value), put)
        case complex():
            _item(b"c", _FLOAT.pack(value.real) + _FLOAT.pack(value.imag), put)
        case str():
            _item(b"s", value.encode("utf-8", "surrogateescape"), put)
        case bytes():
            _item(b"y", value, put)
        case Mapping():
            put(b"d%d:" % len(value))
            for key in sorted(value):
                _encode(key, put)
                _encode(value[key], put)
        case _:
            put(b"l%d:" % len(value))
            for item in value:
                _encode(item, put)


def _item(letter: bytes, content: bytes, put: Callable[[bytes], Any]) -> None:
    put(b"%b%d:" % (letter, len(content)))
    put(content)


# Blocks stand by themselves, and what they are forked for; how arguments are written means nothing.
_LEFT_OUT: Final = frozenset({"subgraph", "arguments", "is_forked"})


class ProgramEncoding:
    """Plain data of the definitions that objects and code lead to.

    ``constant`` gives the plain data of an entry of the table of constants. Each function is
    encoded as ``simplify`` leaves it.
    """

    def __init__(self, constant: Callable[[Any], Plain]) -> None:
        self.simplify: Callable[[Function], object] = lambda _: None
        self.names = CanonicalNames()
        self._constant = constant
        self._queue: list[NamedType] = []
        self._queued: set[NamedType] = set()

    def type(self, type_: Type) -> str:
        """Return the text of a type, whose definition becomes part of the program."""
        self._meet(type_)
        return annotation(type_, self.names.name)

    def name(self, named: NamedType) -> str:
        """Return the canonical name of a type, whose definition becomes part of the program."""
        self._meet(named)
        return self.names.name(named)

    def _meet(self, type_: Type) -> None:
        if is_named(type_):
            assert isinstance(type_, NamedType)
            if type_ not in self._queued:
                self._queued.add(type_)
                self._queue.append(type_)
                self.names.meet(type_)
                self.names.name(type_)
        if not isinstance(type_, ClassType | InterfaceType | FunctionType):
            for part in type_.parts():
                self._meet(part)

    def definitions(self) -> Iterator[tuple[str, Plain]]:
        """Yield what has been met, and what that leads to, by its canonical name."""
        for named in self._queue:  # grows meanwhile
            yield self.names.name(named), self._definition(named)

    def named(self) -> Mapping[str, NamedType]:
        """Return what has been met, by its canonical name."""
        return {self.names.name(named): named for named in self._queue}

    def _definition(self, named: NamedType) -> Plain:
        match named:
            case ClassType():
                return self._class(named)
            case FunctionType(function):
                return ["function", self._function(function)]
            case InterfaceType():
                methods = [[name, self._schema(s)] for name, s in sorted(named.methods.items())]
                return ["interface", named.is_module, methods]
            case EnumType():
                members = [[name, self.value(member)] for name, member in named.members.items()]
                return ["enum", self.type(named.value_type), members]
            case TupleType():
                return ["named tuple", [*named.fields], [*map(self.type, named.elements)]]
        raise AssertionError(f"no encoding for {named!r}")

    def _class(self, class_: ClassType) -> Plain:
        if class_.is_native or class_.is_revived:
            return ["class of a library"]
        return [
            "module" if class_.is_module else "class",
            [
                [slot.name, self.type(slot.type), slot.is_parameter, slot.is_buffer]
                for slot in class_.attributes.values()
            ],
            [
                [name, self.type(constant.type), self.value(constant.value)]
                for name, constant in sorted(class_.constants.items())
            ],
            [[name, self._function(method)] for name, method in sorted(class_.methods.items())],
            [hook.name for hook in class_.forward_pre_hooks],
            [hook.name for hook in class_.forward_hooks],
            [[hook.name, self._function(hook)] for hook in class_.hooks()],
        ]

    def _function(self, function: Function) -> Plain:
        self.simplify(function)
        graph = function.graph
        return [self._schema(function.schema), _Body(self, CarriedOrder(graph)).block(graph)]

    def _schema(self, schema: FunctionSchema) -> Plain:
        return [
            [*map(self._argument, schema.arguments)],
            [self.type(result.type) for result in schema.returns],
        ]

    def _argument(self, argument: Argument) -> Plain:
        default: Plain = [self.value(argument.default)] if argument.has_default else []
        return [argument.name, self.type(argument.type), default]

    def value(self, value: Any) -> Plain:
        """Return the plain data of a constant."""
        match value:
            case None | bool() | int() | float() | complex() | str() | bytes():
                return value
            case Device(text):
                return {"device": text}
            case EnumMember(type_, name):
                return {"enum": self.name(type_), "member": name}
            case GeneratorSeed(device, seed):
                return {"generator": device, "seed": seed}
            case Function():
                return {"function": self.name(value.type)}
            case TableConstant(content):
                return {"constant": self._constant(content)}
            case tuple():
                return {"tuple": [*map(self.value, value)]}
            case list():
                return {"list": [*map(self.value, value)]}
            case dict():
                return {"dict": [[self.value(k), self.value(v)] for k, v in value.items()]}
        return {"constant": self._constant(value)}


def written_nodes(block: Block) -> Iterator[Node]:
    """Yield the nodes of a block that the encoding has as nodes."""
    return (node for node in block.nodes if node.kind not in _UNWRITTEN)


class _Body:
    """Encodes the graph of one function: values by numbers, in the order in which they are made."""

    def __init__(self, program: ProgramEncoding, order: CarriedOrder) -> None:
        self._program = program
        self._order = order
        self._numbers: dict[Value, int] = {}

    def block(self, block: Block, order: Sequence[int] = ()) -> Plain:
        return [
            [self._define(value) for value in self._params(block, order)],
            [self._node(node) for node in written_nodes(block)],
            [self._use(value) for value in reordered(block.returns, order)],
        ]

    def _params(self, block: Block, order: Sequence[int]) -> Sequence[Value]:
        return reordered(block.params, order) if block.params else ()

    def _define(self, value: Value) -> Plain:
        self._numbers[value] = len(self._numbers)
        return self._program.type(value.type)

    def _use(self, value: Value) -> Plain:
        number = self._numbers.get(value)
        if number is not None:
            return number
        assert value.node.is_constant, value.node.kind
        return [self._program.type(value.type), self._program.value(value.constant)]

    def _node(self, node: Node) -> Plain:
        order = self._order.of(node) if is_carrying(node) else ()
        carried_in = order if node.kind == "prim::Loop" else ()
        inputs = [self._use(value) for value in reordered(node.inputs, carried_in)]
        blocks = [self.block(block, order) for block in nested_blocks(node)]
        return [
            node.operator or node.kind,
            node.upgrader,
            inputs,
            self._attributes(node),
            blocks,
            [self._define(value) for value in reordered(node.outputs, order)],
        ]

    def _attributes(self, node: Node) -> Plain:
        return {
            name: self._attribute(value)
            for name, value in node.attributes.items()
            if name not in _LEFT_OUT
        }

    def _attribute(self, value: Any) -> Plain:
        match value:
            case Type():
                return self._program.type(value)
            case tuple() | list():
                return [*map(self._attribute, value)]
        return self._program.value(value)
