"""Definitions: classes, enums, interfaces, named tuples and functions, from their text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from tsarchive.errors import SourceError
from tsarchive.printer.graph import Function
from tsarchive.printer.names import MANGLE_PREFIX
from tsarchive.printer.types import (
    FLOAT,
    INT,
    STRING,
    Attribute,
    ClassConstant,
    ClassType,
    EnumType,
    InterfaceType,
    NamedType,
    TupleType,
    Type,
)

from .arithmetic import number
from .control import FunctionCompiler
from .functions import FunctionReader
from .splitting import ClassParts, Line, Piece, split_class
from .syntax import parse_expression, string_value

if TYPE_CHECKING:
    from .importer import CodeImporter

_NAME_LISTS = ("__parameters__", "__buffers__", "__forward_pre_hooks__", "__forward_hooks__")
_NAME_LIST = re.compile(r'\[(?:"[^"\n]*" *(?:, *)?)*\]')
_QUOTED = re.compile(r'"([^"\n]*)"')
_FINAL = re.compile(r"Final\[(.*)\]")
_ENUM_TYPES: dict[type, Type] = {int: INT, float: FLOAT, str: STRING}

# Slots of quantized modules that older archives declare as tensors; the objects in them are
# packed weights today. Names without mangling; `torch.nn` modules moved to `torch.ao.nn` later.
_PACKED = {
    "quantized.modules.linear.LinearPackedParams": "LinearPackedParamsBase",
    "quantized.modules.linear.Linear": "LinearPackedParamsBase",
    "quantized.dynamic.modules.linear.Linear": "LinearPackedParamsBase",
    "quantized.modules.conv.Conv2d": "Conv2dPackedParamsBase",
    "quantized.modules.conv.Conv3d": "Conv3dPackedParamsBase",
    "intrinsic.quantized.modules.conv_relu.ConvReLU2d": "Conv2dPackedParamsBase",
    "intrinsic.quantized.modules.conv_relu.ConvReLU3d": "Conv3dPackedParamsBase",
}
_MANGLE = re.compile(rf"\.{MANGLE_PREFIX}\d+")
_NN = re.compile(r"__torch__\.torch\.(?:ao\.)?nn\.")


class DefinitionReader:
    """Makes types and functions from the pieces of code records."""

    def __init__(self, importer: CodeImporter) -> None:
        self.importer = importer

    def define(self, name: str, piece: Piece) -> NamedType:
        if not piece.is_class:
            return FunctionReader(self.importer, name, piece).function().type
        parts = split_class(piece)
        match parts.base:
            case "" | "Module":
                return self._class(name, piece, parts)
            case "NamedTuple":
                return self._named_tuple(name, piece, parts)
            case "Interface" | "ModuleInterface":
                return self._interface(name, piece, parts)
            case "Enum":
                return self._enum(name, piece, parts)
        raise piece.fail(
            f"class {piece.name} has the superclass {parts.base!r}, which is none of "
            "Module, NamedTuple, Interface, ModuleInterface and Enum"
        )

    def _type(self, text: str, piece: Piece, line: int) -> Type:
        try:
            return self.importer.parse_type(text)
        except SourceError as error:
            if error.line is None:
                error.record, error.line = piece.record, line
            raise

    def _class(self, name: str, piece: Piece, parts: ClassParts) -> ClassType:
        class_ = ClassType(name, is_module=parts.base == "Module")
        self.importer.register(name, class_)
        lists: dict[str, list[str]] = {title: [] for title in _NAME_LISTS}
        lines = []
        for line in parts.lines:
            if line.annotation is None and not line.quoted and line.name in lists:
                lists[line.name] = _names(line, piece)
            elif line.annotation is not None or line.quoted:
                lines.append(line)
            elif line.name != "__annotations__":
                raise piece.fail(f"{line.name!r} is assigned without a type", line.number)
        for line in lines:
            self._member(class_, line, piece, lists)
        self._methods(class_, parts, lists, piece)
        return class_

    def _member(
        self, class_: ClassType, line: Line, piece: Piece, lists: dict[str, list[str]]
    ) -> None:
        if line.annotation is not None and line.value is not None:
            class_.constants[line.name] = self._constant(line, piece)
            return
        text = line.annotation if line.annotation is not None else line.value
        type_ = self._type(
            packed_type(class_.qualified_name, line.name, text or ""), piece, line.number
        )
        class_.attributes[line.name] = Attribute(
            line.name,
            type_,
            is_parameter=line.name in lists["__parameters__"],
            is_buffer=line.name in lists["__buffers__"],
        )

    def _constant(self, line: Line, piece: Piece) -> ClassConstant:
        text = line.annotation or ""
        final = _FINAL.fullmatch(text)
        type_ = self._type(final[1] if final else text, piece, line.number)
        value = self._literal(line, type_, piece)
        return ClassConstant(line.name, type_, value)

    def _literal(self, line: Line, type_: Type, piece: Piece) -> Any:
        text = line.value or ""
        node = parse_expression(text, piece.record, line.number)
        compiler = FunctionCompiler(self.importer, piece.record, line.number - 1, f"_ = {text}")
        return compiler.constant_of(node, type_)

    def _methods(
        self, class_: ClassType, parts: ClassParts, lists: dict[str, list[str]], piece: Piece
    ) -> None:
        hooks = {*lists["__forward_pre_hooks__"], *lists["__forward_hooks__"]}
        functions: dict[str, Function] = {}
        for method in parts.methods.values():
            name = f"{class_.qualified_name}.{method.name}"
            version = None if method.name in hooks else self.importer.version
            reader = FunctionReader(self.importer, name, method, class_, version)
            functions[method.name] = reader.function()
        missing = hooks - set(functions)
        if missing:
            raise piece.fail(
                f"class {piece.name} lists the hook {min(missing)!r} but has no such function"
            )
        class_.methods = {name: f for name, f in functions.items() if name not in hooks}
        class_.forward_pre_hooks = [functions[name] for name in lists["__forward_pre_hooks__"]]
        class_.forward_hooks = [functions[name] for name in lists["__forward_hooks__"]]

    def _named_tuple(self, name: str, piece: Piece, parts: ClassParts) -> TupleType:
        # A named tuple is a value: it cannot be made before its parts, so it cannot contain itself.
        fields: dict[str, Type] = {}
        for line in parts.lines:
            if line.annotation is None or parts.methods:
                raise piece.fail("a NamedTuple holds annotated fields only", line.number)
            fields[line.name] = self._type(line.annotation, piece, line.number)
        return TupleType(tuple(fields.values()), name, tuple(fields))

    def _interface(self, name: str, piece: Piece, parts: ClassParts) -> InterfaceType:
        interface = InterfaceType(name, is_module=parts.base == "ModuleInterface")
        self.importer.register(name, interface)
        if parts.lines:
            raise piece.fail("an interface holds methods only", parts.lines[0].number)
        for method in parts.methods.values():
            reader = FunctionReader(self.importer, f"{name}.{method.name}", method, interface)
            interface.methods[method.name] = reader.schema()
        return interface

    def _enum(self, name: str, piece: Piece, parts: ClassParts) -> EnumType:
        values: dict[str, Any] = {}
        for line in parts.lines:
            if line.value is None or parts.methods:
                raise piece.fail("an Enum holds members with a value only", line.number)
            values[line.name] = _enum_value(line, piece)
        types = {type(value) for value in values.values()}
        if len(types) != 1:
            raise piece.fail(f"the members of the Enum {piece.name} must be of one type")
        return EnumType(name, _ENUM_TYPES[types.pop()], values)


def _names(line: Line, piece: Piece) -> list[str]:
    text = line.value or ""
    if not _NAME_LIST.fullmatch(text):
        raise piece.fail(f"{line.name} must be a list of quoted names", line.number)
    return _QUOTED.findall(text)


def _enum_value(line: Line, piece: Piece) -> int | float | str:
    text = line.value or ""
    node = parse_expression(text, piece.record, line.number)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return string_value(node, f"_ = {text}")
    value = number(node)
    if value is None or isinstance(value, complex):
        raise piece.fail(
            "the value of an Enum member must be an int, float or string literal", line.number
        )
    return value


def packed_type(class_name: str, slot: str, text: str) -> str:
    """The annotation of a slot, brought up to date for the packed weights of old archives."""
    if slot != "_packed_params" or text != "Tensor":
        return text
    class_ = _PACKED.get(_NN.sub("", _MANGLE.sub("", class_name)))
    return f"__torch__.torch.classes.quantized.{class_}" if class_ else text
