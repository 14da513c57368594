"""The state of one function under construction: scopes, constants, values and errors."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tsarchive.errors import SourceError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import CONSTANT, Block, Node, Value
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import NONE, ListType, TupleType, Type, annotation
from tsarchive.ir.values import EnumMember, GeneratorSeed, ObjectValue, TableConstant

from .places import CodePlace, located, place_of
from .references import FunctionReference, Reference, Results, Typed, typed

if TYPE_CHECKING:
    from .importer import CodeImporter


class Frame:
    """The body of a function, or of a closure inside one.

    Constants are shared within a body and stand at its start. ``version`` is None where code is
    compiled at the current operator version: everywhere but in methods of classes.
    """

    def __init__(self, version: int | None) -> None:
        self.version = version
        self.body = Block()
        self.constants: dict[Any, Value] = {}
        self.captured: dict[Value, Value] = {}
        self.temporary: list[tuple[Block, Node]] = []
        self.reads: dict[Value, str | None] = {}
        self.conditions: list[tuple[Node, Value]] = []

    def constant(self, value: Any, type_: Type) -> Value:
        key = (constant_key(value), type_)
        found = self.constants.get(key)
        if found is None:
            node = Node(CONSTANT, attributes={"value": value})
            found = self.constants[key] = node.add_output(type_)
        return found

    def capture(self, outer: Typed) -> Typed:
        """The parameter of a closure's body that stands for a value from outside."""
        param = self.captured.get(outer.value)
        if param is None:
            param = self.body.add_param(outer.value.type, outer.value.name)
            self.captured[outer.value] = param
        return outer._replace(value=param)

    def _name_reads(self) -> None:
        """Name reads of attributes "0", "1", ... after them, where torch did so.

        It does in code that names all reads; older code has reads without a name, and there
        ``_16 = getattr(x, "1")`` is the sixteenth unnamed value.
        """
        if all(value.name or proposed for value, proposed in self.reads.items()):
            for value, proposed in self.reads.items():
                value.name = value.name or proposed

    def tidy(self) -> None:
        """Remove what turned out to be unused."""
        for loop, param in reversed(self.conditions):
            drop_condition_variable(loop, param)
        for block, node in reversed(self.temporary):
            if node in block.nodes and not any(value.uses for value in node.outputs):
                node.drop_inputs()
                block.nodes.remove(node)

    def finish(self) -> Block:
        """The whole body."""
        self._name_reads()
        self.body.nodes[:0] = [value.node for value in self.constants.values()]
        return self.body


def drop_condition_variable(loop: Node, param: Value) -> None:
    """Stop carrying the variable of ``while c``, when nothing but the loop itself reads it."""
    (body,) = loop.blocks
    position = body.params.index(param)
    if param.uses or loop.outputs[position - 1].uses:
        return
    # Before the carried values come the trip count and the condition, and the condition.
    without_input(loop, position + 1)
    without_input(body.return_node, position)
    del body.params[position], loop.outputs[position - 1]


def without_input(node: Node, offset: int) -> None:
    """Take one input from a node."""
    kept = [value for index, value in enumerate(node.inputs) if index != offset]
    node.drop_inputs()
    for value in kept:
        node.add_input(value)


# Of these, equal values of one type cannot be told apart.
_PLAIN = frozenset({bool, int, str, type(None)})


def constant_key(value: Any) -> Any:
    """A key under which only constants that cannot be told apart are equal."""
    if type(value) in _PLAIN:
        return type(value), value
    match value:
        case float() | complex():
            return type(value), repr(value)
        case tuple() | list():
            return type(value), tuple(map(constant_key, value))
        case dict():
            return dict, tuple((constant_key(k), constant_key(v)) for k, v in value.items())
        case TableConstant() | ObjectValue() | Function() | EnumMember() | GeneratorSeed():
            # torch, too, keeps each mention of an enum member as a constant of its own.
            return id(value)
    return type(value), value


