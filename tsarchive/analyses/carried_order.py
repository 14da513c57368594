"""The order of the values that come out of conditions and loops.

torch orders them by the names of their variables, which other releases and a graph made of a module
name otherwise. Here they have the order in which the text first uses them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tsarchive.ir.graph import Block, Node, Use, Value, carried_index, nested_blocks

_Place: TypeAlias = tuple[float, int]

_IF: Final = "prim::If"
_LOOP: Final = "prim::Loop"
_NOWHERE: Final[_Place] = (math.inf, 0)


class _Returned(NamedTuple):
    """The node whose block ends, and the number of its first returned value that is an output."""

    node: Node
    first: int


class CarriedOrder:
    """The order of the outputs of each condition and loop of a graph.

    Of two outputs the first is the one that is used first; of a loop, first inside of it. Outputs
    that nothing uses come last, in the order in which they are.
    """

    def __init__(self, graph: Block) -> None:
        self._places: dict[Node, int] = {}
        self._returned: dict[Node, _Returned] = {}
        self._ranks: dict[Node, Sequence[int]] = {}
        for node in reversed(self._walk(graph)):
            # What comes later and what stands around the node is known already.
            keys = [self._key(node, index) for index in range(len(node.outputs))]
            order = sorted(range(len(keys)), key=keys.__getitem__)
            self._ranks[node] = _inverse(order)

    def of(self, node: Node) -> Sequence[int]:
        """Return the numbers of the outputs of a condition or loop, in order."""
        return _inverse(self._ranks[node])

    def _walk(self, block: Block) -> list[Node]:
        """Give nodes and ends of blocks their places; return conditions and loops by their ends."""
        found: list[Node] = []
        for node in block.nodes:
            self._places[node] = len(self._places)
            for inner in nested_blocks(node):
                found += self._walk(inner)
                if is_carrying(node):
                    self._returned[inner.return_node] = _Returned(node, int(node.kind == _LOOP))
            if is_carrying(node):
                found.append(node)
        self._places[block.return_node] = len(self._places)
        return found

    def _key(self, node: Node, index: int) -> tuple[_Place, _Place]:
        inside = _NOWHERE
        if node.kind == _LOOP:
            (body,) = node.blocks
            own = (use for use in body.params[index + 1].uses if use.user is not body.return_node)
            inside = (min((self._places[use.user] for use in own), default=math.inf), 0)
        return inside, self._first(node.outputs[index].uses)

    def _first(self, uses: Iterable[Use]) -> _Place:
        return min(map(self._place, uses), default=_NOWHERE)

    def _place(self, use: Use) -> _Place:
        """Return where a value is used: the place of the user, and which of its inputs it is."""
        return self._places[use.user], self._slot(*use)

    def _slot(self, user: Node, offset: int) -> int:
        returned = self._returned.get(user)
        if returned is not None and offset >= returned.first:
            return returned.first + self._rank(returned.node, offset - returned.first)
        carried = carried_index(user, offset)
        if carried is not None:
            return offset - carried + self._rank(user, carried)
        return offset

    def _rank(self, node: Node, index: int) -> int:
        return self._ranks[node][index]


def is_carrying(node: Node) -> bool:
    """Return whether values come out of the blocks of a node, as of a condition or a loop."""
    return node.kind in (_IF, _LOOP)


def _inverse(order: Sequence[int]) -> Sequence[int]:
    found = [0] * len(order)
    for rank, index in enumerate(order):
        found[index] = rank
    return found


def reordered(values: Sequence[Value], order: Sequence[int]) -> list[Value]:
    """Return values whose last ones are those of a condition or loop, these in another order."""
    first = len(values) - len(order)
    return [*values[:first], *(values[first + index] for index in order)]
