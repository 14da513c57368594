"""Definitions: functions, classes, named tuples, interfaces and enums of one code record."""

from __future__ import annotations

from typing import Any

from tsarchive.errors import SaveError

from .graph import Function
from .literals import part_text
from .names import is_identifier
from .schema import Argument
from .statements import Statements
from .types import (
    STRING,
    Attribute,
    ClassConstant,
    ClassType,
    EnumType,
    FunctionType,
    InterfaceType,
    ListType,
    NamedType,
    TupleType,
    Type,
)


class Definitions(Statements):
    """Prints the named types that one code record defines, one after the other."""

    def define(self, named: NamedType) -> None:
        match named:
            case FunctionType(function):
                self._function(function)
            case ClassType():
                self._class(named)
            case TupleType():
                self._named_tuple(named)
            case InterfaceType():
                self._interface(named)
            case EnumType():
                self._enum(named)

    def _class_line(self, named: NamedType, base: str) -> None:
        self.line(f"class {self.rename(named).rpartition('.')[2]}{base and f'({base})'}:")

    def _function(self, function: Function) -> None:
        self.names.start_function()
        name = self.rename(function.type) if not self.level else function.name
        self.open_line()
        self.put(f"def {name.rpartition('.')[2]}(")
        for index, argument in enumerate(function.schema.arguments):
            self._parameter(function, index, argument)
        self.put(f") -> {self.annotation(function.schema.return_type)}:\n")
        self.register(function.schema.return_type)
        self.body.mark(self.body.length, function)
        self.print_body(function.graph)
        self.body.mark(self.body.length, None)

    def _parameter(self, function: Function, index: int, argument: Argument) -> None:
        self.register(argument.type)
        name = self.names.unique(argument.name)
        separator = ",\n    " if index else ""
        self.put(f"{separator}{name}: {self.annotation(argument.type)}")
        if argument.has_default:
            self.put("=")
            self.put(self._default(argument))
        param = function.graph.params[index]
        self.identifiers[param] = name
        self.annotated.add(param)

    def _default(self, argument: Argument) -> str:
        value: Any = argument.default
        if isinstance(argument.type, ListType) and isinstance(value, int | float):
            value = [value] * (argument.repeat or 1)
        return self.literals.text(value, argument.type)

    def _class(self, class_: ClassType) -> None:
        if class_.is_native and class_.methods:
            return  # defined in C++: the record exists, but stays empty
        self._class_line(class_, "Module" if class_.is_module else "")
        with self.indented():
            if class_.is_module:
                self._module_header(class_)
            for index, attribute in enumerate(class_.attributes.values()):
                self._attribute(attribute, is_first=index == 0)
            for constant in class_.constants.values():
                self._class_constant(constant)
            for function in (*class_.methods.values(), *class_.hooks()):
                self._function(function)

    def _module_header(self, class_: ClassType) -> None:
        slots = class_.attributes.values()
        self._name_list("__parameters__", [slot.name for slot in slots if slot.is_parameter])
        self._name_list("__buffers__", [slot.name for slot in slots if slot.is_buffer])
        for title, hooks in (
            ("__forward_pre_hooks__", class_.forward_pre_hooks),
            ("__forward_hooks__", class_.forward_hooks),
        ):
            if hooks:
                self._name_list(title, [hook.name for hook in hooks])

    def _name_list(self, title: str, names: list[str]) -> None:
        quoted = "".join(f'"{name}", ' for name in names)
        self.line(f"{title} = [{quoted}]")

    def _attribute(self, attribute: Attribute, *, is_first: bool) -> None:
        self.register(attribute.type)
        type_text = self.annotation(attribute.type)
        if is_identifier(attribute.name):
            self.line(f"{attribute.name} : {type_text}")
            return
        if is_first:
            self.line("__annotations__ = []")
        self.line(f'__annotations__["{attribute.name}"] = {type_text}')

    def _class_constant(self, constant: ClassConstant) -> None:
        type_text = self.annotation(constant.type)
        value_text = self.literals.text(constant.value, constant.type)
        self.line(f"{constant.name} : Final[{type_text}] = {value_text}")

    def _named_tuple(self, type_: TupleType) -> None:
        self._class_line(type_, "NamedTuple")
        with self.indented():
            for name, element in zip(type_.fields, type_.elements, strict=True):
                self.line(f"{name} : {self.annotation(element)}")

    def _interface(self, interface: InterfaceType) -> None:
        self._class_line(interface, "ModuleInterface" if interface.is_module else "Interface")
        with self.indented():
            for name, schema in interface.methods.items():
                arguments = schema.arguments[1:]
                for type_ in (*(argument.type for argument in arguments), schema.return_type):
                    self.register(type_)
                shown = "".join(f", {a.name}: {self.annotation(a.type)}" for a in arguments)
                self.line(f"def {name}(self{shown}) -> {self.annotation(schema.return_type)}:")
                self.line("  pass")

    def _enum(self, enum: EnumType) -> None:
        self._class_line(enum, "Enum")
        with self.indented():
            for name, value in enum.members.items():
                self.line(f"{name} = {enum_value_text(value, enum.value_type)}")


def enum_value_text(value: Any, type_: Type) -> str:
    """The value of an enum member; strings stand between quotes without any escape."""
    if type_ == STRING:
        if any(char in value for char in '"\\\n\r'):
            raise SaveError(
                f"the enum value {value!r} cannot be written",
                hint="Enum strings with quotes, backslashes or line breaks do not read back",
            )
        return f'"{value}"'
    return part_text(value) if isinstance(value, float) else str(value)
