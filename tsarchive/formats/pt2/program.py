"""Translation of a program's JSON graph to a program graph, and to the method ``forward``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Value, nested_blocks
from tsarchive.ir.names import to_identifier
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import TENSOR

from . import schema
from .arguments import Values, argument_value, bind_results, define, flat_outputs, lookup, operands
from .building import Body, Operators
from .guards import Checks
from .higher_order import HIGHER_ORDER, Batches, HigherOrderCall, Library
from .metadata import Places, ProgramPlace, name_of
from .operators import call_function, call_operator, operator_of
from .scalars import SCALARS, call_scalar
from .schema import ExportedProgram
from .signature import Module, Signature, TypedTree, build, unpack

_PREFIX: Final = "torch.ops.higher_order."
# Maximum nesting of graphs; torch itself writes a few levels.
_DEEPEST: Final = 40


class Translation:
    """Translates graphs of the program in ``record``.

    operators: the overloads of an operator kind in order of resolution, none when unknown.
    """

    def __init__(self, operators: Callable[[str], Sequence[FunctionSchema]], record: str) -> None:
        self.record = record
        self._operators = Operators(operators)
        self._places = Places(record)
        self._library = Library(operators)
        self._depth = 0

    def body(self, block: Block) -> Body:
        """Return a builder for a block, whose constants are shared."""
        return Body(block, self._operators)

    def inline(self, body: Body, graph: schema.Graph, given: Sequence[Value]) -> list[Value]:
        """Append the nodes of a nested graph to ``body``; return its results."""
        if len(given) != len(graph.inputs):
            raise FormatError(f"a graph takes {len(graph.inputs)} inputs and is given {len(given)}")
        values: Values = {}
        for input_, value in zip(graph.inputs, given, strict=True):
            if input_.name is not None:
                define(values, input_.name, value)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedError("graphs stand in each other too deeply", limit=_DEEPEST)
        place = body.place
        self.nodes(graph, body, values)
        body.place = place
        self._depth -= 1
        return [value for output in graph.outputs for value in operands(body, output, values)]

    def nodes(self, graph: schema.Graph, body: Body, values: Values) -> None:
        """Append the nodes of a graph.

        ``values`` binds names to values; the results of nodes are added to it. Raises FormatError
        for a node that breaks a rule, UnknownOperatorError for an operator that is not registered,
        UnsupportedError for one that cannot be translated.
        """
        batches = Batches(values)
        for node in graph.nodes:
            body.place = place = self._places.of(node)
            with self._located(node, place):
                if batches.takes(node):
                    body = batches.step(node, body)
                elif node.target in SCALARS:
                    call_scalar(body, node, values)
                elif node.target.startswith(_PREFIX):
                    self._higher_order(node, body, values)
                else:
                    self._operator(node, body, values)
        batches.check_end()

    def _operator(self, node: schema.Node, body: Body, values: Values) -> None:
        target = operator_of(node.target)
        function = self._library.function(target)
        if function is None:
            call_operator(body, target, node, values)
        else:
            call_function(body, function, node, values)

    def _higher_order(self, node: schema.Node, body: Body, values: Values) -> None:
        call = HIGHER_ORDER.get(node.target.removeprefix(_PREFIX))
        if call is None:
            raise UnsupportedError(
                "nothing here stands for this operator of higher order",
                hint="Run the program with torch.export.load(file).module()",
            )
        results = call(HigherOrderCall(self.inline, self._library, body, node, values))
        bind_results(body, flat_outputs(node.outputs), results, values)

    @contextmanager
    def _located(self, node: schema.Node, place: ProgramPlace) -> Iterator[None]:
        """Add the record and the node to errors, unless a node of a nested graph has done so."""
        try:
            yield
        except ArchiveError as error:
            if error.record is None:
                error.record = self.record
                where = "" if place.range is None else f" from {place}"
                shown = f"node {name_of(node)!r} ({node.target}){where}"
                error.message = f"{shown}: {error.message}"
            raise


# Pure operators that cannot fail where a program runs.
_READING: Final = frozenset(
    {"aten::dim", "aten::new_zeros", "aten::size", "aten::storage_offset", "aten::stride"}
)


def drop_unused_reads(block: Block) -> None:
    """Remove unused nodes that read the shape of a tensor."""
    for node in reversed(tuple(block.nodes)):
        for inner in nested_blocks(node):
            drop_unused_reads(inner)
        if node.kind in _READING and not any(output.uses for output in node.outputs):
            node.drop_inputs()
            block.nodes.remove(node)


def argument_names(signature: Signature) -> list[str]:
    """Return names for the arguments in code: unique identifiers."""
    found: list[str] = []
    for parameter in signature.parameters:
        name = to_identifier(parameter.name)
        while name in found or name == "self":
            name += "_"
        found.append(name)
    return found


@dataclass(frozen=True, slots=True)
class Forward:
    """The parts of ``forward``; its graph is built on first use."""

    program: ExportedProgram
    signature: Signature
    parameters: tuple[TypedTree, ...]
    result: TypedTree
    module: Module
    operators: Callable[[str], Sequence[FunctionSchema]]
    record: str

    def function(self) -> Function:
        owner = self.module.type
        arguments = [Argument("self", owner)]
        for name, typed in zip(argument_names(self.signature), self.parameters, strict=True):
            arguments.append(Argument(name, typed.type))
        result = Argument("", self.result.type)
        schema = FunctionSchema("forward", "", tuple(arguments), (result,))
        return Function(f"{owner.qualified_name}.forward", schema, self._graph)

    def _graph(self) -> Block:
        try:
            return self._made()
        except ArchiveError as error:
            error.record = error.record or self.record
            raise

    def _made(self) -> Block:
        block = Block()
        translation = Translation(self.operators, self.record)
        body = translation.body(block)
        owner = block.add_param(self.module.type, "self")
        leaves = list(self._leaves(body))
        checks = Checks(body, self.program, self.signature.inputs, leaves)
        checks.append(self.signature.parameters)
        values: Values = {}
        for input_, leaf in zip(self.signature.inputs, leaves, strict=True):
            if input_.name is not None:
                define(values, input_.name, leaf)
        self._bind_module(body, owner, self.module, values)
        for name in self.signature.tokens:
            define(values, name, body.none())
        translation.nodes(self.program.graph_module.graph, body, values)
        body.place = None
        self._write_back(body, values)
        signature = self.signature
        results = (
            argument_value(body, argument, values, type_)
            for argument, type_ in zip(signature.results, signature.result_types, strict=True)
        )
        block.add_return(build(body, self.result, results))
        drop_unused_reads(block)
        return block

    def _leaves(self, body: Body) -> Iterator[Value]:
        given = [
            body.block.add_param(typed.type, name)
            for name, typed in zip(argument_names(self.signature), self.parameters, strict=True)
        ]
        for value, typed in zip(given, self.parameters, strict=True):
            yield from unpack(body, value, typed)

    def _bind_module(self, body: Body, owner: Value, module: Module, values: Values) -> None:
        for name, state in module.states.items():
            type_ = module.type.attributes[name].type
            value = body.append("prim::GetAttr", [owner], type_, name=name).output
            define(values, state.name, value)
        for name, child in module.children.items():
            inner = body.append("prim::GetAttr", [owner], child.type, name=name).output
            self._bind_module(body, inner, child, values)

    def _write_back(self, body: Body, values: Values) -> None:
        """Copy new values of buffers and arguments into them."""
        for name, changed in self.signature.mutations:
            target = lookup(values, changed)
            value = lookup(values, name)
            if target.type != TENSOR:
                raise FormatError(f"{changed!r} is changed, and no tensor")
            values[name] = body.value("aten::copy_", target, value)
