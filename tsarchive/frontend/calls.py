"""Calls: operators by overload, functions, methods, and constructors."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tsarchive.errors import SourceError, UnknownOperatorError
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.graph import Node
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import BOOL, INT, NONE, TupleType, Type
from tsarchive.operators.upgraders import Candidate
from tsarchive.printer.expressions import necessary_arguments

from .casts import Casts
from .dialect import CURRENT, Dialect
from .environment import shown
from .libraries import what_registers
from .matching import Call, Default, Match, Mismatch, explain, schema_text
from .references import Reference, Results, Typed, typed


class Arguments(NamedTuple):
    """The arguments of a call after evaluation."""

    positional: Sequence[Typed]
    keywords: Mapping[str, Typed]


def positional(*given: Typed) -> Arguments:
    return Arguments(given, {})


def note_defaults(node: Node, schema: FunctionSchema, match: Match) -> None:
    """Remember how many arguments the call spells out, where a printer would leave some out."""
    needed, out_count = necessary_arguments(schema, node.inputs)
    sources = [given.source for given in match.inputs[: len(match.inputs) - out_count]]
    while sources and isinstance(sources[-1], Default):
        sources.pop()
    if len(sources) > needed:
        node.attributes["written"] = len(sources)


# The number of torch.bool.
_BOOL_DTYPE = 11


class Calls(Casts):
    def call_operator(
        self, kind: str, arguments: Arguments, node: ast.AST, target: Typed | None = None
    ) -> Reference:
        """A node of the overload of ``kind`` that fits the arguments."""
        if self.importer.dialect is not CURRENT:
            kind, arguments = self._of_dialect(self.importer.dialect, kind, arguments, node)
        call = Call(arguments.positional, arguments.keywords, target)
        candidate, match = self._chosen(kind, call, node)
        inputs = [self.realise(input_, call.values) for input_ in match.inputs]
        function = self._function_for(candidate)
        if function is not None:
            return self.call_function(function, positional(*map(typed, inputs)), node)
        made = self.append(kind, inputs, *match.returns, schema=candidate.schema)
        if candidate.upgrader is not None:
            made.attributes["upgrader"] = candidate.upgrader
        note_defaults(made, candidate.schema, match)
        if len(made.outputs) == 1:
            return typed(made.output)
        names = tuple(result.name for result in candidate.schema.returns)
        return Results(made.outputs, names if all(names) else ())

    def _chosen(self, kind: str, call: Call, node: ast.AST) -> tuple[Candidate, Match]:
        """The overload that a call means; calls of one shape mean the same."""
        shape = call.shape
        if shape is None:
            return self._selected(kind, call, node)
        key = kind, self.frame.version, shape
        found = self.importer.choices.get(key)
        if found is None:
            found = self.importer.choices[key] = self._selected(kind, call, node)
        return found

    def _selected(self, kind: str, call: Call, node: ast.AST) -> tuple[Candidate, Match]:
        candidates = self.importer.candidates(kind, self.frame.version)
        if not candidates:
            raise self._unknown_operator(kind, node)
        found = call.select(candidates)
        if isinstance(found, list):
            raise self._no_overload(kind, candidates, found, call, node)
        return found

    def _function_for(self, candidate: Candidate) -> Function | None:
        """The function that stands for an old operator outside of methods."""
        dialect = self.importer.dialect
        if candidate.upgrader is None or self.frame.version != dialect.free_version:
            return None
        found = self.importer.find(dialect.functions.get(candidate.upgrader, ""))
        return found.function if isinstance(found, FunctionType) else None

    def _of_dialect(
        self, dialect: Dialect, kind: str, arguments: Arguments, node: ast.AST
    ) -> tuple[str, Arguments]:
        """A call as it is written today."""
        kind = dialect.renamed.get(kind, kind)
        positional, keywords = list(arguments.positional), dict(arguments.keywords)
        place = dialect.masks.get(kind)
        if place is not None and place < len(positional):
            positional[place] = self._mask(positional[place], node)
        if dialect.flags.get(kind) == len(positional):
            positional.append(self.constant(True, BOOL))
        dtype = dialect.dtypes.get(kind)
        given = keywords.get("dtype")
        if dtype is not None and "out" not in keywords and (given is None or given.type == NONE):
            keywords["dtype"] = self.constant(dtype, INT)
        return kind, Arguments(positional, keywords)

    def _mask(self, given: Typed, node: ast.AST) -> Typed:
        """``given.to(torch.bool)``."""
        no = self.constant(False, BOOL)
        options = Arguments([given, self.constant(_BOOL_DTYPE, INT), no, no], {})
        return self.operator_value("aten::to", options, node)

    def operator_value(self, kind: str, arguments: Arguments, node: ast.AST) -> Typed:
        return self.as_value(self.call_operator(kind, arguments, node), node)

    def _unknown_operator(self, kind: str, node: ast.AST) -> SourceError:
        error = UnknownOperatorError(
            f"the operator {kind} is not registered in this process",
            hint=what_registers(kind),
        )
        return self.locate(error, node)

    def _no_overload(
        self,
        kind: str,
        candidates: Sequence[Candidate],
        mismatches: Sequence[Mismatch],
        call: Call,
        node: ast.AST,
    ) -> SourceError:
        given = [shown(argument.type) for argument in call.positional]
        if call.target is not None:
            given.insert(0, shown(call.target.type))
        given += [f"{name}={shown(value.type)}" for name, value in call.keywords.items()]
        error = UnknownOperatorError(
            f"no overload of {kind} takes ({', '.join(given)}); "
            f"considered:{explain(candidates, mismatches)}"
        )
        return self.locate(error, node)

    def match_schema(
        self, schema: FunctionSchema, arguments: Arguments, node: ast.AST
    ) -> tuple[list[Typed], Match]:
        """The arguments of a function of the archive, converted and with defaults filled in."""
        call = Call(arguments.positional, arguments.keywords)
        found = call.match(schema, convert=True)
        if isinstance(found, Mismatch):
            raise self.error(node, f"{schema_text(schema)} does not take this call: {found}")
        return [typed(self.realise(input_, call.values)) for input_ in found.inputs], found

    def call_function(self, function: Function, arguments: Arguments, node: ast.AST) -> Typed:
        given, _ = self.match_schema(function.schema, arguments, node)
        inputs = [self.function_value(function), *(argument.value for argument in given)]
        made = self.append("prim::CallFunction", inputs, function.schema.return_type)
        return typed(made.output)

    def call_method(self, target: Typed, name: str, arguments: Arguments, node: ast.AST) -> Typed:
        schema = self.method_schema(target.type, name)
        if schema is None:
            raise self.error(node, f"{shown(target.type)} has no method {name!r}")
        full = Arguments([target, *arguments.positional], arguments.keywords)
        given, _ = self.match_schema(schema, full, node)
        inputs = [argument.value for argument in given]
        made = self.append("prim::CallMethod", inputs, schema.return_type, name=name)
        return typed(made.output)

    def method_schema(self, type_: Type, name: str) -> FunctionSchema | None:
        match type_:
            case ClassType():
                method = type_.methods.get(name)
                return None if method is None else method.schema
            case InterfaceType():
                return type_.methods.get(name)
        return None

    def construct(self, type_: Type, arguments: Arguments, node: ast.AST) -> Typed:
        """``N(a, b)`` of a named tuple, or ``C(a)`` of a class with ``__init__``."""
        if isinstance(type_, TupleType):
            return self._named_tuple(type_, arguments, node)
        if not isinstance(type_, ClassType) or type_.is_module:
            raise self.error(node, f"{shown(type_)} cannot be created by a call")
        made = typed(self.append("prim::CreateObject", (), type_).output)
        if "__init__" in type_.methods:
            self.call_method(made, "__init__", arguments, node)
        return made

    def _named_tuple(self, type_: TupleType, arguments: Arguments, node: ast.AST) -> Typed:
        fields = zip(type_.fields, type_.elements, strict=True)
        schema = FunctionSchema(
            shown(type_), "", tuple(Argument(name, field) for name, field in fields), ()
        )
        given, _ = self.match_schema(schema, arguments, node)
        return self.tuple_of(given, type_)
