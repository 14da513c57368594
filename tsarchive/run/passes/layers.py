"""Methods that run one operator on what their module holds, as those of most layers in traces do.

Code that calls such a method can run the operator itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Node
from tsarchive.ir.types import TENSOR

from .peephole import NEUTRAL

_LITERALS: Final = (bool, int, float, str, type(None))
_MOST_NODES: Final = 40


class Layer(NamedTuple):
    """The attributes that a method reads, the lists that it makes of constants, its operator."""

    reads: Sequence[Node]
    lists: Sequence[Node]
    operator: Node


class Layers:
    """Finds such methods; one for all functions of an archive."""

    def __init__(self) -> None:
        self._known: dict[Function, Layer | None] = {}

    def of(self, function: Function) -> Layer | None:
        """What a method does that reads attributes of ``self`` and runs one operator; else None."""
        original = function.original
        if original not in self._known:
            self._known[original] = _layer_of(original)
        return self._known[original]


def _layer_of(function: Function) -> Layer | None:
    try:
        graph = function.graph
    except ArchiveError:
        return None  # to be raised where it is called
    if len(graph.nodes) > _MOST_NODES or len(graph.returns) != 1:
        return None
    running = [node for node in graph.nodes if not node.is_constant]
    reads = [node for node in running if node.kind == "prim::GetAttr"]
    lists = [node for node in running if node.kind == "prim::ListConstruct"]
    others = [node for node in running if node not in reads and node not in lists]
    if len(others) != 1 or graph.returns[0] not in others[0].outputs:
        return None
    layer = Layer(reads, lists, others[0])
    return layer if _is_plain(layer) and _reads_self(layer, function) else None


def _is_plain(layer: Layer) -> bool:
    """Return whether the operator is one of torch, on tensors and constants that cannot change."""
    node = layer.operator
    if node.schema is None or node.upgrader is not None or node.stand_in is not None:
        return False
    if node.kind in NEUTRAL or len(node.outputs) != 1 or node.output.type is not TENSOR:
        return False
    if not all(_is_used_by(made, node) for made in (*layer.reads, *layer.lists)):
        return False
    given = [*node.inputs, *(item for made in layer.lists for item in made.inputs)]
    return all(
        type(value.node.attributes["value"]) in _LITERALS
        for value in given
        if value.node.is_constant
    ) and all(item.node.is_constant for made in layer.lists for item in made.inputs)


def _is_used_by(made: Node, node: Node) -> bool:
    return [user for user, _ in made.output.uses] == [node]


def _reads_self(layer: Layer, function: Function) -> bool:
    self_ = function.graph.params[0]
    return all(read.input is self_ for read in layer.reads) and self_ not in layer.operator.inputs
