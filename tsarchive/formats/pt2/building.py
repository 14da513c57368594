"""A builder that appends nodes to a block: constants, lists, operators, control flow.

Overloads are resolved as the compiler of TorchScript code does, so that a node has the meaning of
its text. Nothing here knows the format that a graph comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.errors import FormatError, UnknownOperatorError
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.context import no_constant
from tsarchive.frontend.matching import (
    BLOCKED,
    Call,
    Conversions,
    Match,
    Mismatch,
    no_overload,
    refused,
)
from tsarchive.frontend.references import Typed, typed
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import CONSTANT, Block, Node, Placed, Value
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    ListType,
    TupleType,
    Type,
    annotation,
)
from tsarchive.ir.values import Builder
from tsarchive.operators.libraries import unregistered, what_registers
from tsarchive.operators.removed import removed
from tsarchive.operators.upgraders import Candidate

_NO_VALUE: Final = Value(Node(CONSTANT), NONE)


class Choice(NamedTuple):
    """A selected overload and its arguments; ``reads_back`` if its text selects it again."""

    candidate: Candidate
    match: Match
    reads_back: bool = True


def _old_schemas(kind: str) -> Iterator[FunctionSchema]:
    yield from (candidate.schema for candidate in removed(kind))


class Operators:
    """The overloads of operators, and overload resolution."""

    def __init__(self, find: Callable[[str], Sequence[FunctionSchema]]) -> None:
        self.find = find
        self._chosen: dict[Hashable, Choice] = {}

    def overload(self, kind: str, name: str) -> FunctionSchema:
        """Return an overload by its name. Raises UnknownOperatorError."""
        schemas = self.find(kind)
        for schema in chain(schemas, _old_schemas(kind)):
            if schema.overload == name and not schema.is_vararg:
                return schema
        shown = f"{kind}.{name}" if name else kind
        raise UnknownOperatorError.of(
            shown,
            f"the operator {shown} is not registered in this process",
            hint=None if schemas else what_registers(kind),
        )

    def choose(self, kind: str, named: FunctionSchema | None, call: Call) -> Choice:
        """Return the overload that accepts the arguments: the ``named`` one if it does.

        Raises FormatError where none does, UnknownOperatorError for an unknown operator.
        """
        shape = call.shape
        key = kind, None if named is None else named.overload, shape
        found = self._chosen.get(key) if shape is not None else None
        if found is None:
            found = self._chosen[key] = self._select(kind, named, call)
        return found

    def takes(
        self, kind: str, types: Sequence[Type], keywords: Mapping[str, Type] = MappingProxyType({})
    ) -> bool:
        """Return whether an overload accepts arguments of these types without conversions."""
        named = {name: Typed(_NO_VALUE, type_) for name, type_ in keywords.items()}
        call = Call([Typed(_NO_VALUE, type_) for type_ in types], named)
        found = (call.match(schema, convert=False) for schema in self.find(kind))
        return any(isinstance(match, Match) for match in found)

    def _select(self, kind: str, named: FunctionSchema | None, call: Call) -> Choice:
        if named is not None:
            match = call.match(named, convert=False)
            if isinstance(match, Match):
                is_read = self._reads_back(kind, named, call)
                return Choice(self._candidate(kind, named), match, is_read)
        candidates = [*map(Candidate, self.find(kind))]
        found = call.select(candidates)
        if isinstance(found, list):
            candidates += removed(kind)
            found = call.select(candidates)
        if not candidates:
            raise unregistered(kind)
        if isinstance(found, list):
            raise FormatError(no_overload(kind, candidates, found, call))
        return Choice(*found)

    def _candidate(self, kind: str, schema: FunctionSchema) -> Candidate:
        """Return an overload, with what stands for it where this process does not have it."""
        if any(known is schema for known in self.find(kind)):
            return Candidate(schema)
        old = (candidate for candidate in removed(kind) if candidate.schema is schema)
        return next(old, Candidate(schema))

    def stand_in(self, candidate: Candidate) -> Function | None:
        """Return the function in TorchScript that stands for an old overload, if there is one."""
        return self._reader.stand_in(candidate)

    @cached_property
    def _reader(self) -> CodeImporter:
        return CodeImporter(
            {},
            operators=self.find,
            constant=no_constant,
            version=0,
            native_class=lambda name: None,
            evaluate=lambda schema: None,
        )

    def _reads_back(self, kind: str, named: FunctionSchema, call: Call) -> bool:
        """Return whether text of the call selects this overload.

        Where text of torch's own operators selects another overload, only defaults are missing and
        both do the same; except for operators that scripts cannot reach.
        """
        if kind.startswith("aten::"):
            return named.full_name not in BLOCKED
        found = call.select([Candidate(schema) for schema in self.find(kind)])
        return not isinstance(found, list) and found[0].schema is named


class Body:
    """Appends nodes to ``block``. ``place`` is the location of nodes appended from now on."""

    def __init__(self, block: Block, operators: Operators) -> None:
        self.block = block
        self.operators = operators
        self.place: Placed | None = None
        self._builder = Builder(block, lambda: self.place)
        self.append = self._builder.append
        self.constant = self._builder.constant
        self.default = self._builder.default
        self._conversions = Conversions(self._builder, operators.find)

    def inside(self, block: Block) -> Body:
        """Return a builder for a nested block of a node of this one."""
        body = Body(block, self.operators)
        body.place = self.place
        return body

    def none(self) -> Value:
        return self.constant(None, NONE)

    def integer(self, value: int) -> Value:
        return self.constant(value, INT)

    def string(self, value: str) -> Value:
        return self.constant(value, STRING)

    def list_of(self, element: Type, values: Sequence[Value]) -> Value:
        """Return a list. Raises FormatError for a value that is not of the ``element`` type."""
        for value in values:
            if not is_subtype(value.type, element):
                raise FormatError(
                    f"a value of type {annotation(value.type)} stands in a list of "
                    f"{annotation(element)}"
                )
        return self._builder.list_of(element, values)

    def unpacked(self, value: Value, count: int) -> list[Value]:
        """Unpack a list of ``count`` elements."""
        if not isinstance(value.type, ListType):
            raise FormatError(f"{count} results are named where one {annotation(value.type)} is")
        return self.append("prim::ListUnpack", [value], *[value.type.element] * count).outputs

    def call(
        self,
        kind: str,
        *arguments: Value,
        overload: str | None = None,
        **keywords: Value,
    ) -> list[Value]:
        """Return the results of an operator; ``overload`` is preferred if it matches."""
        named = None if overload is None else self.operators.overload(kind, overload)
        return self.call_schema(kind, named, arguments, keywords)

    def value(self, kind: str, *arguments: Value, **keywords: Value) -> Value:
        """Return the result of an operator with exactly one."""
        (result,) = self.call_schema(kind, None, arguments, keywords)
        return result

    def call_schema(
        self,
        kind: str,
        named: FunctionSchema | None,
        arguments: Sequence[Value],
        keywords: Mapping[str, Value],
    ) -> list[Value]:
        given = [typed(value) for value in arguments]
        call = Call(given, {name: typed(value) for name, value in keywords.items()})
        candidate, match, reads_back = self.operators.choose(kind, named, call)
        if candidate.refusal:
            raise refused(candidate)
        inputs = self._conversions.inputs(match.inputs, call.values)
        node = self.append(kind, inputs, *match.returns, schema=candidate.schema)
        node.upgrader = candidate.upgrader
        node.stand_in = self.operators.stand_in(candidate) if candidate.upgrader else None
        if not reads_back:
            node.lost = (f"the overload {candidate.schema.overload}",)
        return node.outputs

    def call_method(self, target: Value, name: str, arguments: Sequence[Value]) -> Value:
        """Return the result of a method. Raises FormatError for arguments that do not match."""
        method = target.type.methods.get(name) if isinstance(target.type, ClassType) else None
        if method is None:
            raise FormatError(f"a {annotation(target.type)} has no method {name!r}")
        inputs = self._taken(method.schema, (target, *arguments))
        type_ = method.schema.return_type
        return self.append("prim::CallMethod", inputs, type_, name=name).output

    def call_function(self, function: Function, arguments: Sequence[Value]) -> list[Value]:
        """Return the results of a function. Raises FormatError for arguments that do not match."""
        callee = self.constant(function, function.type)
        inputs = [callee, *self._taken(function.schema, arguments)]
        result = self.append("prim::CallFunction", inputs, function.schema.return_type).output
        if isinstance(result.type, TupleType):
            return self.append("prim::TupleUnpack", [result], *result.type.elements).outputs
        return [result]

    def _taken(self, schema: FunctionSchema, arguments: Sequence[Value]) -> list[Value]:
        call = Call([typed(value) for value in arguments], {})
        match = call.match(schema, convert=True)
        if isinstance(match, Mismatch):
            raise FormatError(f"{schema.name} does not take these arguments: {match}")
        return self._conversions.inputs(match.inputs, call.values)

    def truth(self, value: Value) -> Value:
        """Convert a value to a condition. Raises FormatError where that is impossible."""
        if value.type == BOOL:
            return value
        if value.type not in (TENSOR, INT, FLOAT):
            raise FormatError(f"a condition cannot be a {annotation(value.type)}")
        return self.value("aten::Bool", value)

    def as_type(self, value: Value, type_: Type) -> Value:
        """Convert a number, or a tensor that holds one, to an int, float or bool."""
        if value.type == type_:
            return value
        if value.type not in (TENSOR, NUMBER, INT, FLOAT, BOOL):
            raise FormatError(
                f"a value of type {annotation(value.type)} stands where {annotation(type_)} does"
            )
        kind, convert = _CASTS[type_]
        content = value.node.attributes["value"] if value.node.is_constant else None
        if isinstance(content, bool | int):
            return self.constant(convert(content), type_)
        return self.value(kind, value)

    def raise_unless(self, condition: Value, message: str, *shown: Value) -> None:
        """Raise at run time where ``condition`` is false; values replace ``{}`` in the message."""
        check = self.append("prim::If", [condition])
        check.add_block()
        failing = self.inside(check.add_block())
        text = failing.string(message)
        if shown:
            schema = next(s for s in self.operators.find("aten::format") if s.is_vararg)
            text = failing.append("aten::format", [text, *shown], STRING, schema=schema).output
        failing.call("prim::RaiseException", text)


class Loop:
    """A loop with carried values, with its body under construction."""

    def __init__(
        self, body: Body, count: Value, condition: Value, carried: Sequence[Value]
    ) -> None:
        self.node: Node = body.append("prim::Loop", [count, condition, *carried])
        self.block: Block = self.node.add_block()
        self.counter = self.block.add_param(INT)
        self.carried = [self.block.add_param(value.type) for value in carried]
        for value in carried:
            self.node.add_output(value.type)
        self.body = body.inside(self.block)

    def end(self, condition: Value, results: Sequence[Value]) -> list[Value]:
        """Finish the body; return the results of the loop."""
        if len(results) != len(self.carried):
            raise FormatError(f"it has {len(results)} carried results, not {len(self.carried)}")
        for value, param in zip(results, self.carried, strict=True):
            if not is_subtype(value.type, param.type):
                raise FormatError(
                    f"a carried {annotation(param.type)} becomes a {annotation(value.type)}"
                )
        for value in (condition, *results):
            self.block.add_return(value)
        return self.node.outputs


_CASTS: Final[Mapping[Type, tuple[str, Callable[[Any], Any]]]] = {
    INT: ("aten::Int", int),
    FLOAT: ("aten::Float", float),
    BOOL: ("aten::Bool", bool),
}
