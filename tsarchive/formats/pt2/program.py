"""Translation of a program's JSON graph to a program graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Block, Value
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import Type

from . import schema
from .arguments import Values, argument_value, bind_results, define, flat_outputs, operands
from .batching import Batches
from .building import Body, Operators
from .higher_order import GRAPH_CALLS, HigherOrderCall
from .library import Library
from .operator_calls import OPERATOR_CALLS
from .operators import call_function, call_operator, operator_of
from .scalars import SCALARS, call_scalar
from .source_locations import NodePlace, Places

_HIGHER_ORDER: Final = {**GRAPH_CALLS, **OPERATOR_CALLS}
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
        self._bodies: dict[Block, Body] = {}
        self._library = Library(operators)
        self._depth = 0

    def body(self, block: Block) -> Body:
        """Return a builder for a block; constants of one block are shared."""
        found = self._bodies.get(block)
        if found is None:
            found = self._bodies[block] = Body(block, self._operators)
        return found

    def nodes(self, graph: schema.Graph, block: Block, values: Values) -> None:
        """Append the nodes of a graph to a block.

        ``values`` binds names to values; the results of nodes are added to it. Raises FormatError
        for a node that breaks a rule, UnknownOperatorError for an operator that is not registered,
        UnsupportedError for one that cannot be translated.
        """
        self._nodes(graph, self.body(block), values)

    def argument(
        self, block: Block, argument: schema.Argument, values: Values, type_: Type | None
    ) -> Value:
        """Return the value of an argument that should be of ``type_``, None if that is unknown.

        Raises FormatError for names that are not defined, and values that cannot be of the type.
        """
        try:
            return argument_value(self.body(block), argument, values, type_)
        except ArchiveError as error:
            error.record = error.record or self.record
            raise

    def inline(self, body: Body, graph: schema.Graph, given: Sequence[Value]) -> list[Value]:
        """Append the nodes of a nested graph to ``body``; return its results."""
        values = _named_inputs(graph, given)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedError("graphs stand in each other too deeply", limit=_DEEPEST)
        place = body.place
        self._nodes(graph, body, values)
        body.place = place
        self._depth -= 1
        return [value for output in graph.outputs for value in operands(body, output, values)]

    def context_class(self, qualified_name: str) -> ClassType:
        """Return a class of context managers that nodes instantiate."""
        return self._library.class_of(qualified_name)

    def _nodes(self, graph: schema.Graph, body: Body, values: Values) -> None:
        batches = Batches()
        for node in graph.nodes:
            body.place = place = self._places.of(node)
            with self._located(node, place):
                if batches.takes(node):
                    body = batches.step(node, body, values)
                else:
                    self._node(node, body, values)
        batches.check_end()

    def _node(self, node: schema.Node, body: Body, values: Values) -> None:
        if node.target in SCALARS:
            call_scalar(body, node, values)
        elif node.target.startswith(_PREFIX):
            self._higher_order(node, body, values)
        else:
            self._operator(node, body, values)

    def _operator(self, node: schema.Node, body: Body, values: Values) -> None:
        target = operator_of(node.target)
        function = self._library.function(target)
        if function is None:
            call_operator(body, target, node, values)
        else:
            call_function(body, function, node, values)

    def _higher_order(self, node: schema.Node, body: Body, values: Values) -> None:
        call = _HIGHER_ORDER.get(node.target.removeprefix(_PREFIX))
        if call is None:
            raise UnsupportedError(
                "nothing here stands for this operator of higher order",
                hint="Run the program with torch.export.load(file).module()",
            )
        results = call(HigherOrderCall(self, body, node, values))
        bind_results(body, flat_outputs(node.outputs), results, values)

    @contextmanager
    def _located(self, node: schema.Node, place: NodePlace) -> Iterator[None]:
        """Add the record and the node to errors, unless a node of a nested graph has done so."""
        try:
            yield
        except ArchiveError as error:
            if error.record is None:
                error.record = self.record
                where = "" if place.range is None else f" from {place}"
                error.message = f"node {place.name!r} ({node.target}){where}: {error.message}"
            raise


def _named_inputs(graph: schema.Graph, given: Sequence[Value]) -> Values:
    if len(given) != len(graph.inputs):
        raise FormatError(f"a graph takes {len(graph.inputs)} inputs and is given {len(given)}")
    values: Values = {}
    for input_, value in zip(graph.inputs, given, strict=True):
        name = input_name(input_)
        if name is not None:
            define(values, name, value)
    return values


def input_name(argument: schema.Argument) -> str | None:
    """Return the name that a graph input binds; None for a constant."""
    value = argument.value
    if isinstance(value, schema.TensorArgument | schema.CustomObjArgument):
        return value.name
    if isinstance(value, schema.Tagged) and value.tag in ("as_name", "as_tensor"):
        return value.value if value.tag == "as_name" else str(value.value.name)
    return None
