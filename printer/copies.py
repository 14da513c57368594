"""Functions that are printed like others: methods of classes that differ in their names alone.

A network has many modules of a kind, each with a class of its own. The text of the first such
method is kept, with a gap for the name of the class of ``self``; of the others only the places of
nodes are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tsarchive.ir.classes import ClassType, Function, FunctionType, Likeness, is_module
from tsarchive.ir.graph import Block, Node, Placed, Value, walk
from tsarchive.ir.source_ranges import Mark, Range, TaggedText, byte_length, new_mark
from tsarchive.ir.types import Type, is_named


class NodeCopy:
    """A node like another one, of a function that is printed like another one."""

    __slots__ = ("original", "place")

    def __init__(self, original: Node, place: Placed | None) -> None:
        self.original = original
        self.place = place

    @property
    def range(self) -> Range | None:
        return None if self.place is None else self.place.range

    @property
    def kind(self) -> str:
        return self.original.kind

    @property
    def is_constant(self) -> bool:
        return self.original.is_constant

    @property
    def output(self) -> Value:
        return self.original.output


class _Step(NamedTuple):
    """A submodule: the attribute of this name of an earlier one, by its number; ``self`` is 0."""

    owner: int
    name: str


class _Mark(NamedTuple):
    """A mark of a sample. ``node`` is the number of a node, and ``begun`` the function that begins
    there."""

    offset: int
    node: int
    begun: Any
    literal: str | None
    is_text: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """The text of a function: that ``before`` the name of the class of ``self``, and ``behind`` it.

    ``nodes`` stand in the order of the graph, its return node last; ``kinds`` are without that.
    ``functions`` are those that nodes are the constants of. ``owners`` and ``marks`` count
    from the name on, and have nodes by
    number, -1 where there is none. ``counters`` are those of names, after the function.
    """

    before: str
    behind: str
    length: int
    nodes: list[Node]
    kinds: list[str]
    owners: list[tuple[int, int]]
    marks: list[_Mark]
    steps: list[_Step]
    functions: dict[int, Function]
    counters: Mapping[str, int]

    def submodules(self, class_: ClassType) -> list[ClassType] | None:
        """Return the classes that the code of ``class_`` reaches, its own first.

        None where they are not all classes of modules.
        """
        found = [class_]
        for owner, name in self.steps:
            attribute = found[owner].attributes.get(name)
            type_ = None if attribute is None else attribute.type
            if not is_module(type_):
                return None
            found.append(type_)
        return found

    def calls_the_same(self, likeness: Likeness) -> bool:
        """Return whether a method of this shape calls the same functions."""
        if not self.functions:
            return True
        found = likeness.functions(list(self.functions), self.kinds)
        return found == list(self.functions.values())

    def copy_to(self, body: TaggedText, name: str, likeness: Likeness) -> None:
        """Append the text of a function whose class has this name."""
        places = (*likeness.places(self.kinds), None)
        copies: list[Any] = [*map(NodeCopy, self.nodes, places), None]
        body.write(self.before + name, None)
        start = body.length
        body.owners += [(start + at, copies[number]) for at, number in self.owners]
        body.marks += [
            new_mark((start + at, copies[number] or begun, literal, is_text))
            for at, number, begun, literal, is_text in self.marks
        ]
        body.parts.append(self.behind)
        body.length = start + self.length


Samples = dict[Hashable, Sample | None]
"""Samples by what functions have in common; None where a function is no sample."""


def sample_of(
    function: Function, text: TaggedText, name: str, counters: Mapping[str, int], likeness: Likeness
) -> Sample | None:
    """Return the sample that a printed function is; None where others may differ in more.

    ``name`` is that of the class of ``self`` in the text.
    """
    graph = function.graph
    nodes, steps = [*walk(graph.nodes), graph.return_node], _steps(graph)
    if steps is None or not all(_is_told(node, likeness) for node in nodes):
        return None
    before, _, behind = str(text).partition(name)
    gap = byte_length(before) + byte_length(name)
    (_, outside), *owners = text.owners
    numbers: dict[Any, int] = {node: number for number, node in enumerate(nodes)}
    numbers |= {None: -1, function: -1}
    shown = owners + [(mark.offset, mark.node) for mark in text.marks]
    if outside is not None or not all(at > gap and owner in numbers for at, owner in shown):
        return None
    return Sample(
        before,
        behind,
        text.length - gap,
        nodes,
        [node.kind for node in nodes[:-1]],
        [(at - gap, numbers[owner]) for at, owner in owners],
        [_marked(mark, numbers[mark.node], gap) for mark in text.marks],
        steps,
        dict(_functions(nodes)),
        counters,
    )


def _marked(mark: Mark, number: int, gap: int) -> _Mark:
    begun = mark.node if number < 0 else None
    return _Mark(mark.offset - gap, number, begun, mark.literal, mark.is_text)


def _functions(nodes: Sequence[Node]) -> Iterator[tuple[int, Function]]:
    for number, node in enumerate(nodes):
        if node.outputs and isinstance(type_ := node.output.type, FunctionType):
            yield number, type_.function


def is_plain(type_: Type) -> bool:
    """Return whether the text of a type names no class."""
    return not is_named(type_) and all(map(is_plain, type_.parts()))


def _steps(graph: Block) -> list[_Step] | None:
    """Return the submodules that code reaches from ``self``; None where it names other types."""
    steps: list[_Step] = []
    numbers = {graph.params[0]: 0}
    for value in _values(graph):
        node = value.node
        if value in numbers or is_plain(value.type) or isinstance(value.type, FunctionType):
            continue
        owner = numbers.get(node.input) if node.kind == "prim::GetAttr" else None
        if owner is None or not is_module(value.type):
            return None
        steps.append(_Step(owner, node.name))
        numbers[value] = len(steps)
    return steps


def _values(block: Block) -> Iterator[Value]:
    """Yield the values of a graph in the order in which they are printed first."""
    yield from block.params
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from _values(inner)


def _is_told(node: Node, likeness: Likeness) -> bool:
    """Return whether the shape of a graph tells all of a node."""
    return not node.lost and all(_is_told_item(item, likeness) for item in node.attributes.values())


def _is_told_item(item: Any, likeness: Likeness) -> bool:
    """Return the same of an attribute; functions are compared."""
    if isinstance(item, str):
        return likeness.keeps(item)
    if isinstance(item, float):
        return not math.isnan(item)
    return item is None or isinstance(item, int | Function)
