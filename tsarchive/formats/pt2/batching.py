"""Translation of ``torch.vmap`` in programs that are not decomposed.

Calls of Python functions mark where a batch begins and ends, which tensors are split into rows and
which results are stacked. The nodes between become the body of a loop over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Block, Value
from tsarchive.ir.types import BOOL, INT, STRING, TENSOR
from tsarchive.run.passes.alias_analysis import Aliases

from . import schema
from .arguments import Values, argument_value, bind_results
from .building import Body
from .higher_order import Loop

_PREFIX: Final = "torch._functorch.predispatch."
_COLLECTING: Final = "aten::append"
_HINT: Final = "Save what run_decompositions() of the exported program gives"


@dataclass(slots=True)
class _Batch:
    """One vmap.

    ``level`` is torch's number of it, known once a tensor is split; ``before`` are the names that
    were defined before it.
    """

    outside: Body
    loop: Loop
    before: frozenset[str]
    level: int | None = None
    results: list[_Result] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Result:
    """A batched result.

    ``rows`` is the list of the rows from each iteration, stacked along ``dim``.
    """

    rows: Value
    dim: Value
    outputs: Sequence[schema.Argument]


class Batches:
    """The batches around the nodes of one graph, the innermost last."""

    def __init__(self) -> None:
        self._open: list[_Batch] = []

    def takes(self, node: schema.Node) -> bool:
        return node.target.startswith(_PREFIX)

    def step(self, node: schema.Node, body: Body, values: Values) -> Body:
        """Translate such a call; return the body to which the following nodes are appended.

        Raises UnsupportedError for other transformations, FormatError where batches overlap.
        """
        match node.target.removeprefix(_PREFIX), [given.arg for given in node.inputs]:
            case "lazy_load_decompositions", []:
                return body
            case "_vmap_increment_nesting", [size, randomness]:
                return self._begin(body, size, randomness, values)
            case "_add_batch_dim", [tensor, dim, level]:
                bind_results(
                    body, node.outputs, [self._row(body, tensor, dim, level, values)], values
                )
                return body
            case "_remove_batch_dim", [tensor, level, _, dim]:
                self._put_together(body, node, tensor, dim, level, values)
                return body
            case "_vmap_decrement_nesting", []:
                return self._end(values)
        raise UnsupportedError("this transformation of torch.func has no form here", hint=_HINT)

    def check_end(self) -> None:
        """Raise FormatError where a batch has no end."""
        if self._open:
            raise FormatError("a batch of torch.vmap does not end")

    def _begin(
        self, body: Body, size: schema.Argument, randomness: schema.Argument, values: Values
    ) -> Body:
        if argument_value(body, randomness, values, STRING).node.attributes.get("value") != "error":
            raise UnsupportedError("torch.vmap draws random numbers here", hint=_HINT)
        count = body.as_type(argument_value(body, size, values, INT), INT)
        loop = Loop(body, count, body.constant(True, BOOL), [])
        self._open.append(_Batch(body, loop, frozenset(values)))
        return loop.body

    def _innermost(self, level: schema.Argument) -> _Batch:
        if not self._open:
            raise FormatError("there is no batch here")
        batch = self._open[-1]
        if level.tag != "as_int" or batch.level not in (None, level.value):
            raise UnsupportedError("it is about a batch around the innermost one", hint=_HINT)
        batch.level = level.value
        return batch

    def _row(
        self,
        body: Body,
        tensor: schema.Argument,
        dim: schema.Argument,
        level: schema.Argument,
        values: Values,
    ) -> Value:
        counter = self._innermost(level).loop.counter
        given = argument_value(body, tensor, values, TENSOR)
        return body.value("aten::select", given, argument_value(body, dim, values, INT), counter)

    def _put_together(
        self,
        body: Body,
        node: schema.Node,
        tensor: schema.Argument,
        dim: schema.Argument,
        level: schema.Argument,
        values: Values,
    ) -> None:
        batch = self._innermost(level)
        rows = batch.outside.list_of(TENSOR, ())
        # The list is created before the loop that fills it.
        nodes = batch.outside.block.nodes
        nodes.insert(nodes.index(batch.loop.node), nodes.pop())
        body.call(_COLLECTING, rows, argument_value(body, tensor, values, TENSOR))
        along = argument_value(batch.outside, dim, values, INT)
        batch.results.append(_Result(rows, along, node.outputs))

    def _end(self, values: Values) -> Body:
        if not self._open:
            raise FormatError("there is no batch here")
        batch = self._open.pop()
        batch.loop.end(batch.loop.body.constant(True, BOOL), ())
        _check_writes(batch.loop.block)
        for name in values.keys() - batch.before:
            del values[name]
        for rows, dim, outputs in ((one.rows, one.dim, one.outputs) for one in batch.results):
            bind_results(
                batch.outside, outputs, [batch.outside.value("aten::stack", rows, dim)], values
            )
        return batch.outside


def _check_writes(turn: Block) -> None:
    """Refuse writes to tensors outside a batch, which torch performs once for all rows."""
    nodes = frozenset(node for node in turn.nodes if node.kind != _COLLECTING)
    aliases = Aliases(turn, nodes)
    for node in nodes:
        for place in aliases.written(node):
            if not (isinstance(place, Value) and place.node in nodes):
                raise UnsupportedError("torch.vmap writes to a tensor around it", hint=_HINT)
