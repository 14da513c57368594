"""Peephole simplifications of torch's executor, as facts about nodes.

* Adding the int 0 and multiplying by the int 1 is left out. The tensor itself takes the place of
  the result, so ``mask * 1`` of a bool tensor stays bool. This happens only where nobody can see
  that both are one tensor: neither is written to, and not both are known outside of the function.
* A constant tensor without dimensions acts as a Python number on the right-hand side of addition,
  subtraction, multiplication and division, which decides the dtype of the result.

A trace computes with sizes as tensors without dimensions: ``Int(NumToTensor(size(x, 0)))``. Where
nothing else can see such a tensor, generated code has the number itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import RETURN, Block, Node, Value
from tsarchive.ir.types import INT

from .alias_analysis import OUTSIDE, Aliases, Place
from .liveness import all_nodes, called_function

NumberOf = Callable[[Node], int | float | complex | None]
"""The number that the second operand of a node acts as, where it is a constant tensor."""

# The operators, as overloads for a number and for a tensor, and what they add or multiply by.
_NEUTRAL = {"aten::add": 0, "aten::sub": 0, "aten::mul": 1}
_OVERLOADS = frozenset({"Scalar", "Tensor"})


class Identities:
    """Finds the nodes that are left out; one for all functions of an archive."""

    def __init__(self) -> None:
        self._called: dict[Function, bool | None] = {}

    def of(self, graph: Block, kept: Container[Node], number_of: NumberOf) -> set[Node]:
        """The nodes of ``graph`` whose result is their first operand, among those ``kept``."""
        nodes = [node for node in all_nodes(graph.nodes) if node in kept]
        candidates = [node for node in nodes if _changes_nothing(node, number_of)]
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
    neutral = _NEUTRAL.get(node.kind)
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


DIVIDED = "aten::floor_divide"


def nodes_on_numbers(graph: Block, live: Container[Node], divisor_of: NumberOf) -> set[Node]:
    """The nodes that make tensors of ints, divide them and take the ints out.

    ``divisor_of`` tells the number that a constant tensor acts as. No tensor of theirs is left.
    """
    nodes = [node for node in all_nodes(graph.nodes) if node in live]
    made = {node for node in nodes if _may_be_number(node, divisor_of)}
    while seen := {node for node in made if not _is_unseen(node, made, live)}:
        made -= seen
    taking = {user for node in made for user, _ in node.output.uses if user in live}
    return made | taking


def _may_be_number(node: Node, divisor_of: NumberOf) -> bool:
    if node.kind == "prim::NumToTensor":
        return node.input.type == INT
    if node.kind != DIVIDED or node.schema is None or node.upgrader is not None:
        return False
    divisor = divisor_of(node)
    return isinstance(divisor, int) and divisor > 0


def _is_unseen(node: Node, made: Container[Node], live: Container[Node]) -> bool:
    """Return whether numbers suffice for the operands of ``node`` and the users of its result."""
    if node.kind == DIVIDED and node.inputs[0].node not in made:
        return False
    users = [use for use in node.output.uses if use.user in live or use.user.kind == RETURN]
    return all(
        (user.schema is not None and user.schema.full_name == "aten::Int.Tensor")
        or (user in made and not position)
        for user, position in users
    )
