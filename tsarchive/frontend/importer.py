"""From the code records of an archive to types and functions, each made when first asked for.

Literals and signatures as torch prints them are read without Python's parser. What is written in
any other way, or wrong, is left to the parser, which says what is wrong with it; what is read here
has the meaning that the parser would give it.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tsarchive.errors import ArchiveError, SourceError
from tsarchive.ir.classes import (
    Attribute,
    ClassConstant,
    ClassType,
    Function,
    FunctionType,
    InterfaceType,
    SharedMethod,
)
from tsarchive.ir.graph import Block
from tsarchive.ir.names import NATIVE_PREFIX, unmangled
from tsarchive.ir.schema import NO_DEFAULT, Argument, FunctionSchema
from tsarchive.ir.source_ranges import byte_length
from tsarchive.ir.type_parser import parameter_type
from tsarchive.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    UNKNOWN,
    EnumType,
    ListType,
    NamedType,
    OptionalType,
    TupleType,
    Type,
)
from tsarchive.operators.overloads import native_class, overloads_of
from tsarchive.operators.removed import RECORD, class_records, defined_classes, text_of
from tsarchive.operators.upgraders import UPGRADERS, Candidate

from .context import CURRENT, UNLOWERED, Context
from .grammar import OF_PYTHON
from .places import CodePlace, Cursor
from .splitting import ClassParts, Line, Piece, split_class
from .structural_sharing import Outline, Template, outline_of, shared_method
from .syntax import ASSIGNED, bounded, number, parse_expression, string_value


class CodeImporter(Context):
    """Gives the classes and functions that an archive's code defines."""

    def find(self, qualified_name: str) -> NamedType | None:
        try:
            return self.found[qualified_name]
        except KeyError:
            pass
        early = self.early.get(qualified_name)
        if early is not None:
            return early
        record = self.sources.record_of(qualified_name)
        if qualified_name in self.importing:
            message = f"the definition of {qualified_name} contains itself"
            self.refuse(SourceError(message, record=record))
            return self._unknown(qualified_name)
        self.importing.add(qualified_name)
        try:
            found = self._defined(qualified_name, record, partial(self._import, qualified_name))
            return self.found.setdefault(qualified_name, found)
        finally:
            self.importing.remove(qualified_name)
            self.early.pop(qualified_name, None)

    def _defined(
        self, name: str, record: str, read: Callable[[], NamedType | None]
    ) -> NamedType | None:
        """Read a definition; in an open world one that is refused is of an unknown class."""
        try:
            with bounded(record):
                return read()
        except ArchiveError as error:
            self.refuse(error)
            return self._unknown(name)

    def _import(self, qualified_name: str) -> NamedType | None:
        is_native = qualified_name.startswith(NATIVE_PREFIX)
        if is_native and qualified_name in defined_classes():
            return revived_class(qualified_name)
        if is_native and self.open is None:
            return self.native_class(qualified_name)
        piece = self.sources.piece(qualified_name)
        # torch runs code in this namespace, too, where no library has a class of the name.
        if is_native and (piece is None or "def " not in piece.text):
            return self.native_class(qualified_name)
        return None if piece is None else define(self, qualified_name, piece)

    def stand_in(self, candidate: Candidate) -> Function | None:
        name = candidate.upgrader or ""
        if name not in self._stand_ins:
            found = self._reader_of(candidate).find(name) if "." in name else None
            stand_in = found.function if isinstance(found, FunctionType) else None
            if stand_in is not None:
                _ = stand_in.schema  # from here on the classes that it names have their methods
            self._stand_ins[name] = stand_in
        return self._stand_ins[name]

    @cached_property
    def _stand_ins(self) -> dict[str, Function | None]:
        return {}

    def _reader_of(self, candidate: Candidate) -> CodeImporter:
        """Return what reads the function of this library that stands for an overload."""
        return CodeImporter(
            {RECORD: text_of(candidate)},
            operators=self.operators,
            constant=self.constant,
            version=self.version,
            native_class=self.native_class,
            evaluate=self.evaluate,
        )

    def definitions(self, record: str) -> list[str]:
        """Return the qualified names that a code record defines, in file order."""
        return list(self.sources.definitions(record))

    def define_all(self, record: str) -> dict[str, NamedType]:
        """Return what a code record defines by its name, even where no name leads to the record."""
        found: dict[str, NamedType | None] = {}
        for name, piece in self.sources.definitions(record).items():
            if self.sources.record_of(name) == record:
                found[name] = self.find(name)
            else:
                found[name] = self._defined(name, record, partial(define, self, name, piece))
        return {name: type_ for name, type_ in found.items() if type_ is not None}

    def add(self, named: ClassType) -> None:
        """Make a class known that no code record defines."""
        self.found[named.qualified_name] = named

    def reader(self, qualified_name: str, owner: ClassType | None) -> FunctionReader:
        """Return what reads a function, or a method of a class, that is known by other means."""
        if owner is None:
            piece = self.sources.piece(qualified_name)
            assert piece is not None
            return _free_function(self, qualified_name, piece)
        method = self._method_piece(qualified_name, owner)
        is_hook = any(hook.name == method.name for hook in owner.hooks())
        version = None if is_hook else self.version
        return FunctionReader(self, qualified_name, method, owner, version)

    def place(self, record: str, numbers: Sequence[int]) -> CodePlace:
        """Return the place of line, column, end line and end column in a code record."""
        return CodePlace(self.sources.places(record), *numbers)

    def shared_method(self, qualified_name: str, owner: ClassType) -> SharedMethod:
        """Return a method of a class, as one that corresponds to that of an equal class."""
        return shared_method(self.sharing, owner, self._method_piece(qualified_name, owner))

    def _method_piece(self, qualified_name: str, owner: ClassType) -> Piece:
        piece = self.sources.piece(owner.qualified_name)
        assert piece is not None
        return split_class(piece).methods[qualified_name.rpartition(".")[2]]

    def method(self, owner: ClassType, piece: Piece, version: int) -> Function:
        """Return a method of a class that no code record defines."""
        name = f"{owner.qualified_name}.{piece.name}"
        return FunctionReader(self, name, piece, owner, version).function


