"""What every pass asks of a graph and does to it: sizes, tensors, nodes put in, nodes swept out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from torch import Tensor

from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import (
    CONSTANT,
    Block,
    Node,
    Use,
    Value,
    carried_values,
    drop_carried,
    nested_blocks,
    walk,
)
from tsarchive.ir.rewriting import blocks_in, remove, replace
from tsarchive.ir.types import INT, ListType, Type
from tsarchive.ir.values import type_of_constant
from tsarchive.operators.effects import (
    ASKING_SIZES,
    ASKING_TYPES,
    CUTTING,
    NEW_TENSORS,
    is_pure,
)
from tsarchive.run.operators import operator_schemas

_ASKING: Final = ASKING_SIZES | ASKING_TYPES | {"prim::device", "prim::layout"}
SizesOf = Callable[[Value], "tuple[int, ...] | None"]
"""The sizes of a tensor; None where they are not known for every call."""


def unknown_sizes(value: Value) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, in a body for every call."""
    return None


def sweep(block: Block) -> None:
    """Take out what nothing needs, in a block and those in it, until nothing is left to do."""
    while _sweep(block):
        pass


def _sweep(block: Block) -> bool:
    changed = False
    for node in reversed(list(block.nodes)):
        if node.kind == "prim::If":
            changed |= _drop_results(node)
        elif node.kind == "prim::Loop":
            changed |= _drop_carried(node)
        for inner in nested_blocks(node):
            changed |= _sweep(inner)
        if not any(output.uses for output in node.outputs) and _is_idle(node):
            remove(block, node)
            changed = True
    return changed


def _is_idle(node: Node) -> bool:
    if node.kind == "prim::If":
        return not any(block.nodes for block in node.blocks)
    return is_pure(node)


def _drop_results(node: Node) -> bool:
    unused = [index for index, output in enumerate(node.outputs) if not output.uses]
    for index in reversed(unused):
        for block in node.blocks:
            block.return_node.drop_input(index)
        del node.outputs[index]
    return bool(unused)


def _drop_carried(node: Node) -> bool:
    changed = False
    for index, carried in reversed(list(enumerate(carried_values(node)))):
        own = node.blocks[0].return_node
        if not carried.output.uses and all(use.user is own for use in carried.param.uses):
            replace(carried.param, carried.first)
            drop_carried(node, index)
            changed = True
    return changed


def argument(node: Node, name: str) -> Value:
    """Return the input of an operator that its schema gives a name."""
    assert node.schema is not None
    names = [each.name for each in node.schema.arguments]
    return node.inputs[names.index(name)]


def tensor_of(value: Value) -> Tensor | None:
    """Return the tensor that a value is a constant of, if it is one."""
    constant = value.constant
    found = constant.value if isinstance(constant, TableConstant) else None
    return found if isinstance(found, Tensor) else None


def uses_of_content(value: Value) -> list[Use]:
    """Return the uses of a tensor but those that ask for its shape, dtype or device."""
    return [use for use in value.uses if use.user.operator not in _ASKING]


def operator_of(node: Node) -> str:
    """Return the name of an operator, or kind of another node.

    One that writes over what nobody else sees is as good as the one that gives a new tensor.
    """
    name = node.kind.removesuffix("_")
    if name == node.kind or not _is_own(node.input, node):
        return node.operator or node.kind
    return name + node.operator.removeprefix(node.kind)


def is_in_place(node: Node) -> bool:
    """Return whether an operator writes over what nobody else sees."""
    return node.schema is not None and operator_of(node) != node.operator


def _is_own(value: Value, user: Node) -> bool:
    """Return whether a node alone uses a tensor, which is new or a part of a new one."""
    node = value.node
    if [use.user for use in value.uses] != [user]:
        return False
    if node.kind == "prim::ListUnpack":
        cut = node.input.node
        return operator_of(cut) in CUTTING and len(node.input.uses) == 1 and _is_own(cut.input, cut)
    return operator_of(node) in NEW_TENSORS


def taken_by(node: Node) -> set[Value]:
    """Return the values that a node takes, and those that the blocks in it take."""
    taken = set(node.inputs)
    for inner in walk([node]):
        taken.update(inner.inputs)
        for block in nested_blocks(inner):
            taken.update(block.returns)
    return taken


class Inserter:
    """Makes nodes in front of one node of a block, which may be that of its results."""

    def __init__(self, block: Block, before: Node) -> None:
        self._block = block
        self._at = before

    def insert(self, node: Node) -> Node:
        # By identity: nodes are equal to nothing else.
        nodes = self._block.nodes
        nodes.insert(
            len(nodes) if self._at is self._block.return_node else nodes.index(self._at), node
        )
        return node

    def constant(self, value: Any, type_: Type | None = None) -> Value:
        node = self.insert(Node(CONSTANT, attributes={"value": value}))
        return node.add_output(type_of_constant(value) if type_ is None else type_)

    def list_of(self, values: Sequence[Any], element: Type = INT) -> Value:
        items = [self.constant(value) for value in values]
        return self.node("prim::ListConstruct", items, ListType(element))

    def node(self, kind: str, inputs: Sequence[Value], *types: Type, **attributes: Any) -> Value:
        made = Node(kind, attributes=attributes)
        for value in inputs:
            made.add_input(value)
        self.insert(made)
        for type_ in types:
            made.add_output(type_)
        return made.output

    def operator(self, name: str, inputs: Sequence[Value]) -> Value:
        """Call an operator by its name with overload, with all arguments; return the result.

        Of several results it is the first.
        """
        kind, _, overload = name.partition(".")
        schema = next(one for one in operator_schemas(kind) if one.overload == overload)
        value = self.node(kind, inputs, *(result.type for result in schema.returns))
        value.node.schema = schema
        return value


def all_true(inserter: Inserter, conditions: Sequence[Value]) -> Value:
    """Return whether all conditions hold, of which there is one at least."""
    total = conditions[0]
    for condition in conditions[1:]:
        total = inserter.operator("aten::__and__.bool", [total, condition])
    return total


Visit = Callable[[Block, Node], None]


def each_node(graph: Block, visit: Visit) -> None:
    """Call ``visit`` with each node, and its block, in the order in which they stand."""
    for block in blocks_in(graph):
        for node in list(block.nodes):
            visit(block, node)
