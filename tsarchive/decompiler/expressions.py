"""Python expressions for the nodes of a graph, by kind of node."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.graph import Node, Value, must_be_none
from tsarchive.ir.types import FLOAT, NONE, ListType, TupleType, Type
from tsarchive.ir.values import Device, EnumMember, GeneratorSeed, ObjectValue, TableConstant
from tsarchive.run.passes.object_identity import must_differ
from tsarchive.run.passes.peephole import known_result
from tsarchive.run.passes.uses import called_function

from . import syntax
from .members import is_plain, members_of, method_name
from .operators import Operators
from .program import Program
from .type_tests import type_test


class Expressions:
    """Expressions of one function, by node. ``known`` holds those of values that are computed.

    ``unchanged`` are nodes whose result is their first operand.
    """

    def __init__(
        self,
        function: Function,
        program: Program,
        operators: Operators,
        live_values: set[Value],
        unchanged: set[Node],
    ) -> None:
        self.function = function
        self.program = program
        self.references = program.references
        self.operators = operators
        self.live_values = live_values
        self.known: dict[Value, ast.expr] = {}
        self._unchanged = unchanged

    def is_live(self, value: Value) -> bool:
        return value in self.live_values

    def use(self, value: Value) -> ast.expr:
        """The expression that stands for ``value``: a variable, a constant, or what can move."""
        found = self.known.get(value)
        if found is None:
            if not value.node.is_constant and not self.is_live(value):
                return syntax.literal(None)  # its users ignore it
            if not value.node.is_constant:
                raise UnsupportedError(
                    f"{self.function.qualified_name} uses a value before it is computed"
                )
            found = self.known[value] = self.constant(value)
        return found

    def constant(self, value: Value) -> ast.expr:
        type_ = value.type
        if isinstance(type_, FunctionType):
            return self.program.function(type_.function)
        if must_be_none(value):
            return syntax.literal(None)
        content = value.node.attributes["value"]
        if type_ == FLOAT and isinstance(content, int):
            content = float(content)
        return self.value(content, type_)

    def value(self, content: Any, type_: Type) -> ast.expr:
        """The expression for a constant of a graph."""
        match content:
            case Device(text):
                return syntax.call(
                    syntax.attribute(self.references.module("torch"), "device"),
                    [syntax.string(text)],
                )
            case EnumMember(enum, name):
                member = self.program.enum_member(enum, name)
                return syntax.attribute(self.program.class_(enum), member)
            case TableConstant() | GeneratorSeed() | ObjectValue():
                return self.program.constants.reference(content, self.references)
            case tuple() if isinstance(type_, TupleType):
                items = [self.value(*pair) for pair in zip(content, type_.elements, strict=True)]
                return self._tuple_of(type_, items)
            case list() if isinstance(type_, ListType):
                items = [self.value(item, type_.element) for item in content]
                return ast.List(items, ast.Load())
        try:
            return syntax.literal(content)
        except TypeError:
            raise UnsupportedError(
                f"{self.function.qualified_name} has a constant of type {type(content).__name__}"
            ) from None

    def expression(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        """The expression of a node whose operands are ``arguments``."""
        if node in self._unchanged:
            return arguments[0]
        result = known_result(node)
        if result is not None:
            return syntax.literal(result)
        build = _BY_KIND.get(node.kind)
        if build is not None:
            return build(self, node, arguments)
        return self.operators.operator(node, arguments)

    def _nothing(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return syntax.literal(None)

    def _same(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return arguments[0]

    def _tuple(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        type_ = node.output.type
        assert isinstance(type_, TupleType)
        return self._tuple_of(type_, arguments)

    def _tuple_of(self, type_: TupleType, items: Sequence[ast.expr]) -> ast.expr:
        if type_.qualified_name:
            return syntax.call(self.program.class_(type_), items)
        return ast.Tuple(list(items), ast.Load())

    def _tuple_index(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        values, index = arguments
        type_, position = node.inputs[0].type, node.inputs[1].node
        if isinstance(type_, TupleType) and type_.qualified_name and position.is_constant:
            field = type_.fields[position.attributes["value"]]
            if is_plain(field) and not field.startswith("_"):
                return syntax.attribute(values, field)
        return syntax.subscript(values, index)

    def _tuple_slice(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        bounds = [syntax.literal(int(node.attributes[key])) for key in ("beg", "end")]
        return syntax.subscript(arguments[0], ast.Slice(*bounds))

    def _list(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return ast.List(list(arguments), ast.Load())

    def _dict(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return ast.Dict(list(arguments[::2]), list(arguments[1::2]))

    def _create_object(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        class_ = self.program.class_(node.output.type)
        return syntax.call(syntax.attribute(class_, "__new__"), [class_])

    def _get_attr(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        owner = node.input.type
        if not isinstance(owner, ClassType):
            raise UnsupportedError(f"{self.function.qualified_name} reads an attribute of no class")
        return members_of(owner).reach(arguments[0], node.name)

    def _call_function(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return syntax.call(arguments[0], arguments[1:])

    def _call_method(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        receiver, *rest = arguments
        type_ = node.input.type
        is_module = isinstance(type_, ClassType | InterfaceType) and type_.is_module
        if node.name == "forward" and is_module and not self.program.has_hooks(type_):
            return syntax.call(receiver, rest)
        if isinstance(type_, ClassType) and not type_.is_native:
            members = members_of(type_)
            found = syntax.attribute(receiver, members.method(node.name))
            return found if members.is_getter(node.name) else syntax.call(found, rest)
        name = method_name(node.name, is_module=is_module)
        return syntax.call(syntax.attribute(receiver, name), rest)

    def _container_item(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        container, key = arguments
        shown = syntax.call(self.references.builtin("str"), [key])
        return syntax.subscript(syntax.attribute(container, "_modules"), shown)

    def _isinstance(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        types = tuple(node.attributes["types"])
        return type_test(self.program, arguments[0], types, node.input.type)

    def _identity(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        first, second = node.inputs
        negated = node.kind == "aten::__isnot__"
        if must_differ(first, second, self.function.graph):
            return syntax.literal(negated)
        if must_be_none(first) or must_be_none(second):
            sign: ast.cmpop = ast.IsNot() if negated else ast.Is()
            ordered = arguments if must_be_none(second) else arguments[::-1]
            return ast.Compare(ordered[0], [sign], [ordered[1]])
        return self.operators.helper(node, arguments)

    def _enum_value(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return syntax.attribute(arguments[0], "value")

    def _enum_name(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return syntax.attribute(arguments[0], "name")

    def _to_list(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        return syntax.call(syntax.attribute(arguments[0], "tolist"))


def is_call_of_setter(node: Node) -> bool:
    """Whether the node sets a property."""
    if node.kind != "prim::CallMethod" or called_function(node) is None:
        return False
    type_ = node.input.type
    return isinstance(type_, ClassType) and members_of(type_).is_setter(node.name)


def is_call_of_init(node: Node) -> bool:
    """Whether the node calls the ``__init__`` of an object that was made for it."""
    return (
        node.kind == "prim::CallMethod"
        and node.name == "__init__"
        and node.input.node.kind == "prim::CreateObject"
        and called_function(node) is not None
        and node.output.type == NONE
    )


_BY_KIND: dict[str, Callable[[Expressions, Node, Sequence[ast.expr]], ast.expr]] = {
    "prim::Uninitialized": Expressions._nothing,
    "prim::TupleConstruct": Expressions._tuple,
    "prim::TupleIndex": Expressions._tuple_index,
    "prim::TupleSlice": Expressions._tuple_slice,
    "prim::ListConstruct": Expressions._list,
    "prim::DictConstruct": Expressions._dict,
    "prim::CreateObject": Expressions._create_object,
    "prim::GetAttr": Expressions._get_attr,
    "prim::CallFunction": Expressions._call_function,
    "prim::CallMethod": Expressions._call_method,
    "prim::ModuleContainerIndex": Expressions._container_item,
    "prim::isinstance": Expressions._isinstance,
    "prim::EnumValue": Expressions._enum_value,
    "prim::EnumName": Expressions._enum_name,
    "prim::unchecked_cast": Expressions._same,
    "prim::unchecked_unwrap_optional": Expressions._same,
    "prim::tolist": Expressions._to_list,
    "aten::__is__": Expressions._identity,
    "aten::__isnot__": Expressions._identity,
}