_reviving: Final = Lock()


def revived_class(qualified_name: str) -> ClassType:
    """Return the class of this library that stands for one that torch bound from C++ once.

    It is one for all archives, and the one that schemas of operators name.
    """
    class_ = native_class(qualified_name)
    with _reviving:
        if not class_.is_revived:
            importer = _revived_code()
            piece = importer.sources.piece(qualified_name)
            assert piece is not None
            importer.early[qualified_name] = class_
            define(importer, qualified_name, piece)
            class_.is_native, class_.is_revived = False, True
    return class_


@cache
def _revived_code() -> CodeImporter:
    """The code of these classes, which needs nothing of the process."""
    return CodeImporter(
        class_records(),
        operators=overloads_of,
        constant=lambda index: (None, NONE),
        version=max(upgrader.bumped_at for upgrader in UPGRADERS.values()),
        native_class=lambda name: None,
        evaluate=lambda schema: None,
    )


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
    "intrinsic.quantized.modules.linear_relu.LinearReLU": "LinearPackedParamsBase",
}
_NN = re.compile(r"__torch__\.torch\.(?:ao\.)?nn\.")


def define(context: Context, name: str, piece: Piece) -> NamedType:
    """Return the type or function that a piece of a code record defines. Raises SourceError."""
    if not piece.is_class:
        return _free_function(context, name, piece).function.type
    outline = None if context.open is not None else outline_of(name, piece)
    template = None if outline is None else context.twins.find(name, outline)
    if outline is not None and template is not None:
        reader = _ClassReader(context, name, piece, template.parts(name, piece))
        found = reader.like(template, outline.names)
        if found is not None:
            return found
    reader = _ClassReader(context, name, piece, split_class(piece))
    match reader.parts.base:
        case "" | "Module":
            return reader.class_type(outline)
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


