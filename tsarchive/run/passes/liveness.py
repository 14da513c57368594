"""Dead code, and where functions and values are used: calls, items of results, last uses.

Code that has no effect and whose results are not used does not run. Neither do its errors, nor do
its random numbers advance, as in torch's executor. The graph itself stays as it is, because it must
print as it was read. After the last use of a tensor its memory can be freed.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    TENSOR,
    DictType,
    ListType,
    SimpleType,
    TupleType,
    Type,
)
from tsarchive.operators.effects import WITH_EFFECTS, operator_may_write

from .alias_analysis import OUTSIDE, Aliases, Place

Wanted = frozenset[int] | None
"""The items of the returned tuple that are used; None stands for all of the result."""

NOTHING: Final[Wanted] = frozenset()
CALLS: Final = frozenset({"prim::CallFunction", "prim::CallMethod"})


def called_function(node: Node) -> Function | None:
    """The archive function that a call reaches; None for interfaces, native classes, no call."""
    if node.kind not in CALLS:
        return None
    type_ = node.input.type
    if node.kind == "prim::CallFunction":
        return type_.function if isinstance(type_, FunctionType) else None
    if isinstance(type_, ClassType) and not type_.is_native:
        return type_.methods.get(node.name)
    return None


def wanted_of_call(call: Node, live: Container[Value]) -> Wanted:
    """The items of the result of a call that the code around it uses."""
    result = call.output
    if result not in live:
        return NOTHING
    if not isinstance(result.type, TupleType):
        return None
    found: set[int] = set()
    for user, _ in result.uses:
        if user.kind == "prim::TupleUnpack":
            found.update(index for index, item in enumerate(user.outputs) if item in live)
        elif user.kind == "prim::TupleIndex" and user.inputs[1].node.is_constant:
            found.add(user.inputs[1].node.attributes["value"] % len(result.type.elements))
        else:
            return None
    return frozenset(found) if len(found) < len(result.type.elements) else None


def wanted_values(graph: Block, wanted: Wanted) -> Sequence[Value]:
    """The values behind the wanted part of the result."""
    if wanted is None:
        return graph.returns
    if not wanted:
        return ()
    (result,) = graph.returns
    # A tuple that is made for the result alone.
    is_made = result.node.kind == "prim::TupleConstruct" and len(result.uses) == 1
    return [result.node.inputs[index] for index in wanted] if is_made else graph.returns


ALIASES = frozenset(
    {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "prim::Uninitialized"}
)
"""Nodes whose result is their operand under another static type, or nothing at all."""

# Numbers are equal to themselves, even nans.
_ALWAYS_EQUAL = frozenset({BOOL, INT, FLOAT})
_MAY_BE_KNOWN = frozenset({"aten::eq", "aten::ne", "aten::len"})
_OWNED_ELSEWHERE = ALIASES | {"prim::Constant", "prim::GetAttr"}


def all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """``nodes`` with what is in their blocks, the return nodes of those included."""
    for node in nodes:
        yield node
        for block in node.blocks:
            yield from all_nodes(block.nodes)
            yield block.return_node


class Order:
    """The order of the nodes of graphs, from which follows which node uses a value last."""

    def __init__(self) -> None:
        self._first: dict[Node, int] = {}
        self._last: dict[Node, int] = {}
        self._count = 0

    def add(self, nodes: Sequence[Node]) -> None:
        """Number the nodes of a block, and those in their blocks."""
        for node in nodes:
            self._first[node] = self._count = self._count + 1
            for block in node.blocks:
                self.add(block.nodes)
                self._first[block.return_node] = self._count = self._count + 1
            self._last[node] = self._count

    def last_uses(
        self, nodes: Sequence[Node], live: Container[Node], given: Iterable[Value] = ()
    ) -> Mapping[Node, Sequence[Value]]:
        """For each of ``nodes``, which run in sequence, the values that it uses last.

        Those that they are ``given`` may end as well. Values that something outside of ``nodes``
        uses do not end.
        """
        found: defaultdict[Node, list[Value]] = defaultdict(list)
        if not nodes:
            return found
        starts = [self._first[node] for node in nodes]
        running = (node for node in nodes if node in live and node.kind not in _OWNED_ELSEWHERE)
        made = (value for node in running for value in node.outputs)
        for value in itertools.chain(given, made):
            if holds_memory(value.type):
                last = self._last_use(value, nodes, starts, live)
                if last is not None:
                    found[last].append(value)
        return found

    def _last_use(
        self, value: Value, nodes: Sequence[Node], starts: Sequence[int], live: Container[Node]
    ) -> Node | None:
        """Return the last of ``nodes`` that uses a value; None where others use it, too."""
        first, end = starts[0], self._last[nodes[-1]]
        last = -1
        same = [value]
        for one in same:
            for user, _ in one.uses:
                number = self._first.get(user, 0)
                if not first <= number <= end:
                    return None
                position = bisect_right(starts, number) - 1
                if position > last and nodes[position] in live:
                    last = position
                if user.kind in ALIASES:
                    same += user.outputs
        return nodes[last] if last >= 0 else value.node


def holds_memory(type_: Type) -> bool:
    """Return whether values of this type may hold tensors; objects keep theirs in any case."""
    if isinstance(type_, SimpleType):
        return type_ is TENSOR or type_ is ANY
    return not isinstance(type_, ClassType) and any(map(holds_memory, type_.parts()))


def known_result(node: Node) -> int | None:
    """Return the result of an operator that does not depend on its operands: they may be dead.

    A value is equal to itself, even where it is nan. A list that is built for nothing but its
    length need not be built.
    """
    if node.kind not in _MAY_BE_KNOWN:
        return None
    if node.kind != "aten::len" and len(node.inputs) == 2:
        first, second = node.inputs
        if first is not second:
            return None
        type_ = first.type
        parts = type_.parts() if isinstance(type_, ListType | DictType) else (type_,)
        return node.kind == "aten::eq" if all(part in _ALWAYS_EQUAL for part in parts) else None
    if node.schema is None or node.schema.full_name != "aten::len.t":
        return None
    made = node.input.node
    is_only_measured = all(user.kind == node.kind for user, _ in node.input.uses)
    return len(made.inputs) if made.kind == "prim::ListConstruct" and is_only_measured else None


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
                if known_result(node) is None:
                    self._mark_values(node.inputs)
                changed = True
        return changed

    def _mark_values(self, values: Sequence[Value]) -> None:
        self.values.update(values)
        if self._live_places is not None and self._aliases is not None:
            self._live_places.update(*map(self._aliases.places, values))

    def _mark_returns(self, node: Node, block: Block) -> None:
        if node.kind == "prim::Loop":
            self._depends = True
            condition, *carried = block.returns
            self._mark_values([condition])
            params = block.params[1:]
        else:
            carried, params = block.returns, []
        kept = self._kept
        for index, (value, output) in enumerate(zip(carried, node.outputs, strict=True)):
            # As torch, which keeps a loop-carried value that only feeds itself.
            users = [user for user, _ in params[index].uses] if params else []
            is_carried = any(kept is None or u in kept or u.kind == "prim::Return" for u in users)
            if is_carried or output in self.values:
                self._mark_values([value])

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
        return operator_may_write(node) and self._writes_to_live(node)

    def _writes_to_live(self, node: Node) -> bool:
        self._depends = True
        if self._aliases is None:
            self._aliases = Aliases(self._graph, self._kept)
        aliases = self._aliases
        if self._live_places is None:
            self._live_places = set().union(*map(aliases.places, self.values))
        written = aliases.written(node)
        return OUTSIDE in written or not written.isdisjoint(self._live_places)
