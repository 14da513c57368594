"""Definitions: classes, enums, interfaces, named tuples and functions, from their text."""

from __future__ import annotations

import ast
import re
from typing import Any

from tsarchive.errors import SourceError
from tsarchive.ir.classes import Attribute, ClassConstant, ClassType, Function, InterfaceType
from tsarchive.ir.names import unmangled
from tsarchive.ir.source_ranges import byte_length
from tsarchive.ir.types import FLOAT, INT, STRING, UNKNOWN, EnumType, NamedType, TupleType, Type

from .arithmetic import number
from .context import Context
from .functions import FunctionReader, lowering_of
from .plain import read_literal
from .splitting import Line, Piece, split_class
from .syntax import ASSIGNED, parse_expression, string_value

_NAME_LISTS = ("__parameters__", "__buffers__", "__forward_pre_hooks__", "__forward_hooks__")
# An attribute where it is assigned, and, harmlessly, in front of other arguments.
_ASSIGNED = re.compile(r"\.(\w+) *(?:=(?!=)|[,:])")
_NAME_LIST = re.compile(r'\[(?:"(?:[^"\\\n]|\\.)*" *(?:, *)?)*\]')
# As torch 1.1 wrote them.
_UNQUOTED_LIST = re.compile(r"\[(?:\w+, *)*\]")
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_FINAL = re.compile(r"Final\[(.*)\]")
# Python's enums take these for settings or refuse them, so no archive has such members.
_SPECIAL = re.compile("_.*_", re.DOTALL)
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
_NN = re.compile(r"__torch__\.torch\.(?:ao\.)?nn\.")


def define(context: Context, name: str, piece: Piece) -> NamedType:
    """Return the type or function that a piece of a code record defines. Raises SourceError."""
    if not piece.is_class:
        version = context.dialect.version_of(name)
        return FunctionReader(context, name, piece, version=version).function.type
    reader = _ClassReader(context, name, piece)
    match reader.parts.base:
        case "" | "Module":
            return reader.class_type()
        case "NamedTuple":
            return reader.named_tuple()
        case "Interface" | "ModuleInterface":
            return reader.interface()
        case "Enum":
            return reader.enum()
    raise piece.fail(
        f"class {piece.name} has the superclass {reader.parts.base!r}, which is none of "
        "Module, NamedTuple, Interface, ModuleInterface and Enum"
    )