def _free_function(context: Context, name: str, piece: Piece) -> FunctionReader:
    dialect = context.dialect
    version = None if name in dialect.functions.values() else dialect.free_version
    return FunctionReader(context, name, piece, version=version)


class _ClassReader:
    """Makes a type from the text of a class."""

    def __init__(self, context: Context, name: str, piece: Piece, parts: ClassParts) -> None:
        self.context = context
        self.name = name
        self.piece = piece
        self.parts = parts

    def _started(self) -> ClassType:
        """Return the class that is made, which its own parts may refer to."""
        class_ = self.context.early.get(self.name)
        if not isinstance(class_, ClassType):
            is_module = self.parts.base == "Module"
            class_ = self.context.early[self.name] = ClassType(self.name, is_module=is_module)
        return class_

    def like(self, template: Template, names: Sequence[str]) -> ClassType | None:
        """Return the class, made as its twin is; None where it names what is no submodule."""
        class_, first_line = self._started(), self.piece.first_line
        attributes = class_.attributes
        for attribute, line, name in template.members:
            if name >= 0:
                type_ = self._type(names[name], first_line + line)
                if not (isinstance(type_, ClassType) and type_.is_module):
                    attributes.clear()
                    return None
                attribute = attribute._replace(type=type_)
            attributes[attribute.name] = attribute
        class_.constants |= template.class_.constants
        self._methods(class_, template.lists)
        sharing = self.context.sharing
        if not sharing.add_twin(class_, template.class_, self.parts):
            sharing.add(class_, self.parts)
        return class_

    def class_type(self, outline: Outline | None = None) -> ClassType:
        class_ = self._started()
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
            if outline is not None:
                self.context.twins.add(class_, self.piece, outline, self.parts, lists)
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
        if line.name == "_packed_params" and text == "Tensor":
            class_ = _PACKED.get(_NN.sub("", unmangled(self.name)))
            text = f"__torch__.torch.classes.quantized.{class_}" if class_ else text
        return Attribute(
            line.name,
            self._type(text, line.number),
            is_parameter=line.name in lists["__parameters__"],
            is_buffer=line.name in lists["__buffers__"],
        )

    def _type(self, text: str, line: int) -> Type:
        try:
            return self.context.parse_type(text)
        except SourceError as error:
            if error.line is None:
                error.record, error.line = self.piece.record, line
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
        type_ = self._type(final[1] if final else annotation, line.number)
        literal = read_literal(text, type_)
        if literal is not None:
            return ClassConstant(line.name, type_, literal.value)
        record = self.piece.record
        before = self._before(line, text)
        node = parse_expression(text, record, line.number, before)
        places = self.context.sources.places(record)
        lowering = lowering_of(self.context, Cursor(places, line.number - 1, f"{before}{text}"))
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
            fields[line.name] = self._type(line.annotation, line.number)
        type_ = TupleType(tuple(fields.values()), self.name, tuple(fields))
        try:
            self.context.checked(type_)
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
        message = "the value of an Enum member must be an int, float or string literal"
        raise piece.fail(message, line.number)
    return value


if TYPE_CHECKING:
    from .lowering import FunctionLowering


