"""Loops as the program had them: ``for`` with a count, ``while`` with its condition at the top.

The compiler's text has no loop with a count and a condition: it counts by hand, and asks at the
end of each turn whether ``count < limit & condition``. And it computes the condition of ``while``
twice, before the loop and at the end of its turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tsarchive.errors import ArchiveError
from tsarchive.ir.graph import (
    Block,
    Node,
    Value,
    carried_values,
    drop_carried,
    has_trip_count,
    is_constant_true,
    nested_blocks,
    walk,
)
from tsarchive.ir.rewriting import blocks_in, copy_node, replace, set_input
from tsarchive.ir.types import BOOL
from tsarchive.operators.effects import is_pure
from tsarchive.run.operators import implementation

from .flow import BREAK, CONTINUE, constant, sweep

_BOTH: Final = "aten::__and__.bool"


def recover_counts(graph: Block) -> None:
    """Let loops that count by hand have a count."""
    for block in list(blocks_in(graph)):
        for node in block.nodes:
            if node.kind == "prim::Loop" and not has_trip_count(node):
                _recover_count(block, node)
    sweep(graph)


def _recover_count(block: Block, loop: Node) -> None:
    (body,) = loop.blocks
    both = body.returns[0].node
    if both.operator != _BOTH or both.inputs[0].node.operator != "aten::lt.int":
        return
    counted, limit = both.inputs[0].node.inputs
    for index, carried in enumerate(carried_values(loop)):
        is_counter = carried.first.constant == 0 and carried.last is counted
        if is_counter and not carried.output.uses and _adds_one(counted.node, carried.param):
            first = _first_condition(block, loop, limit)
            if first is not None:
                _count(loop, index, limit, first, both.inputs[1])
            return


def _adds_one(node: Node, value: Value) -> bool:
    return node.operator == "aten::add.int" and node.input is value and node.inputs[1].constant == 1


def _first_condition(block: Block, loop: Node, limit: Value) -> Value | None:
    """Return the condition before the first turn, without ``limit > 0``; None for another one."""
    condition = loop.inputs[1]
    if _is_above_zero(condition, limit):
        return constant(block, True, BOOL)
    node = condition.node
    if node.operator == _BOTH and _is_above_zero(node.input, limit):
        return node.inputs[1]
    return None


def _is_above_zero(condition: Value, limit: Value) -> bool:
    number, node = limit.constant, condition.node
    if is_constant_true(condition):
        return isinstance(number, int) and number > 0
    return node.operator == "aten::gt.int" and node.input is limit and node.inputs[1].constant == 0


def _count(loop: Node, index: int, limit: Value, first: Value, condition: Value) -> None:
    """Let a loop have a count in the place of the value ``index`` that it carries."""
    (body,) = loop.blocks
    set_input(loop, 0, limit)
    set_input(loop, 1, first)
    set_input(body.return_node, 0, condition)
    replace(body.params[index + 1], body.params[0])
    drop_carried(loop, index)


def recover_headers(graph: Block) -> None:
    """Let loops compute their condition in one place, at the start of each turn."""
    for block in list(blocks_in(graph)):
        for node in block.nodes:
            if node.kind == "prim::Loop" and not has_trip_count(node):
                _recover_header(block, node)
    sweep(graph)


class _End:
    """A place where a turn ends and another may follow: its condition, and what it is given."""

    def __init__(self, block: Block, node: Node) -> None:
        self.block = block
        self.node = node
        self.condition, *self.carried = node.inputs


def _ends(loop: Node) -> Iterator[_End]:
    (body,) = loop.blocks
    yield _End(body, body.return_node)
    for block in blocks_in(body):
        for node in block.nodes:
            if node.kind == CONTINUE and node.attributes["loop"] is loop:
                yield _End(block, node)


def _recover_header(block: Block, loop: Node) -> None:
    """Compute the condition of a loop at its start, where all its ends compute the same."""
    firsts = [carried.first for carried in carried_values(loop)]
    params = loop.blocks[0].params[1:]
    ends = [end for end in _ends(loop) if end.condition.constant is not False]
    if any(end.condition.node.is_constant for end in ends) or not ends:
        return
    found = [_Twins(list(zip(firsts, end.carried, params, strict=True))) for end in ends]
    before = block.nodes[: block.nodes.index(loop)]
    if not all(
        twins.are_alike(loop.inputs[1], end.condition)
        and _are_last(before, twins.before)
        and _are_last(end.block.nodes, twins.behind)
        for twins, end in zip(found, ends, strict=True)
    ):
        return
    _put_header(loop, found[0], ends[0])
    for end in ends:
        set_input(end.node, 0, constant(end.block, True, BOOL))
    set_input(loop, 1, constant(block, True, BOOL))


def _put_header(loop: Node, twins: _Twins, end: _End) -> None:
    """Begin the body with the nodes of a condition, and with a way out where it is false."""
    (body,) = loop.blocks
    made = Block()
    values: dict[Value, Value] = dict(twins.begun)
    for node in end.block.nodes:
        if node in twins.behind:
            for value in _taken(node):
                values.setdefault(value, value)
            copy_node(node, made, values, keeps_places=True)
    branch = made.append("prim::If", [values.get(end.condition, end.condition)], place=loop.place)
    branch.add_block()
    left = branch.add_block().append(BREAK, body.params[1:], loop=loop, is_header=True)
    left.has_effects = True
    body.nodes[:0] = made.nodes


def _taken(node: Node) -> Iterator[Value]:
    """Yield all values that a node and those in it name, and that none of them makes."""
    made = {output for inner in walk([node]) for output in inner.outputs}
    for inner in walk([node]):
        yield from (value for value in inner.inputs if value not in made)
        for block in nested_blocks(inner):
            yield from (value for value in block.returns if value not in made)


def _are_last(nodes: Sequence[Node], wanted: set[Node]) -> bool:
    """Return whether ``wanted`` are among the nodes, and nothing behind them has an effect."""
    positions = [index for index, node in enumerate(nodes) if node in wanted]
    behind = nodes[positions[0] :] if positions else []
    return len(positions) == len(wanted) and all(
        inner.kind in ("prim::If", CONTINUE) or is_pure(inner) for inner in walk(behind)
    )


class _Twins:
    """Compares what is computed before a loop with what is computed at the end of its turns.

    ``rows`` are the values that the loop carries: first, at this end, and in the next turn.
    ``before`` and ``behind`` are the nodes that compute the two, without those in their blocks.
    ``begun`` has the values of the next turn by those at this end.
    """

    def __init__(self, rows: Sequence[tuple[Value, Value, Value]]) -> None:
        self._rows = rows
        self.before: set[Node] = set()
        self.behind: set[Node] = set()
        self.begun: dict[Value, Value] = {}

    def are_alike(self, first: Value, last: Value) -> bool:
        """Return whether ``last`` is computed from what turns leave as ``first`` is before them."""
        for before, after, param in self._rows:
            if after is last and (before is first or _are_equal(before, first)):
                self.begun[last] = param
                return True
        if first is last or _are_equal(first, last):
            return True
        if first.node.is_constant:
            return not last.node.is_constant and _are_equal(first, self._evaluated(last))
        return not last.node.is_constant and self._are_twins(first, last)

    def _are_twins(self, first: Value, last: Value) -> bool:
        one, two = first.node, last.node
        if _signature(one) != _signature(two) or not (two.kind == "prim::If" or is_pure(two)):
            return False
        if one.outputs.index(first) != two.outputs.index(last):
            return False
        if not all(map(self.are_alike, one.inputs, two.inputs)):
            return False
        self.before.add(one)
        self.behind.add(two)
        return all(map(self._are_alike_inside, one.blocks, two.blocks))

    def _are_alike_inside(self, one: Block, two: Block) -> bool:
        inner = _Twins(self._rows)
        inner.begun = self.begun
        if not all(map(inner.are_alike, one.returns, two.returns)):
            return False
        self.before |= inner.before.difference(one.nodes)
        self.behind |= inner.behind.difference(two.nodes)
        return all(node.is_constant or node in inner.behind for node in two.nodes)

    def _evaluated(self, last: Value) -> Value | None:
        """Return what ``last`` is before the first turn, if constants tell."""
        for before, after, param in self._rows:
            if after is last and before.node.is_constant:
                self.begun[last] = param
                return before
        node = last.node
        if node.is_constant or node.schema is None or not is_pure(node):
            return last if node.is_constant else None
        values = list(map(self._evaluated, node.inputs))
        if any(value is None or not isinstance(value.constant, _PLAIN) for value in values):
            return None
        self.behind.add(node)
        return _computed(node, [value.constant for value in values if value is not None])


def _computed(node: Node, values: Sequence[object]) -> Value | None:
    """Return the constant that an operator gives; None where it refuses its operands."""
    assert node.schema is not None
    try:
        found = implementation(node.schema)(*values)
    except (ArchiveError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return None
    return constant(Block(), found, node.output.type)


def _signature(node: Node) -> tuple[object, ...]:
    return node.kind, node.operator, node.attributes, len(node.inputs), len(node.blocks)


_PLAIN = bool | int | float | str


def _are_equal(one: Value, other: Value | None) -> bool:
    if other is None or not (one.node.is_constant and other.node.is_constant):
        return False
    first, second = one.constant, other.constant
    return type(first) is type(second) and isinstance(first, _PLAIN | None) and first == second
