"""Ways out of loops and functions: ``break``, ``continue`` and ``return`` in the place of flags.

The compiler has none of these. A branch that leaves gives a flag, and what follows asks for it:
``if done: pass else: rest``. From the end of such a branch constants tell the way to the end of the
loop or the function, and a node of ``flow`` that leaves takes the place of this way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tsarchive.ir.graph import Block, Node, Value, walk
from tsarchive.ir.rewriting import remove, replace, set_input
from tsarchive.ir.types import BOOL
from tsarchive.operators.effects import COMPUTING

from .flow import BREAK, CONTINUE, EXITS, RETURN, constant, is_left, sweep, text_of, uninitialized

HAS_ELSE: Final = "has_else"
"""The attribute of an if that tells whether all that follows it was its other branch: where code
stood behind the if, a flag decided that it did not run."""
# Without text, a branch of fewer operations is part of an expression.
_LARGE: Final = 6
_STATEMENT: Final = ("if ", "if(", "elif ", "elif(")


def recover_exits(graph: Block) -> None:
    """Put nodes that leave in the place of the flags of a function, as long as there are some."""
    while _thread_one(graph):
        _settle(graph, graph)
        sweep(graph)


class _Owner(NamedTuple):
    """The node whose block something is, the block that the node stands in, and its position."""

    node: Node
    block: Block
    position: int


class _Exit(NamedTuple):
    """A way out: its kind, the loop that it leaves, what it gives, and how many flags it sets."""

    kind: str
    loop: Node | None
    values: Sequence[Value | None]
    decisions: int


def _owners(block: Block) -> dict[Block, _Owner]:
    """Return the owners of all blocks inside, in the order of the text."""
    found: dict[Block, _Owner] = {}
    for position, node in enumerate(block.nodes):
        for inner in node.blocks:
            found[inner] = _Owner(node, block, position)
            found |= _owners(inner)
    return found


def _thread_one(graph: Block) -> bool:
    """Let the first branch leave of which all flags are known; false where there is none."""
    owners = _owners(graph)
    for block, owner in owners.items():
        if owner.node.kind != "prim::If" or is_left(block) or _is_expression(owner.node):
            continue
        found = _way_out(graph, owners, block)
        if found is not None:
            owner.node.attributes[HAS_ELSE] = found.kind == RETURN and not found.decisions
            _leave(block, found)
            return True
    return False


def _way_out(graph: Block, owners: dict[Block, _Owner], block: Block) -> _Exit | None:
    """Return how a branch leaves: the furthest way of those that a flag decides."""
    chosen = None
    for exit_ in _Path(graph, owners).ways(block):
        if None not in exit_.values and _is_meant(exit_, owners[block], block):
            chosen = exit_
    return chosen


def _is_meant(exit_: _Exit, owner: _Owner, block: Block) -> bool:
    """Return whether the program had a statement for a way out, as far as its graph tells."""
    if exit_.decisions or exit_.kind == BREAK:
        return True
    first, second = owner.node.blocks
    if block is not first or is_left(second):
        return False
    if exit_.loop is not None:
        is_check = bool(second.nodes) and second.nodes[-1].kind == "prim::RaiseException"
        goes_on = not is_check and _goes_on(exit_.loop, exit_.values[1:])
        return goes_on and _does_nothing(block)
    return bool(owner.node.outputs) and _returns(owner.node)


def _does_nothing(block: Block) -> bool:
    return all(node.is_constant for node in block.nodes)


def _goes_on(loop: Node, values: Sequence[Value | None]) -> bool:
    """Return whether the next turn of a loop begins with what this one began with."""
    params = loop.blocks[0].params[1:]
    return all(value is param for value, param in zip(values, params, strict=True))


def _returns(node: Node) -> bool:
    """Return whether the branches of an if at the end of a function return by themselves."""
    if any(output.name is not None for output in node.outputs):
        return False
    text = text_of(node)
    if text:
        return text.startswith(_STATEMENT)
    return sum(not inner.is_constant for inner in walk([node])) > _LARGE


def _is_expression(node: Node) -> bool:
    """Return whether an if computes ``a and b`` or the like.

    A constant for the next turn of a loop in either branch is a break, and no expression.
    """
    if len(node.outputs) != 1 or node.output.type != BOOL or node.output.name is not None:
        return False
    if not all(_is_idle(inner) for block in node.blocks for inner in walk(block.nodes)):
        return False
    is_constant = all(block.returns[0].node.is_constant for block in node.blocks)
    return not (is_constant and all(user.kind == "prim::Return" for user, _ in node.output.uses))


def _is_idle(node: Node) -> bool:
    return not (node.has_effects or node.kind == "prim::Loop" or node.kind in EXITS)


class _Path:
    """What happens behind the end of a branch, as far as constants decide it."""

    def __init__(self, graph: Block, owners: dict[Block, _Owner]) -> None:
        self._graph = graph
        self._owners = owners
        # What values are on this path; None for those that are computed on the way.
        self._values: dict[Value, Value | None] = {}
        self._decisions = 0

    def ways(self, block: Block) -> Iterator[_Exit]:
        """Yield the ways out of the loops and the function, the nearest first."""
        is_inner = True
        while block is not self._graph:
            node, outer, position = self._owners[block]
            results = list(map(self._value, block.returns))
            if node.kind == "prim::Loop":
                is_over = self._is_over(block)
                if is_inner:
                    kind, given = (BREAK, results[1:]) if is_over else (CONTINUE, results)
                    yield _Exit(kind, node, given, self._decisions)
                if not is_over:
                    return
                # A flag that is asked for inside of the loop does not lead out of the function.
                is_inner, results, self._decisions = False, results[1:], 0
            self._values.update(zip(node.outputs, results, strict=True))
            if not self._passes(outer.nodes[position + 1 :]):
                return
            block = outer
        if is_inner or self._decisions:
            yield _Exit(RETURN, None, list(map(self._value, block.returns)), self._decisions)

    def _is_over(self, body: Block) -> bool:
        """Return whether no turn of a loop follows, which a constant tells that was a flag."""
        condition = body.returns[0]
        if condition.name is not None or condition.node.is_constant:
            return False
        found = self._value(condition)
        return found is not None and found.constant is False

    def _value(self, value: Value) -> Value | None:
        return self._values.get(value, value)

    def _passes(self, nodes: Sequence[Node]) -> bool:
        """Go on through nodes that do nothing; false where one does something."""
        return all(map(self._pass, nodes))

    def _pass(self, node: Node) -> bool:
        if node.kind == "prim::If":
            return self._branch(node)
        if node.is_constant or node.kind == "prim::Exit":
            return True
        self._values.update(dict.fromkeys(node.outputs))
        return node.kind in COMPUTING

    def _branch(self, node: Node) -> bool:
        """Go on through the branch that a flag decides; variables of the program decide nothing."""
        found = self._value(node.input)
        known = None if found is None or node.input.name is not None else found.constant
        if not isinstance(known, bool):
            self._values.update(dict.fromkeys(node.outputs))
            return all(inner.kind in COMPUTING for inner in walk(node.blocks[0].nodes)) and all(
                inner.kind in COMPUTING for inner in walk(node.blocks[1].nodes)
            )
        self._decisions += known
        taken = node.blocks[0 if known else 1]
        if not self._passes(taken.nodes):
            return False
        self._values.update(zip(node.outputs, map(self._value, taken.returns), strict=True))
        return True


def _leave(block: Block, exit_: _Exit) -> None:
    """Let a branch end with a way out."""
    attributes = {} if exit_.loop is None else {"loop": exit_.loop}
    made = Node(exit_.kind, attributes=attributes, has_effects=True)
    for value in exit_.values:
        assert value is not None
        made.add_input(value)
    block.nodes.append(made)


def _settle(block: Block, graph: Block) -> None:
    """Put what follows a branch that is left behind its ``if``, and remove what never runs."""
    position = 0
    while position < len(block.nodes):
        node = block.nodes[position]
        for inner in node.blocks:
            _settle(inner, graph)
        if node.kind == "prim::If" and any(map(is_left, node.blocks)):
            _settle_if(block, position)
        elif node.kind == "prim::Loop":
            _end_turn(node)
        elif node.kind in EXITS:
            _cut(block, position + 1)
        position += 1
    if block is graph and block.nodes and block.nodes[-1].kind == RETURN:
        _end_with(block, block.nodes[-1])


def _settle_if(block: Block, position: int) -> None:
    """Put what follows the branch that is left behind the if, where it reads as an exception.

    Where the second branch leaves and the first does something, both stay.
    """
    node = block.nodes[position]
    first, second = node.blocks
    if is_left(first):
        _hoist(block, node, second)
    elif _does_nothing(first):
        _hoist(block, node, first)
    else:
        for offset, value in enumerate(second.returns):
            if value.node.kind != "prim::Uninitialized":
                set_input(second.return_node, offset, uninitialized(second, value.type))


def _hoist(block: Block, node: Node, other: Block) -> None:
    """Move the nodes of the branch that goes on behind the if, whose results they give."""
    for output, value in zip(node.outputs, other.returns, strict=True):
        replace(output, value)
    node.outputs.clear()
    for inner in node.blocks:
        inner.return_node.drop_inputs()
    behind = block.nodes.index(node) + 1
    block.nodes[behind:behind] = other.nodes
    other.nodes.clear()


def _cut(block: Block, position: int) -> None:
    """Remove what stands behind a way out, but the end of a ``with``."""
    for node in reversed(block.nodes[position:]):
        if node.kind != "prim::Exit":
            for output in node.outputs:
                if output.uses:
                    replace(output, constant(block, None, output.type))
            remove(block, node)


def _end_turn(loop: Node) -> None:
    """Let a loop whose body ends with a way out of it end there by itself."""
    (body,) = loop.blocks
    last = body.nodes[-1] if body.nodes else None
    if last is None or last.attributes.get("loop") is not loop:
        return
    if last.kind == BREAK:
        last.inputs.insert(0, constant(body, False, BOOL))
    _end_with(body, last)


def _end_with(block: Block, last: Node) -> None:
    """Let a block give what the way out at its end gives."""
    values = list(last.inputs)
    for offset, value in enumerate(values):
        set_input(block.return_node, offset, value)
    block.nodes.remove(last)
    for value in values:
        value.uses = [use for use in value.uses if use.user is not last]