@dataclass(eq=False)
class FunctionReader:
    """A function of a code record: its schema and graph, each made when asked for.

    ``owner`` is the type whose method it is; ``version`` the operator version of its code.
    """

    context: Context
    name: str
    piece: Piece
    owner: ClassType | InterfaceType | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        self._is_read = False
        self.function: Function = Function(self.name, self.schema, self.graph)

    def schema(self) -> FunctionSchema:
        if self.context.open is not None:
            return self._read_schema()  # what is written stands in each record
        return self.context.sharing.schema(self.function, self._read_schema)

    def _read_schema(self) -> FunctionSchema:
        name = self.name.rpartition(".")[2]
        try:
            with bounded(self.piece.record):
                arguments, result = self._plain_schema() or self._parsed_schema()
        except ArchiveError as error:
            self.context.refuse(error)
            leading = () if self.owner is None else (Argument("self", self.owner),)
            return FunctionSchema(name, "", leading, (Argument("", UNKNOWN),), is_vararg=True)
        return FunctionSchema(name, "", arguments, (Argument("", result),))

    def _plain_schema(self) -> tuple[tuple[Argument, ...], Type] | None:
        """Return the arguments and result of a signature that needs no parser, else None."""
        signature = read_signature(self.piece.text)
        if signature is None:
            return None
        parameters, result = signature
        arguments: list[Argument] = []
        try:
            for parameter in parameters:
                argument = self._plain_argument(parameter, is_first=not arguments)
                if argument is None:
                    return None
                arguments.append(argument)
            return tuple(arguments), self.context.parse_type(result)
        except ArchiveError:
            return None

    def _plain_argument(self, parameter: Parameter, *, is_first: bool) -> Argument | None:
        name, text, default = parameter
        if is_first and self.owner is not None:
            # The type of self is known: what is written there does not count.
            return Argument(name, self.owner) if default is None else None
        type_ = self._untyped(name) if text is None else self.context.parse_type(text)
        if default is None:
            return Argument(name, type_)
        is_read = text is not None and self.context.open is None
        literal = read_literal(default, type_) if is_read else None
        return None if literal is None else Argument(name, type_, literal.value)

    def _parsed_schema(self) -> tuple[tuple[Argument, ...], Type]:
        node = self._header()
        arguments = self._arguments(node)
        if node.returns is None:
            return arguments, self._result_of_body(arguments)
        return arguments, self._type(node.returns)

    def _result_of_body(self, arguments: tuple[Argument, ...]) -> Type:
        """Return the type of the body's result, for a function that does not declare one."""
        if self._is_read:
            reason = "is called recursively, and does not declare what it returns"
            raise self.piece.fail(f"{self.piece.name} {reason}")
        self._is_read = True
        try:
            node = self.piece.parse_function()
            return self._lowering(self.version).lower(node, arguments, None).returns[0].type
        finally:
            self._is_read = False

    def graph(self) -> Block:
        try:
            with bounded(self.piece.record):
                return self._read_graph()
        except ArchiveError as error:
            self.context.refuse(error)
            # Nothing is known of the function but that it is refused.
            block = Block()
            made = block.append(UNLOWERED)
            made.refusal = error
            block.add_return(made.add_output(UNKNOWN))
            return block

    def _read_graph(self) -> Block:
        context = self.context
        if context.open is None and context.dialect is CURRENT and not context.infers_foreign:
            found = self._plain_graph()
            if found is not None:
                return found
        schema = self.function.schema
        node = self.piece.parse_function()
        declared = None if node.returns is None else schema.return_type
        arguments = schema.arguments
        if schema.is_vararg:  # the signature is refused: what parameters hold is not known
            names = [parameter.arg for parameter in node.args.args[len(arguments) :]]
            arguments = (*arguments, *(Argument(name, UNKNOWN) for name in names))
        return self._lowering(self.version).lower(node, arguments, declared)

    def _plain_graph(self) -> Block | None:
        """Return the graph of a function that has plain statements; None if it must be parsed.

        Where anything is wrong it must, too: the parser and what comes behind it say what.
        """
        from .plain import NotPlain, plain_text  # looking at an archive reads no bodies

        plain = plain_text(self.piece.text, self.piece.first_line)
        if plain is None:
            return None
        schema = self.function.schema
        lowering = self._lowering(self.version)
        try:
            if plain.result is not None and read_signature(self.piece.text) is not None:
                return lowering.lower_plain(plain, schema.arguments, schema.return_type)
            node = self.piece._replace(text=plain.rest).parse_function()
            declared = None if node.returns is None else schema.return_type
            return lowering.lower(node, schema.arguments, declared, plain.runs)
        except (ArchiveError, NotPlain):
            return None

    def _lowering(self, version: int | None) -> FunctionLowering:
        return lowering_of(self.context, self._cursor, version)

    def _header(self) -> ast.FunctionDef:
        """Return the function without its body, or all of it if its header does not parse alone."""
        header, end, _ = self.piece.text.partition(":\n")
        indent = " " * 4 if self.piece.is_indented else " "
        try:
            return self.piece._replace(text=f"{header}{end}{indent}pass").parse_function()
        except SourceError:
            return self.piece.parse_function()

    def _type(self, node: ast.expr) -> Type:
        try:
            return self.context.type_of(node)
        except SourceError as error:
            raise self._cursor.locate(error, node) from error.__cause__

    @property
    def _cursor(self) -> Cursor:
        piece = self.piece
        text = f"if 1:\n{piece.text}" if piece.is_indented else piece.text
        return Cursor(self.context.sources.places(piece.record), piece.line_offset, text)

    def _arguments(self, node: ast.FunctionDef) -> tuple[Argument, ...]:
        given = node.args
        missing = [None] * (len(given.args) - len(given.defaults))
        pairs = list(zip(given.args, [*missing, *given.defaults], strict=True))
        leading: list[Argument] = []
        if self.owner is not None:
            if not pairs:
                raise self.piece.fail(f"the method {self.piece.name} has no self")
            # The type of self is known: what is written there does not count.
            self_ = pairs.pop(0)[0]
            if self.context.open is not None and self_.annotation is not None:
                self._type(self_.annotation)
            leading.append(Argument(self_.arg, self.owner))
        rest = [self._argument(parameter, default) for parameter, default in pairs]
        return (*leading, *rest)

    def _untyped(self, name: str) -> Type:
        """Return the type of a parameter without one; old records hold methods without classes."""
        is_method = name == "self" and self.context.open is not None
        return UNKNOWN if is_method else TENSOR

    def _argument(self, parameter: ast.arg, default: ast.expr | None) -> Argument:
        if parameter.annotation is None:
            if default is not None:
                raise self.piece.fail(f"the parameter {parameter.arg!r} has a default but no type")
            return Argument(parameter.arg, self._untyped(parameter.arg))
        try:
            type_, repeat = parameter_type(parameter.annotation, self.context.resolve_type)
            self.context.checked(type_)
        except SourceError as error:
            raise self._cursor.locate(error, parameter) from error.__cause__
        value = NO_DEFAULT
        if default is not None:
            lowering = self._lowering(None)
            value = lowering.constant_of(default, type_, self.name, parameter.arg)
        return Argument(parameter.arg, type_, value, repeat=repeat)


