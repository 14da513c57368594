"""Finds sizes that code of torch.jit.trace puts into tensors only to take them out again.

A trace computes with sizes as tensors without dimensions: ``Int(NumToTensor(size(x, 0)))``. Where
nothing else can see such a tensor, generated code has the number itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from tsarchive.ir.graph import RETURN, Block, Node
from tsarchive.ir.types import INT

from .last_uses import all_nodes

DIVIDED = "aten::floor_divide"


def nodes_on_numbers(
    graph: Block, live: Container[Node], divisor_of: Callable[[Node], int | float | complex | None]
) -> set[Node]:
    """The nodes that make tensors of ints, divide them and take the ints out.

    ``divisor_of`` tells the number that a constant tensor acts as. No tensor of theirs is left.
    """
    nodes = [node for node in all_nodes(graph.nodes) if node in live]
    made = {node for node in nodes if _may_be_number(node, divisor_of)}
    while True:
        seen = {node for node in made if not _is_unseen(node, made, live)}
        if not seen:
            break
        made -= seen
    taking = {user for node in made for user, _ in node.output.uses if user in live}
    return made | taking


def _may_be_number(node: Node, divisor_of: Callable[[Node], int | float | complex | None]) -> bool:
    if node.kind == "prim::NumToTensor":
        return node.input.type == INT
    if node.kind != DIVIDED or node.schema is None or node.upgrader is not None:
        return False
    divisor = divisor_of(node)
    return isinstance(divisor, int) and divisor > 0


def _is_unseen(node: Node, made: Container[Node], live: Container[Node]) -> bool:
    """Whether numbers suffice for the operands of ``node`` and the users of its result."""
    if node.kind == DIVIDED and node.inputs[0].node not in made:
        return False
    users = [use for use in node.output.uses if use.user in live or use.user.kind == RETURN]
    return all(_takes_int(user) or (user in made and not position) for user, position in users)


def _takes_int(user: Node) -> bool:
    return user.schema is not None and user.schema.full_name == "aten::Int.Tensor"