class _ClassReader:
    """Makes a type from the text of a class."""

    def __init__(self, context: Context, name: str, piece: Piece) -> None:
        self.context = context
        self.name = name
        self.piece = piece
        self.parts = split_class(piece)

    def class_type(self) -> ClassType:
        class_ = ClassType(self.name, is_module=self.parts.base == "Module")
        self.context.early[self.name] = class_
        lists, members = self._sorted_lines()
        for line in members:
            if line.name in class_.attributes or line.name in class_.constants:
                self._fault(f"{line.name!r} is declared twice", line.number)
            if line.annotation is not None and line.value is not None:
                class_.constants[line.name] = self._constant(line)
            else:
                class_.attributes[line.name] = self._attribute(line, lists)
        self._methods(class_, lists)
        if not class_.is_module and self.context.reads_bodies:
            self._read_init(class_)
        if class_.is_module:
            self.context.sharing.add(class_, self.parts)
        return class_

    def _fault(self, message: str, line: int | None = None) -> None:
        """Refuse a part of the class."""
        self.context.refuse(self.piece.fail(message, line))

    def _read_init(self, class_: ClassType) -> None:
        """Declare the attributes that ``__init__`` assigns; torch 1.4 did not write them down."""
        init = self.parts.methods.get("__init__")
        names = [] if init is None else _ASSIGNED.findall(init.text)
        if all(name in class_.attributes for name in names):
            return
        outer, self.context.initialising = self.context.initialising, class_
        try:
            _ = class_.methods["__init__"].graph
        finally:
            self.context.initialising = outer

    def _sorted_lines(self) -> tuple[dict[str, list[str]], list[Line]]:
        """Return the lists of names, and the lines that declare attributes and constants."""
        lists: dict[str, list[str]] = {title: [] for title in _NAME_LISTS}
        members: list[Line] = []
        for line in self.parts.lines:
            if line.annotation is not None or line.quoted:
                members.append(line)
            elif line.name in lists:
                lists[line.name] = self._name_list(line)
            elif line.name != "__annotations__":
                self._fault(f"{line.name!r} is assigned without a type", line.number)
        return lists, members

    def _name_list(self, line: Line) -> list[str]:
        text = line.value or ""
        if _NAME_LIST.fullmatch(text):
            return [_ESCAPE.sub(_unescaped, name) for name in _QUOTED.findall(text)]
        if self.context.open is None or not _UNQUOTED_LIST.fullmatch(text):
            self._fault(f"{line.name} must be a list of quoted names", line.number)
        return _WORD.findall(text)

    def _attribute(self, line: Line, lists: dict[str, list[str]]) -> Attribute:
        text = (line.value if line.quoted else line.annotation) or ""
        return Attribute(
            line.name,
            self._type(packed_type(self.name, line.name, text), line),
            is_parameter=line.name in lists["__parameters__"],
            is_buffer=line.name in lists["__buffers__"],
        )

    def _type(self, text: str, line: Line) -> Type:
        try:
            return self.context.parse_type(text)
        except SourceError as error:
            if error.line is None:
                error.record, error.line = self.piece.record, line.number
            self.context.refuse(error)
            return UNKNOWN

    def _constant(self, line: Line) -> ClassConstant:
        try:
            return self._read_constant(line)
        except SourceError as error:
            self.context.refuse(error)
            return ClassConstant(line.name, UNKNOWN, None)

    def _read_constant(self, line: Line) -> ClassConstant:
        annotation, text = line.annotation or "", line.value or ""
        final = _FINAL.fullmatch(annotation)
        type_ = self._type(final[1] if final else annotation, line)
        literal = read_literal(text, type_)
        if literal is not None:
            return ClassConstant(line.name, type_, literal.value)
        record = self.piece.record
        before = self._before(line, text)
        node = parse_expression(text, record, line.number, before)
        lowering = lowering_of(self.context, record, line.number - 1, f"{before}{text}")
        value = lowering.constant_of(node, type_, self.name, line.name)
        return ClassConstant(line.name, type_, value)

    def _before(self, line: Line, text: str) -> str:
        """Return what to parse before a value so that columns are those of the record."""
        row = self.context.sources.places(self.piece.record).lines[line.number - 1]
        column = byte_length(row[: max(row.rfind(text), 0)])
        return f"{'_'.ljust(column - 2)}= " if column > len(ASSIGNED) else ASSIGNED

    def _methods(self, class_: ClassType, lists: dict[str, list[str]]) -> None:
        hooks = {*lists["__forward_pre_hooks__"], *lists["__forward_hooks__"]}
        functions: dict[str, Function] = {}
        for method in self.parts.methods.values():
            version = None if method.name in hooks else self.context.version
            functions[method.name] = self._method(method, class_, version).function
        if hooks and not class_.is_module:
            self._fault(f"class {self.piece.name} has hooks, but is no module")
        missing = hooks - set(functions)
        if missing:
            self._fault(f"class {self.piece.name} has no function for {min(missing)!r}")
        class_.methods = {name: f for name, f in functions.items() if name not in hooks}
        class_.forward_pre_hooks, class_.forward_hooks = (
            [functions[name] for name in lists[title] if name in functions]
            for title in ("__forward_pre_hooks__", "__forward_hooks__")
        )

    def _method(
        self, method: Piece, owner: ClassType | InterfaceType, version: int | None = None
    ) -> FunctionReader:
        name = f"{self.name}.{method.name}"
        return FunctionReader(self.context, name, method, owner, version)

    def named_tuple(self) -> TupleType:
        # A named tuple is a value: it cannot be made before its parts, so none contains itself.
        fields: dict[str, Type] = {}
        for line in self.parts.lines:
            if line.annotation is None or self.parts.methods:
                raise self.piece.fail("a NamedTuple holds annotated fields only", line.number)
            fields[line.name] = self._type(line.annotation, line)
        type_ = TupleType(tuple(fields.values()), self.name, tuple(fields))
        try:
            self.context.sizes.checked(type_)
        except SourceError as error:
            raise self.piece.fail(error.message) from None
        return type_

    def interface(self) -> InterfaceType:
        interface = InterfaceType(self.name, is_module=self.parts.base == "ModuleInterface")
        self.context.early[self.name] = interface
        if self.parts.lines:
            raise self.piece.fail("an interface holds methods only", self.parts.lines[0].number)
        for method in self.parts.methods.values():
            interface.methods[method.name] = self._method(method, interface).schema()
        return interface

    def enum(self) -> EnumType:
        values: dict[str, Any] = {}
        for line in self.parts.lines:
            if line.value is None or self.parts.methods:
                raise self.piece.fail("an Enum holds members with a value only", line.number)
            if line.name == "mro" or _SPECIAL.fullmatch(line.name):
                raise self.piece.fail(f"an Enum has no member {line.name!r}", line.number)
            values[line.name] = _enum_value(line, self.piece)
        types = {type(value) for value in values.values()}
        if len(types) != 1:
            raise self.piece.fail(f"the members of the Enum {self.piece.name} differ in type")
        return EnumType(self.name, _ENUM_TYPES[types.pop()], values)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _enum_value(line: Line, piece: Piece) -> int | float | str:
    text = line.value or ""
    node = parse_expression(text, piece.record, line.number)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return string_value(node, f"_ = {text}")
    try:
        value = number(node)
    except OverflowError:
        raise piece.fail("an integer does not fit 64 bits", line.number) from None
    if value is None or isinstance(value, complex):
        raise piece.fail(
            "the value of an Enum member must be an int, float or string literal", line.number
        )
    return value


def packed_type(class_name: str, slot: str, text: str) -> str:
    """Return the annotation of a slot, updated for the packed weights of old archives."""
    if slot != "_packed_params" or text != "Tensor":
        return text
    class_ = _PACKED.get(_NN.sub("", unmangled(class_name)))
    return f"__torch__.torch.classes.quantized.{class_}" if class_ else text