class Scope:
    """The names assigned in one block, in the order of their last assignment."""

    def __init__(self, frame: Frame, block: Block, outer: Scope | None = None) -> None:
        self.frame = frame
        self.block = block
        self.outer = outer
        self.names: dict[str, Reference] = {}
        self.unusable: dict[str, str] = {}

    def find(self, name: str) -> Reference | None:
        scope: Scope | None = self
        while scope is not None and scope.frame is self.frame:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        found = None if scope is None else scope.find(name)
        return self.frame.capture(found) if isinstance(found, Typed) else found

    def find_outside(self, name: str) -> Reference | None:
        """What the name means in the blocks around this one."""
        if self.outer is None or self.outer.frame is not self.frame:
            return None
        return self.outer.find(name)

    def bind(self, name: str, reference: Reference) -> None:
        self.names.pop(name, None)
        self.names[name] = reference

    def why_unusable(self, name: str) -> str | None:
        reason = self.unusable.get(name)
        if reason is None and self.outer is not None:
            return self.outer.why_unusable(name)
        return reason


class Environment:
    """What all parts of the compiler of one function share."""

    def __init__(self, importer: CodeImporter, record: str, line_offset: int, text: str) -> None:
        self.importer = importer
        self.record = record
        self.line_offset = line_offset
        self.text = text
        self.places = importer.places(record)
        self.statement: ast.AST = ast.Pass()
        self.position: ast.AST = self.statement
        self.frame = Frame(None)
        self.scope = Scope(self.frame, self.frame.body)

    def enter(self, frame: Frame) -> None:
        """Start the body of a function."""
        self.frame = frame
        self.scope = Scope(frame, frame.body)

    def place(self, node: ast.AST) -> CodePlace:
        return place_of(node, self.places, self.line_offset)

    def error(self, node: ast.AST, message: str, hint: str | None = None) -> SourceError:
        return self.locate(SourceError(message, hint=hint), node)

    def refuse(self, node: ast.AST, what: str) -> NoReturn:
        """Raise for a construct that serialized code does not have."""
        raise self.error(
            node, f"{what} cannot stand in TorchScript code: {shorten(ast.unparse(node))!r}"
        )

    def locate(self, error: SourceError, node: ast.AST) -> SourceError:
        """The error with the place of ``node``, unless it names one already."""
        return located(error, self.place(node))

    def append(
        self,
        kind: str,
        inputs: Sequence[Value],
        *outputs: Type,
        schema: FunctionSchema | None = None,
        **attributes: Any,
    ) -> Node:
        place = self.place(self.position)
        node = self.scope.block.append(kind, inputs, place=place, schema=schema, **attributes)
        for type_ in outputs:
            node.add_output(type_)
        return node

    def constant(self, value: Any, type_: Type) -> Typed:
        return typed(self.frame.constant(value, type_))

    def function_value(self, function: Function) -> Value:
        return self.frame.constant(function, function.type)

    def as_value(self, reference: Reference, node: ast.AST) -> Typed:
        """A reference where a value is needed."""
        match reference:
            case Typed():
                return reference
            case FunctionReference(function):
                return typed(self.function_value(function))
            case Results(values, names):
                return self._packed(values, names)
        raise self.error(node, f"{shorten(ast.unparse(node))!r} is not a value")

    def _packed(self, values: Sequence[Value], names: tuple[str, ...]) -> Typed:
        if not values:
            return self.constant((), TupleType(()))
        type_ = TupleType(tuple(value.type for value in values), None, names)
        return typed(self.append("prim::TupleConstruct", values, self.checked(type_)).output)

    def none(self) -> Typed:
        return self.constant(None, NONE)

    def list_of(self, element: Type, values: Sequence[Value]) -> Typed:
        type_ = self.checked(ListType(element))
        return typed(self.append("prim::ListConstruct", values, type_).output)

    def checked(self, type_: Type) -> Type:
        """A type that the current statement makes, unless it is too large."""
        try:
            return self.importer.sizes.checked(type_)
        except SourceError as error:
            raise self.locate(error, self.statement) from None


def shorten(text: str, limit: int = 80) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def shown(type_: Type) -> str:
    return annotation(type_)
