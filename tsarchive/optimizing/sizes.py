"""Sizes that a trace computes with tensors, as numbers; equal sizes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Final

from tsarchive.ir.graph import Block, Node, Value, nested_blocks, walk
from tsarchive.ir.rewriting import remove, replace
from tsarchive.ir.types import BOOL, INT, STRING
from tsarchive.run.objects import as_number
from tsarchive.run.passes.sizes import (
    COMPUTING_INTS,
    Numbers,
    asks_truth,
    gives_number,
    makes_number,
    operands,
    operator_on_ints,
)

from .freezing import Written
from .graphs import Inserter, each_node, sweep, tensor_of

_ONCE: Final = frozenset({"aten::size.int", "aten::dim", *COMPUTING_INTS})


def size_numbers(graph: Block, done: Counter[str]) -> None:
    """Compute sizes with numbers, and equal ones once."""
    numbers, written = Numbers(_number), Written(graph)
    made = numbers.among(walk(graph.nodes))
    known: dict[Value, Value] = {}

    def visit(block: Block, node: Node) -> None:
        if node in made and not written.may_be(node.output):
            number = _computed(node, numbers, known, Inserter(block, node))
            if number is not None:
                known[node.output] = number
        elif node.inputs and node.input in known and gives_number(node, node.input.node):
            replace(node.output, _taken(node, known[node.input], Inserter(block, node)))
            remove(block, node)
            done["size as a number"] += 1

    each_node(graph, visit)
    sweep(graph)
    _share(graph, {}, written)
    sweep(graph)


def _number(value: Value) -> int | float | complex | None:
    return as_number(tensor_of(value))


def _computed(
    node: Node, numbers: Numbers, known: Mapping[Value, Value], inserter: Inserter
) -> Value | None:
    """Return the number in the tensor that a node gives; None where an operand has none."""
    if makes_number(node):
        return node.input
    given: list[Value] = []
    for value in operands(node):
        number = known.get(value)
        if number is None:
            constant = numbers.known(value)
            number = inserter.constant(constant) if constant is not None else value
        if number.type != INT:
            return None
        given.append(number)
    name = operator_on_ints(node)
    return None if name is None else inserter.operator(name, given)


def _taken(node: Node, number: Value, inserter: Inserter) -> Value:
    """Return what a node takes out of a tensor that holds a number."""
    if not asks_truth(node):
        return number
    return inserter.operator("aten::ne.int", [number, inserter.constant(0)])


def _share(block: Block, known: dict[Hashable, Value], written: Written) -> None:
    """Let equal numbers be one value, in a block and in those that follow from it."""
    for node in list(block.nodes):
        if node.operator in _ONCE and not any(map(_may_change(written), node.inputs)):
            key = node.operator, *map(_key, node.inputs)
            found = known.setdefault(key, node.output)
            if found is not node.output:
                replace(node.output, found)
                remove(block, node)
        for inner in nested_blocks(node):
            _share(inner, dict(known), written)


def _may_change(written: Written) -> Any:
    return lambda value: value.type not in (INT, BOOL, STRING) and written.may_be(value)


def _key(value: Value) -> Hashable:
    constant = value.constant
    return ("constant", constant) if type(constant) is int else value
