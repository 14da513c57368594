"""Graphs in which loops and functions are left on the way, and what can be taken out of them.

Beside the nodes of every graph they have:

* ``prim::BreakStmt``     inputs: the values that the loop gives
* ``prim::ContinueStmt``  inputs: the condition of the next turn, and the values that it begins with
* ``prim::ReturnStmt``    inputs: the result of the function

The attribute ``loop`` is the loop of the first two. A branch that ends with one of them has no
results, and what the other branch held stands behind the ``if``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tsarchive.ir.graph import (
    CONSTANT,
    Block,
    Carried,
    Node,
    Value,
    carried_values,
    drop_carried,
    is_constant_true,
    walk,
)
from tsarchive.ir.rewriting import remove, replace
from tsarchive.ir.types import Type
from tsarchive.operators.effects import is_pure

BREAK: Final = "prim::BreakStmt"
CONTINUE: Final = "prim::ContinueStmt"
RETURN: Final = "prim::ReturnStmt"
EXITS: Final = frozenset({BREAK, CONTINUE, RETURN})


def exits_of(loop: Node) -> Iterator[Node]:
    """Yield the nodes that leave a loop or its turn."""
    for node in walk(loop.blocks[0].nodes):
        if node.attributes.get("loop") is loop:
            yield node


def is_left(block: Block) -> bool:
    """Return whether control never reaches the end of a block."""
    last = next((node for node in reversed(block.nodes) if node.kind != "prim::Exit"), None)
    return last is not None and last.kind in EXITS


def is_endless(loop: Node) -> bool:
    """Return whether nothing but a way out ends a loop, beside its count."""
    return is_constant_true(loop.inputs[1]) and is_constant_true(loop.blocks[0].returns[0])


def carried_at(exit_: Node, offset: int) -> int | None:
    """Return which value of its loop a way out gives as an input; None for other inputs."""
    if exit_.kind == BREAK:
        return offset
    return offset - 1 if exit_.kind == CONTINUE and offset > 0 else None


def text_of(node: Node) -> str:
    """Return the line of the original program that a node comes from; "" where it is not known."""
    location = None if node.range is None else node.range.location
    return "" if location is None else location.text


def constant(block: Block, value: Any, type_: Type) -> Value:
    """Return a new constant at the start of a block."""
    node = Node(CONSTANT, attributes={"value": value})
    block.nodes.insert(0, node)
    return node.add_output(type_)


def uninitialized(block: Block, type_: Type) -> Value:
    """Return a value at the start of a block that nothing reads."""
    node = Node("prim::Uninitialized")
    block.nodes.insert(0, node)
    return node.add_output(type_)


def sweep(block: Block) -> None:
    """Take out results that are not used, in a block and those in it, until nothing is left."""
    while _sweep(block):
        pass


def _sweep(block: Block) -> bool:
    changed = False
    for node in reversed(list(block.nodes)):
        for inner in node.blocks:
            changed |= _sweep(inner)
        if node.kind == "prim::If":
            changed |= _simplify_if(block, node)
        elif node.kind == "prim::Loop":
            changed |= _simplify_loop(node)
        elif not any(output.uses for output in node.outputs) and is_pure(node):
            remove(block, node)
            changed = True
    return changed


def _simplify_if(block: Block, node: Node) -> bool:
    known = node.input.constant
    if isinstance(known, bool):
        take_branch(block, node, node.blocks[0 if known else 1])
        return True
    changed = False
    for index in reversed(range(len(node.outputs))):
        output = node.outputs[index]
        given = [inner.returns[index] for inner in node.blocks if not is_left(inner)]
        same = _same(given, output) if output.uses else None
        if output.uses and same is None:
            continue
        if same is not None:
            replace(output, _above(block, same))
        for inner in node.blocks:
            inner.return_node.drop_input(index)
        del node.outputs[index]
        changed = True
    if not node.outputs and not any(inner.nodes for inner in node.blocks):
        remove(block, node)
        return True
    return changed


def take_branch(block: Block, node: Node, taken: Block) -> None:
    """Put a branch in the place of its if."""
    for output, value in zip(node.outputs, taken.returns, strict=True):
        replace(output, value)
    position = block.nodes.index(node)
    block.nodes[position + 1 : position + 1] = taken.nodes
    taken.nodes.clear()
    remove(block, node)


def _same(given: Sequence[Value], result: Value) -> Value | None:
    """Return the one value that branches give, also under other static types; None for several.

    Constants that a variable gets stay its own.
    """
    first = _uncast(given[0])
    if len(given) > 1 and all(_uncast(value) is first for value in given):
        return first if first.type == result.type else None
    is_one = result.name is None and all(_are_equal(given[0], value) for value in given)
    return given[0] if is_one else None


def _uncast(value: Value) -> Value:
    while value.node.kind == "prim::unchecked_cast":
        value = value.node.input
    return value


def _are_equal(one: Value, other: Value) -> bool:
    if one.node.is_constant and other.node.is_constant and one.type == other.type:
        first, second = one.constant, other.constant
        return isinstance(first, bool | None) and first is second
    return one.node.kind == other.node.kind == "prim::Uninitialized"


def _above(block: Block, value: Value) -> Value:
    """Return the value, made anew in ``block`` where it may stand in a block inside of it."""
    if value.node.is_constant:
        return constant(block, value.constant, value.type)
    if value.node.kind == "prim::Uninitialized":
        return uninitialized(block, value.type)
    return value


def _simplify_loop(loop: Node) -> bool:
    return any([_simplify_carried(loop, *row) for row in _rows(loop)])


def _rows(loop: Node) -> list[tuple[int, Carried]]:
    return list(enumerate(carried_values(loop)))[::-1]


def _simplify_carried(loop: Node, index: int, carried: Carried) -> bool:
    """Take out a value that all turns of a loop leave as it is, or that nothing reads."""
    first, param, last, output = carried
    exits = list(exits_of(loop))
    turns = [last, *(node.inputs[index + 1] for node in exits if node.kind == CONTINUE)]
    given = [*turns, *(node.inputs[index] for node in exits if node.kind == BREAK)]
    if output.uses and all(_stays(value, carried) for value in given):
        replace(output, first)
    is_flag = param.name is None and output.name is None
    if (is_flag or not output.uses) and all(_stays(value, carried) for value in turns):
        replace(param, first)
    if output.uses or any(not _passes_on(user, offset, index) for user, offset in param.uses):
        return False
    replace(param, first)
    for node in exits:
        node.drop_input(index if node.kind == BREAK else index + 1)
    drop_carried(loop, index)
    return True


def _stays(value: Value, carried: Carried) -> bool:
    is_first = value is carried.param or value is carried.first
    return is_first or (carried.output.name is None and _are_equal(value, carried.first))


def _passes_on(user: Node, offset: int, index: int) -> bool:
    """Return whether a use of a carried value only keeps it for the next turn."""
    if user.kind == "prim::Return":
        return offset == index + 1
    return carried_at(user, offset) == index