def lowering_of(context: Context, cursor: Cursor, version: int | None = None) -> FunctionLowering:
    """Return a lowering for a function, or a constant expression, of a code record."""
    from .lowering import FunctionLowering  # looking at an archive reads no bodies

    return FunctionLowering(context, cursor, version)


_SCALARS: Final[dict[Type, tuple[re.Pattern[str], Callable[[str], Any]]]] = {
    BOOL: (re.compile("True|False"), "True".__eq__),
    INT: (re.compile("-?(?:0|[1-9][0-9]{0,17})"), int),
    FLOAT: (re.compile(r"-?[0-9]{1,18}\.[0-9]{0,20}(?:e-?[0-9]{1,3})?"), float),
    STRING: (re.compile(r'"[ !#-\[\]-~]*"'), lambda text: text[1:-1]),
    NONE: (re.compile("None"), lambda text: None),
}
_NEVER: Final = re.compile("(?!)")
# A tuple has a comma behind its element, or between several.
_TUPLE: Final = re.compile(r"\((?:[^,]+,|[^,]+(?:, [^,]+)+)\)")


class Literal(NamedTuple):
    value: Any


def read_literal(text: str, type_: Type) -> Literal | None:
    """Return the value of a constant of ``type_``: a scalar, or a list or tuple of scalars."""
    if isinstance(type_, OptionalType) and text != "None":
        type_ = type_.element
    if isinstance(type_, ListType) and text.startswith("[") and text.endswith("]"):
        parts = text[1:-1].split(", ")
        return _sequence(list, parts, [type_.element] * len(parts))
    if isinstance(type_, TupleType) and type_.qualified_name is None and _TUPLE.fullmatch(text):
        return _sequence(tuple, text[1:-1].removesuffix(",").split(", "), type_.elements)
    return _scalar(text, type_)


