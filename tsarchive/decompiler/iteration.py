"""What ``for`` loops go through: the items of a list, the rows of a tensor, ``enumerate``, ``zip``.

In a graph a loop has a count, and its body takes items by number: ``names[i]`` for each ``i`` below
``len(names)``. Where nothing in the loop changes the list, the loop goes through its items instead:
then its first input is a node of a kind below, and the attribute ``targets`` says what a turn gets.

* ``loop::items``      the operand itself; with the attribute ``is_listed``, what it is a list of
* ``loop::range``      ``range`` of the operands
* ``loop::enumerate``  the operand, numbered from the second operand on
* ``loop::zip``        the operands side by side

A node of the kind ``loop::element``, which stands in no block, makes the values of the targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import (
    MAX_TRIP_COUNT,
    Block,
    Node,
    Value,
    has_trip_count,
    is_constant_true,
    walk,
)
from tsarchive.ir.rewriting import blocks_in, set_input
from tsarchive.ir.types import INT, DictType, ListType, Type
from tsarchive.operators.effects import operator_may_write
from tsarchive.run.passes.alias_analysis import OUTSIDE, Aliases
from tsarchive.run.passes.liveness import CALLS, called_function

from .flow import constant, sweep

ITEMS: Final = "loop::items"
RANGE: Final = "loop::range"
ENUMERATE: Final = "loop::enumerate"
ZIP: Final = "loop::zip"
ELEMENT: Final = "loop::element"

Target: TypeAlias = "Value | tuple[Target, ...] | None"
"""What is assigned in each turn: a value, several at once, or nothing that is used."""

_LENGTHS: Final = frozenset({"aten::len.t", "aten::len.Tensor"})
_MAKING: Final = frozenset(
    {
        "prim::ListConstruct", "prim::DictConstruct", "aten::keys", "aten::values", "aten::items",
        "aten::list", "aten::slice", "aten::size",
    }
)  # fmt: skip
_LISTED: Final = frozenset({"aten::keys", "aten::values", "aten::items"})


def values_of(target: Target) -> Iterator[Value]:
    """Yield the values of a target, from left to right."""
    match target:
        case Value():
            yield target
        case tuple():
            for part in target:
                yield from values_of(part)


@dataclass(eq=False, slots=True)
class ContainerWrites:
    """The types of the containers that functions change, and those that they call.

    What a function makes itself and changes is nothing that was there before its call. None for a
    function that calls what is not known before it runs.
    """

    _known: dict[Function, frozenset[Type] | None] = field(default_factory=dict)

    def of(self, function: Function) -> frozenset[Type] | None:
        if function not in self._known:
            self._known[function] = frozenset()  # what calls itself adds nothing
            parts = list(map(self.by, walk(function.graph.nodes)))
            known = [part for part in parts if part is not None]
            whole: frozenset[Type] = frozenset().union(*known)
            self._known[function] = whole if len(known) == len(parts) else None
        return self._known[function]

    def by(self, node: Node) -> frozenset[Type] | None:
        """Return the types of the containers that one node changes."""
        if node.kind in CALLS:
            called = called_function(node)
            return None if called is None else self.of(called)
        if node.stand_in is not None:
            return self.of(node.stand_in)
        return frozenset(value.type for value in _written(node) if not _is_new(value))


def recover_iterables(graph: Block, aliases: Aliases, writes: ContainerWrites) -> None:
    """Let loops that take items by number go through them."""
    given = frozenset(graph.params)
    for block in list(blocks_in(graph)):
        for node in list(block.nodes):
            if node.kind == "prim::Loop" and _is_counted(node):
                found = _Recovery(block, node, given, aliases, writes).sources()
                if found is not None:
                    _iterate(block, node, found)
                else:
                    _bound(node)
    sweep(graph)


def _bound(loop: Node) -> None:
    """Leave out of the least of several counts what no list reaches: that of ``enumerate``."""
    least = loop.inputs[0].node
    if least.kind != "prim::min" or least.input.node.kind != "prim::ListConstruct":
        return
    counts = [value for value in least.input.node.inputs if not _is_boundless(value.constant)]
    if len(counts) == 1:
        set_input(loop, 0, counts[0])


def _is_boundless(number: object) -> bool:
    """Return whether a count is that of numbers which go on, from a first one, without an end."""
    return isinstance(number, int) and MAX_TRIP_COUNT - number < number


def _is_counted(node: Node) -> bool:
    return node.kind == "prim::Loop" and has_trip_count(node) and is_constant_true(node.inputs[1])


class _Source(NamedTuple):
    """What a loop goes through: the kind of its node, its operands, and what a turn gets of it."""

    kind: str
    operands: Sequence[Value]
    target: Target
    is_listed: bool = False


class _Recovery:
    """Finds what one loop goes through."""

    def __init__(
        self,
        block: Block,
        loop: Node,
        given: Set[Value],
        aliases: Aliases,
        writes: ContainerWrites,
    ) -> None:
        self._given = given
        self._block = block
        self._loop = loop
        self._aliases = aliases
        self._writes = writes
        (self._body,) = loop.blocks
        self._counter = self._body.params[0]
        self._elements = [user for user, _ in self._counter.uses if user in self._body.nodes]
        self._taken: set[Node] = set()

    def sources(self) -> list[_Source] | None:
        """Return what the loop goes through side by side; None for a plain count."""
        lengths = self._lengths()
        found = [source for length in lengths if (source := self._source(length)) is not None]
        if len(found) < len(lengths) or found[-1].kind == ENUMERATE:
            return None
        if len(found) == 1 and self._is_plain(found[0]):
            return None
        is_counted = any(self._counter in values_of(source.target) for source in found)
        if not is_counted and any(user not in self._taken for user, _ in self._counter.uses):
            return None
        return found

    def _is_plain(self, source: _Source) -> bool:
        """Return whether ``range(count)`` says as much, or what the program had."""
        if source.kind == ITEMS:
            return source.target is None or self._counter.name is not None
        return source.kind == RANGE and len(source.operands) == 1

    def _lengths(self) -> Sequence[Value]:
        length = self._loop.inputs[0]
        node = length.node
        if node.kind == "prim::min" and node.input.node.kind == "prim::ListConstruct":
            return node.input.node.inputs
        return [length]

    def _source(self, length: Value) -> _Source | None:
        number, node = length.constant, length.node
        if isinstance(number, int) and _is_boundless(number):
            return self._numbers(MAX_TRIP_COUNT - number)
        if node.operator in _LENGTHS:
            return self._items(node.input)
        if node.kind == "aten::__range_length":
            low, _, step = node.inputs
            return _Source(RANGE, node.inputs, self._element("aten::__derive_index", low, step))
        return _Source(RANGE, [length], self._number())

    def _numbers(self, start: int) -> _Source:
        first = constant(self._block, start, INT)
        if start == 0:
            return _Source(ENUMERATE, [first], self._number())
        found = next((node for node in self._elements if _derives(node, start)), None)
        if found is None:
            return _Source(ENUMERATE, [first], None)
        self._taken.add(found)
        return _Source(ENUMERATE, [first], found.output)

    def _number(self) -> Target:
        """Return the counter, where it is used as a number."""
        used = [user for user, _ in self._counter.uses if user not in self._taken]
        return self._counter if used else None

    def _items(self, values: Value) -> _Source | None:
        is_list = isinstance(values.type, ListType)
        inputs = ("aten::__getitem__", values) if is_list else ("aten::select", values)
        found = self._element(*inputs)
        if not self._is_kept(values):
            return None
        node = values.node
        is_listed = node.kind in _LISTED and self._is_kept(node.input)
        return _Source(ITEMS, [values], found, is_listed and len(values.uses) <= 1 + 1)

    def _element(self, kind: str, *operands: Value) -> Target:
        """Return what a turn gets by a node that takes these operands and the counter."""
        for node in self._elements:
            if (
                node.kind == kind
                and node not in self._taken
                and _takes(node, self._counter, operands)
            ):
                self._taken.add(node)
                return self._unpacked(node.output)
        return None

    def _unpacked(self, value: Value) -> Target:
        """Return the items of a tuple that is only unpacked, else the value itself."""
        users = [user for user, _ in value.uses]
        if len(users) != 1 or users[0].kind != "prim::TupleUnpack" or value.name is not None:
            return value
        (node,) = users
        if node not in self._body.nodes:
            return value
        self._taken.add(node)
        return tuple(map(self._unpacked, node.outputs))

    def _is_kept(self, values: Value) -> bool:
        """Return whether nothing in the loop changes a container or writes to a tensor."""
        return not any(self._may_change(node, values) for node in walk(self._body.nodes))

    def _may_change(self, node: Node, values: Value) -> bool:
        if node.kind in CALLS or node.stand_in is not None:
            return self._may_change_in_call(node, values)
        return any(self._may_be_one(written, values) for written in _written(node))

    def _may_change_in_call(self, node: Node, values: Value) -> bool:
        if not isinstance(values.type, ListType | DictType):
            return False
        if OUTSIDE not in self._aliases.places(values) and values not in node.inputs:
            return False
        written = self._writes.by(node)
        return written is None or values.type in written

    def _may_be_one(self, one: Value, other: Value) -> bool:
        """Return whether two values may be one container or share the memory of a tensor."""
        if one.type != other.type:
            return False
        if one is not other and _is_new(one) and (_is_new(other) or other in self._given):
            return False
        return not self._aliases.places(one).isdisjoint(self._aliases.places(other))


def _is_new(value: Value) -> bool:
    """Return whether a node makes a container, which nothing else is."""
    return value.node.kind in _MAKING


def _written(node: Node) -> Sequence[Value]:
    """Return the values that an operator writes to."""
    if node.schema is None or not operator_may_write(node):
        return ()
    pairs = zip(node.schema.arguments, node.inputs, strict=False)
    found = [value for argument, value in pairs if argument.is_write]
    return found or node.inputs


def _derives(node: Node, start: int) -> bool:
    if node.kind != "aten::__derive_index":
        return False
    return [value.constant for value in node.inputs[1:]] == [start, 1]


def _takes(node: Node, counter: Value, operands: Sequence[Value]) -> bool:
    if node.operator == "aten::select.int":
        values, dimension, number = node.inputs
        return values is operands[0] and dimension.constant == 0 and number is counter
    if node.kind == "aten::__getitem__":
        return node.inputs[0] is operands[0] and node.inputs[1] is counter
    return node.inputs[0] is counter and all(
        one is other or (one.node.is_constant and one.constant == other.constant)
        for one, other in zip(node.inputs[1:], operands, strict=True)
    )


def _iterate(block: Block, loop: Node, sources: Sequence[_Source]) -> None:
    """Let a loop go through its sources."""
    (body,) = loop.blocks
    made, target = _joined(block, loop, list(sources))
    set_input(loop, 0, made)
    loop.attributes["targets"] = target
    element = Node(ELEMENT)
    for value in values_of(target):
        for node in _makers(value, body):
            node.drop_inputs()
            body.nodes.remove(node)
        if value is not body.params[0]:
            value.node = element
            element.outputs.append(value)


def _makers(value: Value, body: Block) -> list[Node]:
    """Return the nodes of a body that took an item by its number, or apart."""
    found: list[Node] = []
    node = value.node
    while node in body.nodes and node not in found:
        found.append(node)
        node = node.inputs[0].node if node.kind == "prim::TupleUnpack" else node
    return found


def _joined(block: Block, loop: Node, sources: list[_Source]) -> tuple[Value, Target]:
    """Return the iterable of all sources and what a turn gets: pairs of a number and the rest.

    Numbers that stand first are those of all the rest, others those of the source behind them.
    """
    first = sources[0]
    if first.kind == ENUMERATE and len(sources) > 1:
        rest, target = _joined(block, loop, sources[1:])
        pair = [rest, *first.operands]
        return _made(block, loop, ENUMERATE, pair), (first.target, target)
    parts: list[tuple[Value, Target]] = []
    while sources:
        source = sources.pop(0)
        if source.kind == ENUMERATE and sources:
            inner = _single(block, loop, sources.pop(0))
            made = _made(block, loop, ENUMERATE, [inner[0], *source.operands])
            parts.append((made, (source.target, inner[1])))
        else:
            parts.append(_single(block, loop, source))
    if len(parts) == 1:
        return parts[0]
    values, targets = zip(*parts, strict=True)
    return _made(block, loop, ZIP, list(values)), tuple(targets)


def _single(block: Block, loop: Node, source: _Source) -> tuple[Value, Target]:
    made = _made(block, loop, source.kind, source.operands)
    made.node.attributes["is_listed"] = source.is_listed
    return made, source.target


def _made(block: Block, loop: Node, kind: str, operands: Sequence[Value]) -> Value:
    """Return the value of a new node in front of a loop."""
    node = Node(kind, place=loop.place)
    for value in operands:
        node.add_input(value)
    block.nodes.insert(block.nodes.index(loop), node)
    return node.add_output(ListType(INT))
