"""Live ranges of values, so that values of one name can share a variable.

Nodes are numbered in the order of the text. A value that a loop uses and that was made outside
of it is needed until the loop ends; what only the other branch of an ``if`` uses does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import NamedTuple

from tsarchive.ir.graph import Block, Node, Value


class Point(NamedTuple):
    """A place in a function: its number, and the blocks around it as (node, number of block)."""

    number: int
    path: tuple[tuple[Node, int], ...]


class LiveRanges:
    """The places of the nodes of one function.

    ``moves`` tells which nodes may be computed later than where they stand, where their result
    is used: what they use is needed until then.
    """

    def __init__(self, graph: Block, live: Container[Node], moves: Callable[[Node], bool]) -> None:
        self._live = live
        self._moves = moves
        self._points: dict[Node, Point] = {}
        self._ends: dict[Node, int] = {}
        self._next = 1
        self._number(graph, ())
        self._needed: dict[Value, tuple[Point, ...]] = {}

    def _number(self, block: Block, path: tuple[tuple[Node, int], ...]) -> None:
        self._place(block.param_node, path)
        for node in block.nodes:
            self._place(node, path)
            for index, inner in enumerate(node.blocks):
                self._number(inner, (*path, (node, index)))
            self._ends[node] = self._next
            self._next += 1
        self._place(block.return_node, path)

    def _place(self, node: Node, path: tuple[tuple[Node, int], ...]) -> None:
        self._points[node] = Point(self._next, path)
        self._next += 1

    def start(self, node: Node) -> Point:
        return self._points[node]

    def end(self, node: Node) -> Point:
        """The place behind the blocks of a node."""
        return self._points[node]._replace(number=self._ends[node])

    def is_needed_after(self, value: Value, point: Point) -> bool:
        return any(
            use.number > point.number and not _exclude(use.path, point.path)
            for use in self._uses(value)
        )

    def _uses(self, value: Value) -> tuple[Point, ...]:
        found = self._needed.get(value)
        if found is None:
            home = self._points[value.node].path
            found = tuple(self._outside_loops(use, home) for use in self._used_at(value))
            self._needed[value] = found
        return found

    def _used_at(self, value: Value) -> Iterator[Point]:
        for user, _ in value.uses:
            if user not in self._points or not (user in self._live or _is_return(user)):
                continue
            yield self._points[user]
            if self._moves(user):
                for output in user.outputs:
                    yield from self._uses(output)

    def _outside_loops(self, use: Point, home: tuple[tuple[Node, int], ...]) -> Point:
        """A use inside of a loop that does not hold the value's definition: the loop's end."""
        for depth in range(len(home), len(use.path)):
            node = use.path[depth][0]
            if node.kind == "prim::Loop":
                return self.end(node)
        return use


def _is_return(node: Node) -> bool:
    return node.kind == "prim::Return"


def _exclude(one: tuple[tuple[Node, int], ...], other: tuple[tuple[Node, int], ...]) -> bool:
    """Whether two places lie in different branches of one ``if``."""
    for (node, index), (other_node, other_index) in zip(one, other, strict=False):
        if node is not other_node:
            return False
        if index != other_index:
            return True
    return False
