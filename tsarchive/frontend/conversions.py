"""Implicit conversions as nodes: arguments brought to the types that a schema asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tsarchive.ir.builder import Builder
from tsarchive.ir.graph import Value
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.subtyping import has_unknown, is_subtype
from tsarchive.ir.types import DEVICE, STRING, UNKNOWN, ListType, TupleType, Type
from tsarchive.ir.values import Device, EnumMember, is_device

from .matching import Default, Input, Step, conversions
from .references import Typed, typed

_FOLDED: Final[dict[str, Callable[[Any], Any]]] = {"aten::Int": int, "aten::Float": float}
_PLAIN = Device | EnumMember


class Conversions:
    """Appends what converts values. ``operators`` gives the overloads of an operator kind."""

    def __init__(
        self, builder: Builder, operators: Callable[[str], Sequence[FunctionSchema]]
    ) -> None:
        self.builder = builder
        self._operators = operators

    def inputs(self, matched: Sequence[Input], given: Sequence[Typed]) -> list[Value]:
        """Return the node inputs for matched arguments; ``given`` are those of the call."""
        return [
            given[input_.source].value
            if type(input_.source) is int and not input_.steps
            else self._input(input_, given)
            for input_ in matched
        ]

    def _input(self, input_: Input, given: Sequence[Typed]) -> Value:
        source = input_.source
        if isinstance(source, int):
            return self.apply(given[source], input_.steps).value
        if isinstance(source, Default):
            return self.builder.default(source.argument)
        assert input_.element is not None
        return self.builder.list_of(input_.element, self.inputs(source, given))

    def convert(self, given: Typed, wanted: Type) -> Typed | None:
        """Convert a value as on assignment and return; None where that is impossible."""
        steps, reached = conversions(given.type, wanted, given.is_empty_list, convert=True)
        if is_subtype(reached, wanted) and given.type is not UNKNOWN:
            return self.apply(given, steps)
        return Typed(given.value, wanted) if has_unknown(given.type) else None

    def apply(self, given: Typed, steps: Sequence[Step]) -> Typed:
        for step in steps:
            given = self._step(given, step)
        return given

    def _step(self, given: Typed, step: Step) -> Typed:
        match step.kind:
            case "retype":
                # An empty list literal is made anew, with the element type that is asked for.
                return self._list_instead(given, step.type, ())
            case "repeat":
                return typed(self.builder.list_of(given.type, [given.value] * step.times))
            case "unpack":
                elements = [element.value for element in self.unpack(given)]
                return self._list_instead(given, step.type, elements)
            case "elements":
                return self._each_element(given, step)
        return self._convert(given, step)

    def _list_instead(self, given: Typed, type_: Type, values: Sequence[Value]) -> Typed:
        assert isinstance(type_, ListType)
        self.builder.drop_if_unused(given.value)
        return typed(self.builder.list_of(type_.element, values))

    def _each_element(self, given: Typed, step: Step) -> Typed:
        pairs = zip(self.unpack(given), step.parts, strict=True)
        elements = [self.apply(element, steps) for element, steps in pairs]
        self.builder.drop_if_unused(given.value)
        return self.tuple_of(elements)

    def unpack(self, given: Typed) -> list[Typed]:
        """Return the elements of a tuple."""
        assert isinstance(given.type, TupleType)
        node = given.value.node
        types = given.type.elements
        if node.kind == "prim::TupleConstruct":
            pairs = zip(node.inputs, types, strict=True)
            return [Typed(value, type_) for value, type_ in pairs]
        if node.is_constant:
            constants = zip(node.attributes["value"], types, strict=True)
            return [typed(self.builder.constant(value, type_)) for value, type_ in constants]
        made = self.builder.append("prim::TupleUnpack", [given.value], *types)
        return [typed(value) for value in made.outputs]

    def tuple_of(self, elements: Sequence[Typed], type_: TupleType | None = None) -> Typed:
        """Return a tuple; one of constants that need no table is a constant itself."""
        values = [element.value for element in elements]
        if type_ is None:
            type_ = TupleType(tuple([value.type for value in values]))
            self.builder.checked(type_)
        nodes = [value.node for value in values]
        is_plain = all(node.is_constant and _is_plain(node.attributes["value"]) for node in nodes)
        if is_plain and self.builder.shares_constants:
            content = tuple(node.attributes["value"] for node in nodes)
            return typed(self.builder.constant(content, type_))
        return typed(self.builder.append("prim::TupleConstruct", values, type_).output)

    def _convert(self, given: Typed, step: Step) -> Typed:
        node = given.value.node
        is_folded = node.is_constant and self.builder.shares_constants
        value = node.attributes["value"] if is_folded else None
        if step.kind == "aten::device" and isinstance(value, str) and is_device(value):
            return typed(self.builder.constant(Device(value), DEVICE))
        if step.kind in _FOLDED and isinstance(value, bool | int | float):
            return typed(self.builder.constant(_FOLDED[step.kind](value), step.type))
        schema = self._converting(step.kind, given.type)
        return typed(self.builder.append(step.kind, [given.value], step.type, schema=schema).output)

    def _converting(self, kind: str, given: Type) -> FunctionSchema | None:
        """Return the overload whose one argument takes the given type."""
        wanted = STRING if kind == "aten::device" else given
        for schema in self._operators(kind):
            if len(schema.arguments) == 1 and is_subtype(wanted, schema.arguments[0].type):
                return schema
        return None


def _is_plain(value: Any) -> bool:
    """Return whether a constant may be part of a constant tuple."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | complex | str | _PLAIN)
