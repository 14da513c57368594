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
_Uses: TypeAlias = tuple[_Place, ...]

_IF: Final = "prim::If"
_LOOP: Final = "prim::Loop"
_NOWHERE: Final[_Uses] = ((math.inf, 0),)


class _Returned(NamedTuple):
    """The node whose block ends, and the number of its first returned value that is an output."""

    node: Node
    first: int


class CarriedOrder:
    """The order of the outputs of each condition and loop of a graph.

    Of two outputs the first is the one that is used first; of a loop, first inside of it. Outputs
    that nothing uses come last, in the order in which they are.

    Where a use is itself to be ordered, as an initial value of a loop inside, outputs may share a
    rank at first. They are told apart by the ranks of their uses, again until nothing changes.
    """

    def __init__(self, graph: Block) -> None:
        self._places: dict[Node, int] = {}
        self._returned: dict[Node, _Returned] = {}
        self._ranks: dict[Node, Sequence[int]] = {}
        nodes = self._walk(graph)
        for node in nodes:
            self._ranks[node] = [0] * len(node.outputs)
        # What comes later and what stands around a node is known before it.
        shared = nodes[::-1]
        while shared:
            refined = [node for node in shared if self._is_refined(node)]
            shared = [node for node in shared if _has_ties(self._ranks[node])] if refined else []

    def _is_refined(self, node: Node) -> bool:
        """Tell outputs of one rank apart by their uses; return whether any differ."""
        before = self._ranks[node]
        keys = [(rank, self._key(node, index)) for index, rank in enumerate(before)]
        places = {key: place for place, key in reversed([*enumerate(sorted(keys))])}
        self._ranks[node] = [places[key] for key in keys]
        return self._ranks[node] != before

    def of(self, node: Node) -> Sequence[int]:
        """Return the numbers of the outputs of a condition or loop, in order."""
        ranks = self._ranks[node]
        return sorted(range(len(ranks)), key=ranks.__getitem__)

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

    def _key(self, node: Node, index: int) -> tuple[_Uses, _Uses]:
        inside: _Uses = _NOWHERE
        if node.kind == _LOOP:
            (body,) = node.blocks
            own = (use for use in body.params[index + 1].uses if use.user is not body.return_node)
            inside = self._uses(own)
        return inside, self._uses(node.outputs[index].uses)

    def _uses(self, uses: Iterable[Use]) -> _Uses:
        """Return where a value is used, the first use first."""
        return tuple(sorted(map(self._place, uses))) or _NOWHERE

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


def _has_ties(ranks: Sequence[int]) -> bool:
    return len({*ranks}) < len(ranks)


def reordered(values: Sequence[Value], order: Sequence[int]) -> list[Value]:
    """Return values whose last ones are those of a condition or loop, these in another order."""
    first = len(values) - len(order)
    return [*values[:first], *(values[first + index] for index in order)]
