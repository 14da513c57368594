"""Python expressions for the nodes of a graph, one method for each kind of node."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tsarchive.errors import UnknownOperatorError, UnsupportedError
from tsarchive.printer.expressions import necessary_arguments
from tsarchive.printer.graph import Function, Node, Value, must_be_none
from tsarchive.printer.literals import can_be_inferred
from tsarchive.printer.names import is_identifier
from tsarchive.printer.schema import FunctionSchema
from tsarchive.printer.types import (
    FLOAT,
    ClassType,
    DictType,
    FunctionType,
    ListType,
    TupleType,
    Type,
    annotation,
)
from tsarchive.printer.values import TableConstant

from .modules import call_module, is_plain
from .names import Globals, LocalNames
from .natives import UPGRADERS
from .operators import find_native, implementation
from .passes import SCALAR_FORMS, as_number, called_function
from .slots import SlotKind, slot_key, slot_kind
from .support import DynamicCall, call_native
from .typecheck import TypedDict, TypedList, predicate

if TYPE_CHECKING:
    from .classes import Classes

__all__ = ["Bound", "Expressions"]

Bound = tuple[tuple[int, Any], ...]
"""Constants without dimensions that a caller passes: position of the parameter, tensor."""

# These look at the static element type of a list that may be empty.
_TAKING_ELEMENT = frozenset({"aten::tensor", "aten::as_tensor.list"})
_NAME_OF_KIND = {
    "prim::ListConstruct": "items",
    "prim::DictConstruct": "mapping",
    "prim::TupleConstruct": "pair",
    "prim::If": "chosen",
    "prim::Loop": "carried",
    "prim::CallFunction": "result",
    "prim::CreateObject": "made",
}


class Expressions:
    """Texts of the values of one function and of what its source refers to."""

    def __init__(self, function: Function, classes: Classes, bound: Bound) -> None:
        self.function = function
        self.classes = classes
        self.names = LocalNames()
        self.globals = Globals(self.names)
        self.text: dict[Value, str] = {}
        self.known: dict[Value, Any] = {
            function.graph.params[position]: tensor for position, tensor in bound
        }

    def use(self, value: Value) -> str:
        """The text that stands for ``value`` where it is used."""
        found = self.text.get(value)
        if found is None:
            assert value.node.is_constant, value
            found = self.text[value] = self._constant(value)
        return found

    def uses(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self.use, values))

    def define(self, value: Value) -> str:
        """A new local variable for ``value``."""
        name = self.text[value] = self.names.unique(value.name or self._unnamed(value.node))
        return name

    def _unnamed(self, node: Node) -> str:
        if "name" in node.attributes:
            return node.name
        return _NAME_OF_KIND.get(node.kind) or node.kind.rpartition("::")[2]

    def expression(self, node: Node) -> str:
        return _BY_KIND.get(node.kind, Expressions._operator)(self, node)

    def _constant(self, value: Value) -> str:
        type_ = value.type
        if isinstance(type_, FunctionType):
            return self.function_name(type_.function)
        if must_be_none(value):
            return "None"
        constant = value.node.attributes["value"]
        if type_ == FLOAT and isinstance(constant, int):
            constant = float(constant)
        if is_literal(constant):
            return ascii(constant)
        return self.globals.name("constant", self.classes.constant(value.node))

    def known_tensor(self, value: Value) -> Any:
        """The tensor that ``value`` is whenever this code runs; None when that is not known."""
        if value in self.known:
            return self.known[value]
        if value.node.is_constant and isinstance(value.node.attributes["value"], TableConstant):
            return self.classes.constant(value.node)
        return None

    def function_name(self, function: Function, bound: Bound = ()) -> str:
        owner, _, name = function.qualified_name.rpartition(".")
        shown = f"{owner.rpartition('.')[2]}_{name}"
        return self.globals.name(shown, self.classes.function(function, bound))

    def class_name(self, type_: Type) -> str:
        class_ = self.classes.python_class(type_)
        return self.globals.name(class_.__name__, class_)

    def _bound(self, arguments: Iterable[Value]) -> Bound:
        return tuple(
            (position, tensor)
            for position, value in enumerate(arguments)
            if as_number(tensor := self.known_tensor(value)) is not None
        )

    def _tuple(self, node: Node) -> str:
        type_ = node.output.type
        assert isinstance(type_, TupleType)
        name = self.class_name(type_) if type_.qualified_name else ""
        comma = "," if len(node.inputs) == 1 and not name else ""
        return f"{name}({self.uses(node.inputs)}{comma})"

    def _tuple_slice(self, node: Node) -> str:
        begin, end = int(node.attributes["beg"]), int(node.attributes["end"])
        return f"{self.use(node.input)}[{begin}:{end}]"

    def _list(self, node: Node) -> str:
        type_ = node.output.type
        items = f"[{self.uses(node.inputs)}]"
        assert isinstance(type_, ListType)
        if self._needs_type(node, type_.element):
            return f"{self._typed(TypedList, type_)}({items if node.inputs else ''})"
        return items

    def _dict(self, node: Node) -> str:
        type_ = node.output.type
        assert isinstance(type_, DictType)
        pairs = zip(node.inputs[::2], node.inputs[1::2], strict=True)
        items = "{" + ", ".join(f"{self.use(k)}: {self.use(v)}" for k, v in pairs) + "}"
        if self._needs_type(node, type_.value):
            return f"{self._typed(TypedDict, type_)}({items if node.inputs else ''})"
        return items

    def _needs_type(self, node: Node, element: Type) -> bool:
        """Whether a later isinstance may ask for a type that the elements do not tell."""
        if node.inputs and can_be_inferred(element):
            return False
        return not all(_keeps_type(user, node.output) for user, _ in node.output.uses)

    def _typed(self, class_: Callable[..., Any], type_: Type) -> str:
        name = f"new_{annotation(type_)}"
        return self.globals.name(name, self.classes.typed_container(class_, type_))

    def _create_object(self, node: Node) -> str:
        name = self.class_name(node.output.type)
        return f"{name}.__new__({name})"

    def _get_attr(self, node: Node) -> str:
        owner = node.input.type
        assert isinstance(owner, ClassType)
        target, name = self.use(node.input), node.name
        kind = slot_kind(owner, owner.attributes[name])
        if kind is not SlotKind.PLAIN:
            return f"{target}.{kind.value}[{ascii(name)}]"
        key = slot_key(owner, name)
        if is_identifier(key) and key not in _KEYWORDS:
            return f"{target}.{key}"
        return f"{self.globals.name('getattr', getattr)}({target}, {ascii(key)})"

    def _call_function(self, node: Node) -> str:
        callee, *arguments = node.inputs
        assert isinstance(callee.type, FunctionType)
        name = self.function_name(callee.type.function, self._bound(arguments))
        return f"{name}({self.uses(arguments)})"

    def _call_method(self, node: Node) -> str:
        receiver, *arguments = node.inputs
        function = called_function(node)
        if function is None:
            return self._dynamic_call(node)
        name = self.function_name(function, self._bound(node.inputs))
        if node.name == "forward" and isinstance(receiver.type, ClassType):
            if receiver.type.is_module:
                name = self._unless_hooked(name, receiver)
        return f"{name}({self.uses([receiver, *arguments])})"

    def _unless_hooked(self, name: str, receiver: Value) -> str:
        """The compiled function, or a call that Python code takes part in."""
        check = self.globals.name("is_plain", is_plain)
        call = self.globals.name("call_module", call_module)
        return f"({name} if {check}({self.use(receiver)}, {self.class_name(receiver.type)}) else {call})"

    def _dynamic_call(self, node: Node) -> str:
        """A method of an interface, or of a class bound from C++: found by the object."""
        receiver, *arguments = node.inputs
        if isinstance(receiver.type, ClassType):
            call = self.globals.name("call_native", call_native)
            return f"{call}({self.use(receiver)}, {ascii(node.name)}, {self.uses(arguments)})"
        method = DynamicCall(node.name, self.classes)
        return f"{self.globals.name(node.name, method)}({self.uses(node.inputs)})"

    def _isinstance(self, node: Node) -> str:
        types = node.attributes["types"]
        name = "is_" + "_or_".join(map(annotation, types))
        return f"{self.globals.name(name, self.classes.predicate(types))}({self.use(node.input)})"

    def _enum_value(self, node: Node) -> str:
        return f"{self.use(node.input)}.value"

    def _enum_name(self, node: Node) -> str:
        return f"{self.use(node.input)}.name"

    def _operator(self, node: Node) -> str:
        upgrader = node.attributes.get("upgrader")
        if upgrader is not None:
            name = self.globals.name(str(upgrader), UPGRADERS[upgrader])
            return f"{name}({self._arguments(_schema(node), node)})"
        number = self._number_operand(node)
        if number is not None:
            return self._scalar_form(node, number)
        schema = _schema(node)
        self.classes.allow(schema, self.function)
        callee = self.globals.name(_operator_name(schema), implementation(schema))
        return f"{callee}({self._arguments(schema, node)})"

    def _number_operand(self, node: Node) -> int | float | complex | None:
        if node.schema is None or node.schema.full_name not in SCALAR_FORMS:
            return None
        return as_number(self.known_tensor(node.inputs[1]))

    def _scalar_form(self, node: Node, number: complex) -> str:
        form = SCALAR_FORMS[_schema(node).full_name]
        (schema,) = (s for s in self.classes.operators("aten::" + form) if s.overload == "Scalar")
        raise AssertionError(schema, number)

    def _arguments(self, schema: FunctionSchema, node: Node) -> str:
        """Arguments by position, those after ``*`` by name; defaults are left to torch."""
        inputs = node.inputs
        count, outs = len(inputs), 0
        if find_native(schema) is None and "upgrader" not in node.attributes:
            count, outs = necessary_arguments(schema, inputs)
        parts = [self._argument(schema, inputs, offset) for offset in range(count)]
        if count < len(inputs):
            last = range(len(inputs) - outs, len(inputs))
            parts += [self._argument(schema, inputs, offset) for offset in last if offset >= count]
        if schema.full_name in _TAKING_ELEMENT:
            parts.append(f"element={ascii(_leaf_name(inputs[0].type))}")
        return ", ".join(parts)

    def _argument(self, schema: FunctionSchema, inputs: list[Value], offset: int) -> str:
        text = self.use(inputs[offset])
        if offset < len(schema.arguments) and schema.arguments[offset].kwarg_only:
            return f"{schema.arguments[offset].name}={text}"
        return text
