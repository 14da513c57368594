"""Functions and methods: signatures and bodies, read when they are asked for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tsarchive.errors import ArchiveError, SourceError
from tsarchive.ir.classes import ClassType, Function, InterfaceType
from tsarchive.ir.graph import Block
from tsarchive.ir.schema import NO_DEFAULT, Argument, FunctionSchema
from tsarchive.ir.type_parser import parameter_type, type_of_expression
from tsarchive.ir.types import TENSOR, UNKNOWN, Type

from .context import Context
from .open_world import UNLOWERED
from .places import Cursor
from .plain import Parameter, read_literal, read_signature
from .splitting import Piece
from .syntax import bounded

if TYPE_CHECKING:
    from .lowering import FunctionLowering


class FunctionReader:
    """A function of a code record: its schema and graph, each made when asked for.

    ``owner`` is the type whose method it is; ``version`` the operator version of its code.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        piece: Piece,
        owner: ClassType | InterfaceType | None = None,
        version: int | None = None,
    ) -> None:
        self.context = context
        self.name = name
        self.piece = piece
        self.owner = owner
        self.version = version
        self._is_read = False
        self.function = Function(name, self.schema, self.graph)

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
        arguments: list[Argument] = []
        try:
            for parameter in signature.parameters:
                argument = self._plain_argument(parameter, is_first=not arguments)
                if argument is None:
                    return None
                arguments.append(argument)
            return tuple(arguments), self.context.parse_type(signature.result)
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
        if node.returns is not None:
            return arguments, self._type(node.returns)
        return arguments, self._result_of_body(arguments)

    def _result_of_body(self, arguments: tuple[Argument, ...]) -> Type:
        """Return the type of the body's result, for a function that does not declare one."""
        if self._is_read:
            raise self.piece.fail(
                f"{self.piece.name} is called recursively, and does not declare what it returns"
            )
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
            return _unlowered(error)

    def _read_graph(self) -> Block:
        schema = self.function.schema
        node = self.piece.parse_function()
        declared = None if node.returns is None else schema.return_type
        arguments = schema.arguments
        if schema.is_vararg:  # the signature is refused: what parameters hold is not known
            names = [parameter.arg for parameter in node.args.args[len(arguments) :]]
            arguments = (*arguments, *(Argument(name, UNKNOWN) for name in names))
        return self._lowering(self.version).lower(node, arguments, declared)

    def _lowering(self, version: int | None) -> FunctionLowering:
        piece = self.piece
        text = f"if 1:\n{piece.text}" if piece.is_indented else piece.text
        return lowering_of(self.context, piece.record, piece.line_offset, text, version)

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
            type_ = type_of_expression(node, self.context.resolve_type)
            return self.context.sizes.checked(type_)
        except SourceError as error:
            raise self._cursor.locate(error, node) from error.__cause__

    @property
    def _cursor(self) -> Cursor:
        piece = self.piece
        return Cursor(self.context.sources.places(piece.record), piece.line_offset, piece.text)

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
            self.context.sizes.checked(type_)
        except SourceError as error:
            raise self._cursor.locate(error, parameter) from error.__cause__
        value = NO_DEFAULT
        if default is not None:
            lowering = self._lowering(None)
            value = lowering.constant_of(default, type_, self.name, parameter.arg)
        return Argument(parameter.arg, type_, value, repeat=repeat)


def _unlowered(error: ArchiveError) -> Block:
    """Return the graph of a function of which nothing is known but that it is refused."""
    block = Block()
    made = block.append(UNLOWERED)
    made.refusal = error
    block.add_return(made.add_output(UNKNOWN))
    return block


def lowering_of(
    context: Context, record: str, line_offset: int, text: str, version: int | None = None
) -> FunctionLowering:
    """Return a lowering for a function, or a constant expression, of a code record."""
    from .lowering import FunctionLowering  # looking at an archive reads no bodies

    cursor = Cursor(context.sources.places(record), line_offset, text)
    return FunctionLowering(context, cursor, version)
