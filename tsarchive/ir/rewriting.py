"""Changes of graphs: values put in the place of others, nodes taken out, copies."""

from __future__ import annotations

from collections.abc import Iterator

from .graph import Block, Node, Placed, Use, Value, nested_blocks


def replace(value: Value, other: Value) -> None:
    """Let all that uses a value use another."""
    for user, offset in value.uses:
        user.inputs[offset] = other
    other.uses += value.uses
    value.uses.clear()


def set_input(node: Node, offset: int, value: Value) -> None:
    node.inputs[offset].uses.remove(Use(node, offset))
    node.inputs[offset] = value
    value.uses.append(Use(node, offset))


def blocks_in(block: Block) -> Iterator[Block]:
    """Yield a block and all that are nested in it."""
    yield block
    for node in block.nodes:
        for inner in nested_blocks(node):
            yield from blocks_in(inner)


def remove(block: Block, node: Node) -> None:
    """Take out a node whose results nothing uses, and all that is in it."""
    _drop_uses(node)
    block.nodes.remove(node)


def _drop_uses(node: Node) -> None:
    """Remove the uses that a node and those in it make of values.

    What stands in a closure stands in the fork that runs it as well.
    """
    for inner in () if node.kind == "prim::Closure" else nested_blocks(node):
        for each in (*inner.nodes, inner.return_node):
            _drop_uses(each)
    node.drop_inputs()


def copied(node: Node, inputs: list[Value], *, place: Placed | None = None) -> Node:
    """Return a node that does the same with other inputs, without blocks, at ``place``."""
    made = Node(
        node.kind, [], [], [], dict(node.attributes), node.schema, place,
        upgrader=node.upgrader, stand_in=node.stand_in, has_effects=node.has_effects,
        lost=node.lost, written_arguments=node.written_arguments, writes_all=node.writes_all,
    )  # fmt: skip
    for value in inputs:
        made.add_input(value)
    for output in node.outputs:
        made.add_output(output.type, output.name)
    return made


def copy_of(graph: Block, *, keeps_places: bool = False) -> Block:
    """Return a graph that can be changed apart from another; its nodes have places if asked for."""
    made = Block()
    copy_block(graph, made, {}, keeps_places=keeps_places)
    return made


def copy_block(
    body: Block, made: Block, values: dict[Value, Value], *, keeps_places: bool = False
) -> None:
    """Fill a block with a copy of another; ``values`` are the values of the copy by those copied.

    Nodes whose results are among them are left out.
    """
    for param in body.params:
        if param not in values:
            values[param] = made.add_param(param.type, param.name)
    for node in body.nodes:
        if not (node.outputs and node.outputs[0] in values):
            copy_node(node, made, values, keeps_places=keeps_places)
    for value in body.returns:
        made.add_return(values[value])


def copy_node(
    node: Node, block: Block, values: dict[Value, Value], *, keeps_places: bool = False
) -> None:
    """Append a copy of a node to a block."""
    place = node.place if keeps_places else None
    made = copied(node, [values[value] for value in node.inputs], place=place)
    block.nodes.append(made)
    for inner in node.blocks:
        copy_block(inner, made.add_block(), values, keeps_places=keeps_places)
    subgraph = node.attributes.get("subgraph")
    if isinstance(subgraph, Block):
        made.attributes["subgraph"] = Block()
        copy_block(subgraph, made.attributes["subgraph"], values, keeps_places=keeps_places)
    values.update(zip(node.outputs, made.outputs, strict=True))
