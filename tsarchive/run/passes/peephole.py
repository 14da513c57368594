"""Peephole simplifications of torch's executor, as facts about nodes.

* Adding the int 0 and multiplying by the int 1 is left out. The tensor itself takes the place of
  the result, so ``mask * 1`` of a bool tensor stays bool. This happens only where nobody can see
  that both are one tensor: neither is written to, and not both are known outside of the function.
* A constant tensor without dimensions acts as a Python number on the right-hand side of addition,
  subtraction, multiplication and division, which decides the dtype of the result.

A slice of all rows changes nothing for an operator right after it that takes rows or columns of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import pairwise

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.types import INT

from .alias_analysis import OUTSIDE, Aliases, Place
from .liveness import all_nodes, called_function

NumberOf = Callable[[Node], int | float | complex | None]
"""The number that the second operand of a node acts as, where it is a constant tensor."""

# The operators, as overloads for a number and for a tensor, and what they add or multiply by.
NEUTRAL = {"aten::add": 0, "aten::sub": 0, "aten::mul": 1}
_OVERLOADS = frozenset({"Scalar", "Tensor"})


class Identities:
    """Finds the nodes that are left out; one for all functions of an archive."""

    def __init__(self) -> None:
        self._called: dict[Function, bool | None] = {}

    def of(self, graph: Block, kept: Container[Node], number_of: NumberOf) -> set[Node]:
        """The nodes of ``graph`` whose result is their first operand, among those ``kept``."""
        nodes = [node for node in all_nodes(graph.nodes) if node in kept]
        candidates = [n for n in nodes if n.kind in NEUTRAL and _changes_nothing(n, number_of)]
        found: set[Node] = set()
        while len(found) < len(candidates):
            more = self._unseen(graph, nodes, candidates, found)
            if not more:
                break
            found |= more
        return found

    def _unseen(
        self, graph: Block, nodes: list[Node], candidates: list[Node], found: set[Node]
    ) -> set[Node]:
        """The candidates that can be left out beside ``found``, in torch's order."""
        aliases = Aliases(graph, set(nodes), passing=found, gives_new=self._gives_new)
        written = set().union(*map(aliases.written_tensors, nodes))
        known = aliases.known_outside().union(*map(aliases.places, graph.returns))
        more: set[Node] = set()
        changed: set[Place] = set()
        for node in candidates:
            before, after = aliases.places(node.inputs[0]), aliases.places(node.output)
            is_seen = not known.isdisjoint(before) and not known.isdisjoint(after)
            if node in found or is_seen or not (written | changed).isdisjoint(before | after):
                continue
            more.add(node)
            changed |= before | after
        return more

    def _gives_new(self, call: Node) -> bool | None:
        """Return whether a call makes its result; None where it may write to known tensors."""
        function = called_function(call)
        if function is None:
            return None
        original = function.original
        if original not in self._called:
            self._called[original] = None  # recursive functions are unknown
            graph = function.graph
            aliases = Aliases(graph, gives_new=self._gives_new)
            nodes = all_nodes(graph.nodes)
            if not any(OUTSIDE in aliases.written_tensors(node) for node in nodes):
                are_new = (OUTSIDE not in aliases.places(value) for value in graph.returns)
                self._called[original] = all(are_new)
        return self._called[original]


def _changes_nothing(node: Node, number_of: NumberOf) -> bool:
    neutral = NEUTRAL.get(node.kind)
    if neutral is None or node.schema is None or node.schema.overload not in _OVERLOADS:
        return False
    _, other, *alpha = node.inputs
    number = _int(other) if node.schema.overload == "Scalar" else number_of(node)
    is_neutral = type(number) is int and number == neutral
    return is_neutral and all(_int(value) == 1 for value in alpha)


def _int(value: Value) -> int | None:
    """The value of an int constant."""
    if value.node.is_constant and value.type == INT:
        return int(value.node.attributes["value"])
    return None


_SLICE = "aten::slice.Tensor"
_TAKING = frozenset({_SLICE, "aten::select.int"})
_END = (1 << 63) - 1


def whole_slices(graph: Block, live: Container[Node]) -> set[Node]:
    """The slices that leave all rows of a tensor, which only the next operator reads."""
    return set(_whole_slices(graph, live))


def _whole_slices(block: Block, live: Container[Node]) -> Iterator[Node]:
    running = [node for node in block.nodes if node in live and not node.is_constant]
    for node, after in pairwise(running):
        if node.operator == _SLICE and after.operator in _TAKING and _takes_all_rows(node):
            users = [user for user, position in node.output.uses if user is after and not position]
            if len(users) == len(node.output.uses):
                yield node
    for node in running:
        for inner in node.blocks:
            yield from _whole_slices(inner, live)


def _takes_all_rows(node: Node) -> bool:
    if node.upgrader is not None or node.stand_in is not None:
        return False
    given = [value.node for value in node.inputs[1:]]
    if not all(made.is_constant for made in given):
        return False
    dim, start, end, step = [made.attributes["value"] for made in given]
    return dim == 0 and start in (None, 0) and end in (None, _END) and step == 1
