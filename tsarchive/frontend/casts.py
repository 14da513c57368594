"""Conversions of values: the steps of a match as nodes, and of assigned and returned values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tsarchive.ir.graph import Value
from tsarchive.ir.schema import Argument
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import DEVICE, STRING, ListType, OptionalType, TupleType, Type
from tsarchive.ir.values import Device, EnumMember
from tsarchive.printer.literals import type_of_constant

from .environment import Environment
from .matching import Default, Input, Step, conversions
from .references import Typed, typed

# The names of device types that need no extension of torch.
_DEVICE = re.compile(
    r"(?:cpu|cuda|fpga|hip|hpu|ideep|ipu|lazy|maia|meta|mkldnn|mps|mtia|opencl|opengl"
    r"|privateuseone|ve|vulkan|xla|xpu)(?::(?:0|[1-9]\d{0,2}))?"
)
_FOLDED: dict[str, Any] = {"aten::Int": int, "aten::Float": float}


class Casts(Environment):
    def realise(self, input_: Input, given: Sequence[Typed]) -> Value:
        """The node input that a matched argument becomes, of those that are given."""
        source = input_.source
        if isinstance(source, int):
            found = given[source]
            return self.apply(found, input_.steps).value if input_.steps else found.value
        if isinstance(source, Default):
            return self._default(source.argument)
        assert input_.element is not None
        values = [self.realise(inner, given) for inner in source]
        return self.list_of(input_.element, values).value

    def _default(self, argument: Argument) -> Value:
        value = argument.default
        type_ = argument.type
        if isinstance(type_, OptionalType):
            type_ = type_.element
        if not isinstance(value, list):
            type_ = type_of_constant(value)
        return self.frame.constant(value, type_)

    def apply(self, given: Typed, steps: Sequence[Step]) -> Typed:
        for step in steps:
            given = self._step(given, step)
        return given

    def _step(self, given: Typed, step: Step) -> Typed:
        match step.kind:
            case "retype":
                return self._retype(given, step.type)
            case "repeat":
                return self.list_of(given.type, [given.value] * step.times)
            case "unpack":
                return self._tuple_to_list(given, step.type)
            case "elements":
                return self._each_element(given, step)
        return self._convert(given, step)

    def _retype(self, given: Typed, type_: Type) -> Typed:
        """An empty list literal is made anew, with the element type that is asked for."""
        assert isinstance(type_, ListType)
        self.drop_if_unused(given.value)
        return self.list_of(type_.element, ())

    def unpack(self, given: Typed) -> list[Typed]:
        """The elements of a tuple."""
        assert isinstance(given.type, TupleType)
        node = given.value.node
        if node.kind == "prim::TupleConstruct":
            pairs = zip(node.inputs, given.type.elements, strict=True)
            return [Typed(value, type_) for value, type_ in pairs]
        if node.is_constant:
            elements = zip(node.attributes["value"], given.type.elements, strict=True)
            return [self.constant(value, type_) for value, type_ in elements]
        return [
            typed(value)
            for value in self.append(
                "prim::TupleUnpack", [given.value], *given.type.elements
            ).outputs
        ]

    def _tuple_to_list(self, given: Typed, type_: Type) -> Typed:
        assert isinstance(type_, ListType)
        elements = self.unpack(given)
        self.drop_if_unused(given.value)
        return self.list_of(type_.element, [element.value for element in elements])

    def _each_element(self, given: Typed, step: Step) -> Typed:
        pairs = zip(self.unpack(given), step.parts, strict=True)
        elements = [self.apply(element, steps) for element, steps in pairs]
        self.drop_if_unused(given.value)
        return self.tuple_of(elements)

    def drop_if_unused(self, value: Value) -> None:
        """Remove a literal that was made to be taken apart, unless something else uses it."""
        if value.node.kind in ("prim::TupleConstruct", "prim::ListConstruct"):
            self.frame.temporary.append((self.scope.block, value.node))

    def tuple_of(self, elements: Sequence[Typed], type_: TupleType | None = None) -> Typed:
        """A tuple; one of constants that need no table is a constant itself."""
        if type_ is None:
            type_ = TupleType(tuple(element.value.type for element in elements))
            self.checked(type_)
        nodes = [element.value.node for element in elements]
        if all(node.is_constant and is_plain(node.attributes["value"]) for node in nodes):
            return self.constant(tuple(node.attributes["value"] for node in nodes), type_)
        values = [element.value for element in elements]
        return typed(self.append("prim::TupleConstruct", values, type_).output)

    def _convert(self, given: Typed, step: Step) -> Typed:
        node = given.value.node
        value = node.attributes["value"] if node.is_constant else None
        if step.kind == "aten::device" and isinstance(value, str) and is_device(value):
            return self.constant(Device(value), DEVICE)
        if step.kind in _FOLDED and isinstance(value, bool | int | float):
            return self.constant(_FOLDED[step.kind](value), step.type)
        return self.emit_conversion(step.kind, given, step.type)

    def emit_conversion(self, kind: str, given: Typed, type_: Type) -> Typed:
        """A node that converts; its schema is the one whose argument has the given type."""
        wanted = {"aten::device": STRING}.get(kind, given.type)
        for schema in self.importer.operators(kind):
            if len(schema.arguments) == 1 and is_subtype(wanted, schema.arguments[0].type):
                return typed(self.append(kind, [given.value], type_, schema=schema).output)
        return typed(self.append(kind, [given.value], type_).output)

    def convert(self, given: Typed, wanted: Type) -> Typed | None:
        """A value brought to ``wanted`` as on assignment and return; None where that fails."""
        steps, reached = conversions(given.type, wanted, given.is_empty_list, convert=True)
        return self.apply(given, steps) if is_subtype(reached, wanted) else None


def is_plain(value: Any) -> bool:
    """Whether a constant may be part of a constant tuple: numbers, strings, enums and such."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | complex | str | _PLAIN)


_PLAIN = Device | EnumMember


def is_device(text: str) -> bool:
    return _DEVICE.fullmatch(text) is not None
