"""Choice of the nodes that are printed inside the expression that uses them.

A node may be inlined when reading the printed expression back emits nodes in the order they have
now. A parser emits arguments left to right and then the operator; so walking inputs right to left
beside the list of nodes, last to first, must meet each inlined producer exactly in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from tsarchive.ir.graph import RETURN, Block, Node, Value, carried_index

# The bodies of these may use an input more than once.
_CAPTURING = frozenset({"prim::fork", "prim::rpc_async", "prim::rpc_sync", "prim::rpc_remote"})


def inlined_nodes(body: Block) -> set[Node]:
    """Return the nodes of ``body`` and its nested blocks that need no statement of their own."""
    return _Scan(body).inlined


def can_inline(value: Value) -> bool:
    node = value.node
    if len(node.outputs) != 1 or len(value.uses) != 1 or node.blocks:
        return False
    user, offset = value.uses[0]
    if value.name is not None and user.kind != RETURN:
        return False
    if carried_index(user, offset) is not None:
        return False
    # Reading back an isinstance inside a condition would refine types once more.
    return user.kind not in _CAPTURING and node.kind != "prim::isinstance"


@dataclass(slots=True)
class _Visit:
    """A node whose inputs below ``next_input`` are yet to be matched against ``cursor``."""

    node: Node
    cursor: Node | None
    next_input: int


class _Scan:
    def __init__(self, body: Block) -> None:
        self.inlined: set[Node] = set()
        self.before: dict[Node, Node | None] = {}
        self._scan_block(body)

    def _scan_block(self, block: Block) -> None:
        self._note_predecessors(block)
        self._scan_node(block.return_node)
        for node in reversed(block.nodes):
            self._scan_node(node)

    def _note_predecessors(self, block: Block) -> None:
        previous: Node | None = None
        for node in (*block.nodes, block.return_node):
            self.before[node] = previous
            if not node.is_constant:
                previous = node

    def _enter(self, node: Node) -> _Visit:
        for block in node.blocks:
            self._scan_block(block)
        return _Visit(node, self.before[node], len(node.inputs))

    def _scan_node(self, start: Node) -> None:
        if start in self.inlined:
            return
        stack = [self._enter(start)]
        while stack:
            visit = stack[-1]
            if visit.next_input == 0:
                stack.pop()
                if stack:
                    self.inlined.add(visit.node)
                    stack[-1].cursor = visit.cursor
                continue
            visit.next_input -= 1
            value = visit.node.inputs[visit.next_input]
            if value.node is visit.cursor and can_inline(value):
                stack.append(self._enter(value.node))
            elif value.node.is_constant:
                self.inlined.add(value.node)


def constants_in_order(body: Block) -> list[Node]:
    """Return the constants used in ``body`` by first use; fork bodies have their own."""
    found: dict[Node, None] = {}

    def visit(block: Block) -> None:
        for node in (*block.nodes, block.return_node):
            for value in node.inputs:
                if value.node.is_constant:
                    found.setdefault(value.node)
            for inner in node.blocks:
                visit(inner)

    visit(body)
    return list(found)