def _scalar(text: str, type_: Type) -> Literal | None:
    if isinstance(type_, OptionalType):
        type_ = NONE if text == "None" else type_.element
    form, value = _SCALARS.get(type_, (_NEVER, str))
    return Literal(value(text)) if form.fullmatch(text) else None


def _sequence(
    kind: Callable[[Iterable[Any]], Any], parts: Sequence[str], types: Sequence[Type]
) -> Literal | None:
    """Read a list or tuple; a scalar that holds a comma is cut into parts that are none."""
    found = [*filter(None, map(_scalar, parts, types))]
    is_whole = len(found) == len(parts) == len(types)
    return Literal(kind(literal.value for literal in found)) if is_whole else None


class Parameter(NamedTuple):
    """``name: type=default``, parts that are absent being None."""

    name: str
    type: str | None
    default: str | None


_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_IDENTIFIER: Final = re.compile(_NAME)
_DOTTED: Final = rf"{_NAME}(?:\.{_NAME})*"
_DEEPEST: Final = 4
# Names that are read here are far from the bound on their length.
_LONGEST: Final = 4_000
_NO_NAMES: Final = OF_PYTHON | {*keyword.kwlist}
# Parameters of these types hold lists and take numbers.
_BROADCASTING: Final = ("BroadcastingList", "_size_")


def _type_pattern(levels: int) -> str:
    if not levels:
        return _DOTTED
    # Each level stands once in the pattern: said twice, four levels are sixteen to compile.
    return rf"{_DOTTED}(?:\[(?:{_type_pattern(levels - 1)}(?:, (?!\])|(?=\])))+\])?"


_START: Final = re.compile(rf"(?:  )?def ({_NAME})\(")
_DEFAULT: Final = r'[^][\s,()="]+'
_DEFAULTS: Final = rf'"[^"\n]*"|{_DEFAULT}|\[{_DEFAULT}(?:, {_DEFAULT})*\]'
_PARAMETER: Final = re.compile(
    rf"[ \n]*({_NAME})(?:: ({_type_pattern(_DEEPEST)}))?(?:=({_DEFAULTS}))?([,)])"
)
_END: Final = re.compile(rf" -> ({_type_pattern(_DEEPEST)}):\n")


def read_signature(text: str) -> tuple[list[Parameter], str] | None:
    """Return the parameters and the result type of a function or method.

    None where its first lines take a parser.
    """
    start = _START.match(text)
    if start is None:
        return None
    parameters: list[Parameter] = []
    names = [start[1]]
    position, sign = start.end(), ","
    while sign == ",":
        found = _PARAMETER.match(text, position)
        if found is None:
            return None
        name, type_, default, sign = found.groups()
        parameters.append(Parameter(name, type_, default))
        names += name, type_ or ""
        position = found.end()
    end = _END.match(text, position)
    if end is None or end.end() > _LONGEST:
        return None
    names.append(end[1])
    return (parameters, end[1]) if _are_names(" ".join(names)) else None


def _are_names(text: str) -> bool:
    """Return whether words may be names in TorchScript, and types have no special form."""
    if any(special in text for special in _BROADCASTING):
        return False
    return _NO_NAMES.isdisjoint(_IDENTIFIER.findall(text))
