"""The graph that the statements of a function are written from: a copy in which everything runs."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node, Value, carried_values, drop_carried, must_be_none
from tsarchive.ir.rewriting import blocks_in, copy_of, remove, replace
from tsarchive.ir.types import INT
from tsarchive.operators.effects import WITH_EFFECTS, operator_may_write
from tsarchive.run.passes.alias_analysis import Aliases
from tsarchive.run.passes.liveness import (
    CALLS,
    NOTHING,
    Effects,
    Liveness,
    called_function,
    known_result,
)
from tsarchive.run.passes.peephole import NumberOf

from .exits import recover_exits
from .flow import constant, text_of
from .iteration import recover_iterables
from .loops import recover_counts, recover_headers
from .operators import tensor_places
from .overflow_analysis import counters
from .program import Program

STORE: Final = "subscript::store"
"""The kind of a node that sets the part of a tensor that is its first input to the second."""
PUT: Final = "subscript::put"
"""The kind of a node that sets items of the tensor that is its first input to the last input.

Those between are the indices, in dimensions that follow the number that is ``leading``.
"""
PARTS: Final = frozenset({"aten::select.int", "aten::slice.Tensor"})
"""Operators that give a part of a tensor in its memory, and are subscripts in Python."""
_OF_NUMBERS: Final = frozenset({"aten::tensor.int", "aten::tensor.float", "aten::tensor.bool"})


@dataclass(frozen=True, slots=True)
class Prepared:
    """``unchanged`` are nodes whose result is their first operand, ``counters`` sums that count."""

    graph: Block
    unchanged: set[Node]
    counters: set[Node]


def prepared(graph: Block, program: Program, number_of: NumberOf) -> Prepared:
    """Return a copy of a graph with loops, and ways out of them, as the program had them.

    What the runner finds out about a graph it finds before, in the copy of the graph as it is.
    """
    copy = copy_of(graph, keeps_places=True)
    drop_repeated(copy, program.effects)
    live = Liveness(copy, program.effects)
    unchanged = program.identities.of(copy, live.nodes, number_of)
    aliases = Aliases(copy, live.nodes)
    counted = counters(live.nodes)
    prune(copy, live)
    recover_counts(copy)
    recover_headers(copy)
    recover_exits(copy)
    recover_headers(copy)
    recover_iterables(copy, aliases, program.container_writes)
    _recover_stores(copy)
    return Prepared(copy, unchanged, counted)


def drop_repeated(graph: Block, effects: Effects) -> None:
    """Take out calls whose results nothing uses and that follow once more.

    torch.jit compiles arguments again for each overload that it tries.
    """
    for block in blocks_in(graph):
        running = [node for node in block.nodes if not node.is_constant]
        for node, after in pairwise(running):
            is_unused = not any(output.uses for output in node.outputs)
            is_repeated = is_unused and node.kind == _CALL and _are_alike(node, after)
            if is_repeated and _only_raises(node, effects, set()):
                remove(block, node)


def _are_alike(node: Node, other: Node) -> bool:
    """Return whether two nodes compute the same of the same values."""
    if node.kind != other.kind or len(node.inputs) != len(other.inputs):
        return False
    pairs = zip(node.inputs, other.inputs, strict=True)
    return all(one is two or _are_same_constants(one.node, two.node) for one, two in pairs)


def _are_same_constants(one: Node, two: Node) -> bool:
    """Return whether both are constants of one value, as torch distinguishes 1, 1.0 and True."""
    if not (one.is_constant and two.is_constant and one.output.type == two.output.type):
        return False
    return one.attributes == two.attributes


def _only_raises(call: Node, effects: Effects, seen: set[Function]) -> bool:
    """Return whether a call does nothing but compute its result, or raise."""
    function = called_function(call)
    if function is None or function in seen:
        return False
    seen.add(function)
    return all(
        _only_raises(node, effects, seen) if node.kind in CALLS else _is_harmless(node, call)
        for node in Liveness(function.graph, effects, NOTHING).nodes
    )


def _is_harmless(node: Node, call: Node) -> bool:
    """Return whether a node that runs in a call has no effect outside of it, but that it raises."""
    if node.kind == _RAISE:
        return True
    if node.kind in WITH_EFFECTS or node.has_effects:
        return False
    if not operator_may_write(node):
        return True
    arguments = () if node.schema is None else node.schema.arguments
    written = [value for value, one in zip(node.inputs, arguments, strict=False) if one.is_write]
    return bool(written) and all(_is_own(value, call) for value in written)


def _is_own(value: Value, call: Node) -> bool:
    """Return whether a value in a call is a new list or dict, or an argument that is None."""
    while value.node.kind == "prim::unchecked_cast":
        value = value.node.input
    if value.node.kind in ("prim::ListConstruct", "prim::DictConstruct"):
        return True
    function = called_function(call)
    assert function is not None
    given = call.inputs[len(call.inputs) - len(function.graph.params) :]
    pairs = zip(function.graph.params, given, strict=True)
    return any(param is value and must_be_none(argument) for param, argument in pairs)


_CALL: Final = "prim::CallFunction"
_RAISE: Final = "prim::RaiseException"


def prune(block: Block, live: Liveness) -> None:
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
            prune(inner, live)
        result = known_result(node)
        if result is not None:
            known = result if node.output.type == INT else bool(result)
            replace(node.output, constant(block, known, node.output.type))
            remove(block, node)


def _recover_stores(graph: Block) -> None:
    """Let nodes of the kinds ``STORE`` and ``PUT`` take the place of what sets parts of tensors."""
    for block in blocks_in(graph):
        for node in list(block.nodes):
            if node.operator == "aten::copy_" and ".copy_(" not in text_of(node):
                _recover_store(block, node)
            elif node.operator == "aten::index_put_" and "index_put" not in text_of(node):
                _recover_put(block, node)


def _recover_store(block: Block, node: Node) -> None:
    part, stored, _ = node.inputs
    made = _of_number(part, stored)
    users = {user for user, _ in part.uses}
    is_part = part.node.operator in PARTS and part.name is None
    if node.output.uses or not is_part or users != {node, *made[1:]}:
        return
    store = Node(STORE, place=node.place)
    _put_in_place(block, store, [part, made[0].input if made else stored], [node, *made])


def _recover_put(block: Block, node: Node) -> None:
    base, indices, stored, accumulate = node.inputs
    places = tensor_places(indices)
    is_only_index = len(indices.uses) == 1 and indices.node in block.nodes
    if node.output.uses or accumulate.constant is not False or not (places and is_only_index):
        return
    made = _of_number(base, stored)
    put = Node(PUT, attributes={"leading": places[0]}, place=node.place)
    tensors = [indices.node.inputs[place] for place in places]
    inputs = [base, *tensors, made[0].input if made else stored]
    _put_in_place(block, put, inputs, [node, *made, indices.node])


def _put_in_place(block: Block, made: Node, inputs: list[Value], others: list[Node]) -> None:
    """Put a node with these inputs where the first of others is, which are taken out."""
    for value in inputs:
        made.add_input(value)
    block.nodes.insert(block.nodes.index(others[0]), made)
    for one in others:
        remove(block, one)


def _of_number(part: Value, stored: Value) -> list[Node]:
    """Return the nodes that make a number a tensor as ``part`` is one; none for other values.

    The first takes what the others tell of the part: its dtype and its device.
    """
    node = stored.node
    if node.operator not in _OF_NUMBERS or len(stored.uses) > 1:
        return []
    told = [value.node for value in node.inputs[1:3]]
    if [one.kind for one in told] != ["prim::dtype", "prim::device"]:
        return []
    is_told = all(one.input is part and len(one.output.uses) == 1 for one in told)
    return [node, *told] if is_told else []


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
