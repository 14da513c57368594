"""The graph that the statements of a function are written from: a copy in which everything runs."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tsarchive.ir.graph import Block, Node, Value, carried_values, drop_carried
from tsarchive.ir.rewriting import copy_of, remove, replace
from tsarchive.ir.types import INT
from tsarchive.run.passes.alias_analysis import Aliases
from tsarchive.run.passes.liveness import Liveness, known_result
from tsarchive.run.passes.peephole import NumberOf

from .exits import recover_exits
from .flow import constant
from .iteration import recover_iterables
from .loops import recover_counts, recover_headers
from .program import Program


@dataclass(frozen=True, slots=True)
class Prepared:
    """``unchanged`` are nodes whose result is their first operand."""

    graph: Block
    unchanged: set[Node]


def prepared(graph: Block, program: Program, number_of: NumberOf) -> Prepared:
    """Return a copy of a graph with loops, and ways out of them, as the program had them.

    What the runner finds out about a graph it finds before, in the copy of the graph as it is.
    """
    copy = copy_of(graph, keeps_places=True)
    live = Liveness(copy, program.effects)
    unchanged = program.identities.of(copy, live.nodes, number_of)
    aliases = Aliases(copy, live.nodes)
    _prune(copy, live)
    recover_counts(copy)
    recover_headers(copy)
    recover_exits(copy)
    recover_headers(copy)
    recover_iterables(copy, aliases, program.container_writes)
    return Prepared(copy, unchanged)


def _prune(block: Block, live: Liveness) -> None:
    """Take out what does not run, and results that nothing uses."""
    for node in reversed(list(block.nodes)):
        if node.is_constant:
            continue
        if node not in live.nodes:
            remove(block, node)
            continue
        if node.kind == "prim::If":
            _drop_results(node, live.values)
        elif node.kind == "prim::Loop":
            _drop_carried(node, live.values)
        for inner in node.blocks:
            _prune(inner, live)
        result = known_result(node)
        if result is not None:
            known = result if node.output.type == INT else bool(result)
            replace(node.output, constant(block, known, node.output.type))
            remove(block, node)


def _drop_results(node: Node, live: Container[Value]) -> None:
    for index in reversed(range(len(node.outputs))):
        if node.outputs[index] not in live:
            for inner in node.blocks:
                inner.return_node.drop_input(index)
            del node.outputs[index]


def _drop_carried(node: Node, live: Container[Value]) -> None:
    for index, carried in reversed(list(enumerate(carried_values(node)))):
        if carried.output not in live and carried.param not in live:
            drop_carried(node, index)
