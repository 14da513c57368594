"""Graphs as torch's executor runs them: two programs that run alike have them alike.

Constants without dimensions that act as numbers are numbers, additions of 0 and the like are left
out, branches that constants choose take the place of ifs, items that of the tuples that they are
taken out of, and what does not run is gone.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch

from tsarchive.formats.contents import TensorContent
from tsarchive.formats.reading import Reading
from tsarchive.formats.torchscript.contents import TorchScriptContents
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node, must_be_none
from tsarchive.ir.rewriting import blocks_in, remove, replace, set_input
from tsarchive.ir.types import BOOL, COMPLEX, FLOAT, INT, TENSOR
from tsarchive.operators.effects import SCALAR_OVERLOADS, schema_may_write
from tsarchive.run.expressions import scalar_form
from tsarchive.run.objects import as_number
from tsarchive.run.operators import operator_schemas
from tsarchive.run.passes.liveness import Effects, Liveness
from tsarchive.run.passes.object_identity import COMPARISONS, OF_TUPLES, must_differ, value_before
from tsarchive.run.passes.peephole import Identities

from .flow import constant, take_branch
from .preparing import drop_repeated, prune

_IS_NOT: Final = "aten::__isnot__"
_WITH_NUMBERS: Final = frozenset(name.partition(".")[0] for name in SCALAR_OVERLOADS)


class Calls(Effects):
    """Lets all calls stay: a package has none that does nothing in the archive, where what it
    calls of torch may be code of another release."""

    def of(self, function: Function) -> bool:
        return True


class Normalizing:
    """Normalizes the graphs of one archive."""

    def __init__(self, contents: TorchScriptContents, reading: Reading, effects: Effects) -> None:
        self._contents = contents
        self._reading = reading
        self._effects = effects
        self._identities = Identities()

    def function(self, function: Function) -> None:
        """Normalize the graph of a function in its place."""
        graph = function.graph
        for block in blocks_in(graph):
            for node in list(block.nodes):
                self._node(node, block, graph)
        _take_known_branches(graph)
        drop_repeated(graph, self._effects)
        running = Liveness(graph, self._effects).nodes
        unchanged = self._identities.of(graph, running, lambda _: None)
        for block in blocks_in(graph):
            for node in [node for node in block.nodes if node in unchanged]:
                replace(node.output, node.input)
                remove(block, node)
        prune(graph, Liveness(graph, self._effects))

    def _node(self, node: Node, block: Block, graph: Block) -> None:
        node.has_effects |= node.schema is None and _always_writes(node.kind)
        if node.kind in _WITH_NUMBERS:
            number = self._number_of(node)
            if number is not None:
                _give_number(block, node, number)
        elif node.kind in OF_TUPLES:
            _give_items(node)
        elif node.kind in COMPARISONS and _must_differ(node, graph):
            replace(node.output, constant(block, node.kind == _IS_NOT, BOOL))
            remove(block, node)

    def _number_of(self, node: Node) -> complex | None:
        """Return the number that the second operand of a node acts as; None for others."""
        known = node.schema is None or node.operator in SCALAR_OVERLOADS
        content: Any = node.inputs[1].constant if known and len(node.inputs) > 1 else None
        tensor = self._contents.constant_tensor(content)
        return None if tensor is None else self._read(tensor)

    def _read(self, tensor: TensorContent) -> complex | None:
        """Return the number of a tensor without dimensions whose elements are plain numbers."""
        match tensor.meaning:
            case ["dense", str(dtype), [], []] if not tensor.elements.shape:
                data = bytearray(b"".join(self._reading.pieces(tensor.elements)))
                return as_number(torch.frombuffer(data, dtype=getattr(torch, dtype)).reshape(()))
        return None


def _must_differ(node: Node, graph: Block) -> bool:
    """Return whether a node compares different objects: None with a tensor that an operator made,
    and not one of gradients, which may be undefined."""
    value, other = node.inputs
    made = value.node
    is_made = made.schema is not None and not made.is_constant and value.type == TENSOR
    is_never_none = is_made and "backward" not in made.kind
    return (must_be_none(other) and is_never_none) or must_differ(value, other, graph)


def _give_items(node: Node) -> None:
    """Let items stand for what is taken out of the tuple that they were put into."""
    for output in node.outputs:
        item = value_before(output)
        if item is not None:
            replace(output, item)


@cache
def _always_writes(name: str) -> bool:
    """Return whether all operators of a name write to what they are given."""
    schemas = operator_schemas(name)
    return bool(schemas) and all(map(schema_may_write, schemas))


def _take_known_branches(block: Block) -> None:
    """Let the branch that a constant chooses stand in the place of an if."""
    for node in list(block.nodes):
        for inner in node.blocks:
            _take_known_branches(inner)
        if node.kind == "prim::If" and node.input.node.is_constant:
            take_branch(block, node, node.blocks[not node.input.constant])


def _give_number(block: Block, node: Node, number: complex) -> None:
    """Let the second operand of a node be a number."""
    type_ = INT if isinstance(number, int) else FLOAT if isinstance(number, float) else COMPLEX
    set_input(node, 1, constant(block, number, type_))
    if node.schema is not None:
        node.schema = scalar_form(node.schema)
