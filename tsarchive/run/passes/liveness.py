"""Dead code: code that has no effect and whose results are not used does not run.

Neither do its errors, nor do its random numbers advance, as in torch's executor. The graph itself
stays as it is, because it must print as it was read.
"""

from __future__ import annotations

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node, Value
from tsarchive.operators.effects import RUNNING_STATISTICS, WITH_EFFECTS

from .alias_analysis import OUTSIDE, Aliases, Place
from .peephole import known_result
from .uses import CALLS, NOTHING, Wanted, called_function, wanted_values


class Effects:
    """Tells whether a call does anything beside computing its result; one per archive."""

    def __init__(self) -> None:
        self._known: dict[Function, bool] = {}

    def of(self, function: Function) -> bool:
        original = function.original
        found = self._known.get(original)
        if found is None:
            self._known[original] = True  # what calls itself is kept
            found = bool(Liveness(function.graph, self, NOTHING).nodes)
            self._known[original] = found
        return found


class Liveness:
    """The nodes that run, and the values that are used, when ``wanted`` is asked of the result."""

    def __init__(self, graph: Block, effects: Effects, wanted: Wanted = None) -> None:
        self._graph = graph
        self._effects = effects
        self._aliases: Aliases | None
        self._kept: set[Node] | None = None
        # Loops and writes depend on what is found later on; without them one sweep finds all.
        self._depends = False
        while True:
            self._aliases = None
            self.nodes: set[Node] = set()
            self.values: set[Value] = set(wanted_values(graph, wanted))
            self._live_places: set[Place] | None = None
            while self._sweep(graph) and self._depends:
                pass
            is_stable = self._kept is not None and len(self._kept) == len(self.nodes)
            if is_stable or not self._depends:
                break
            self._kept = self.nodes

    def _sweep(self, block: Block) -> bool:
        """Mark from the last node to the first; true when a node was marked."""
        changed = False
        for node in reversed(block.nodes):
            for inner in node.blocks:
                self._mark_returns(node, inner)
                changed |= self._sweep(inner)
            if node not in self.nodes and self._is_needed(node):
                self.nodes.add(node)
                for value in () if known_result(node) is not None else node.inputs:
                    self._mark_value(value)
                changed = True
        return changed

    def _mark_value(self, value: Value) -> None:
        self.values.add(value)
        if self._live_places is not None and self._aliases is not None:
            self._live_places |= self._aliases.places(value)

    def _mark_returns(self, node: Node, block: Block) -> None:
        if node.kind == "prim::Loop":
            self._depends = True
            condition, *carried = block.returns
            self._mark_value(condition)
            params = block.params[1:]
        else:
            carried, params = block.returns, []
        for index, (value, output) in enumerate(zip(carried, node.outputs, strict=True)):
            if output in self.values or (params and self._has_use(params[index])):
                self._mark_value(value)

    def _has_use(self, value: Value) -> bool:
        """As torch, which keeps a loop-carried value that only feeds itself."""
        kept = self._kept
        return any(
            kept is None or user in kept or user.kind == "prim::Return" for user, _ in value.uses
        )

    def _is_needed(self, node: Node) -> bool:
        for output in node.outputs:
            if output in self.values:
                return True
        if node.blocks and any(inner in self.nodes for b in node.blocks for inner in b.nodes):
            return True
        if node.kind in WITH_EFFECTS or node.has_effects:
            return True
        if node.kind in CALLS:
            callee = called_function(node)
            return callee is None or self._effects.of(callee)  # None: known at run time only
        return _may_write(node) and self._writes_to_live(node)

    def _writes_to_live(self, node: Node) -> bool:
        self._depends = True
        if self._aliases is None:
            self._aliases = Aliases(self._graph, self._kept)
        aliases = self._aliases
        if self._live_places is None:
            self._live_places = set().union(*map(aliases.places, self.values))
        written = aliases.written(node)
        return OUTSIDE in written or not written.isdisjoint(self._live_places)


def _may_write(node: Node) -> bool:
    schema = node.schema
    if schema is None:
        return False
    statistics = RUNNING_STATISTICS.get(node.kind)
    if statistics is not None:
        is_training = node.inputs[statistics.is_training].node
        return not is_training.is_constant or bool(is_training.attributes["value"])
    if any(argument.is_write for argument in schema.arguments):
        return True
    return not schema.name.startswith(("aten::", "prim::"))
