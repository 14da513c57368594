"""Tuples that code makes and takes apart again, as the values in them."""

from __future__ import annotations

from functools import partial

from tsarchive.ir.graph import Block, Node, Value, carried_values
from tsarchive.ir.rewriting import remove, replace
from tsarchive.ir.types import TupleType

from .graphs import Inserter, each_node, sweep


def lower_tuples(graph: Block) -> None:
    """Let values stand for themselves, also those that loops carry in tuples."""
    each_node(graph, partial(_split_carried, {*graph.params}))
    each_node(graph, _take_apart)
    sweep(graph)


def _split_carried(given: set[Value], block: Block, loop: Node) -> None:
    """Let a loop carry the values of tuples beside the tuples, which nothing takes any more.

    Tuples are those that code has made, or was ``given``: others may be uninitialized.
    """
    if loop.kind != "prim::Loop":
        return
    (body,) = loop.blocks
    for carried in list(carried_values(loop)):
        if not isinstance(carried.first.type, TupleType) or not _is_made(carried.last):
            continue
        if not (carried.first in given or _is_made(carried.first)):
            continue
        elements = carried.first.type.elements
        for value in _unpacked(Inserter(block, loop), carried.first):
            loop.add_input(value)
        for value in _unpacked(Inserter(body, body.return_node), carried.last):
            body.add_return(value)
        params = [body.add_param(element) for element in elements]
        outputs = [loop.add_output(element) for element in elements]
        for old, values, where, before in (
            (carried.param, params, body, [*body.nodes, body.return_node][0]),
            (carried.output, outputs, block, _after(block, loop)),
        ):
            made = Inserter(where, before).node("prim::TupleConstruct", values, old.type)
            replace(old, made)


def _is_made(value: Value) -> bool:
    return value.node.kind == "prim::TupleConstruct"


def _after(block: Block, node: Node) -> Node:
    nodes = [*block.nodes, block.return_node]
    return nodes[nodes.index(node) + 1]


def _unpacked(inserter: Inserter, value: Value) -> list[Value]:
    assert isinstance(value.type, TupleType)
    return inserter.node("prim::TupleUnpack", [value], *value.type.elements).node.outputs


def _take_apart(block: Block, node: Node) -> None:
    """Let the values of a tuple stand for what is taken out of it."""
    if node.kind not in ("prim::TupleUnpack", "prim::TupleIndex"):
        return
    made = node.input.node
    if not _is_made(node.input):
        return
    if node.kind == "prim::TupleUnpack":
        pairs = list(zip(node.outputs, made.inputs, strict=True))
    else:
        place = node.inputs[1].constant
        if type(place) is not int:
            return
        pairs = [(node.output, made.inputs[place])]
    if all(value.type == item.type for value, item in pairs):
        for value, item in pairs:
            replace(value, item)
        remove(block, node)
