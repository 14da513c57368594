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

from tsarchive.ir.classes import ClassType, Function, FunctionType, Likeness
from tsarchive.ir.graph import Block, Node, Placed, Value, walk
from tsarchive.ir.source_ranges import Mark, Range, TaggedText, byte_length
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


@dataclass(frozen=True, slots=True)
class Sample:
    """The text of a function, from ``before`` to ``behind`` the name of the class of ``self``.

    ``nodes`` stand in the order of the graph, its return node last, and so do the ``functions``
    that it has for constants. ``owners`` and ``marks`` name
    them by number, -1 where there is none. ``counters`` are those of names behind the function.
    """

    before: str
    name: str
    behind: str
    nodes: list[Node]
    owners: list[tuple[int, int]]
    marks: list[tuple[Mark, int]]
    steps: list[_Step]
    functions: list[Function]
    counters: Mapping[str, int]

    def submodules(self, class_: ClassType) -> list[ClassType] | None:
        """Return the classes that the code of ``class_`` reaches, its own first.

        None where they are not all classes of modules.
        """
        found = [class_]
        for owner, name in self.steps:
            attribute = found[owner].attributes.get(name)
            if attribute is None or not _is_module(attribute.type):
                return None
            found.append(attribute.type)
        return found

    def copy(self, name: str, places: Sequence[Placed]) -> TaggedText:
        """Return the text of a function whose class has another name, and nodes at other places."""
        copies: list[Any] = [*map(NodeCopy, self.nodes, (*places, None)), None]
        gap, shift = byte_length(self.before), byte_length(name) - byte_length(self.name)
        text = TaggedText()
        text.parts = [self.before, name, self.behind]
        text.length = sum(map(byte_length, text.parts))
        text.owners = [
            (at + shift if at > gap else at, copies[number]) for at, number in self.owners
        ]
        text.marks = [
            Mark(
                mark.offset + shift if mark.offset > gap else mark.offset,
                mark.node if number < 0 else copies[number],
                mark.literal,
                mark.is_text,
            )
            for mark, number in self.marks
        ]
        return text


Samples = dict[Hashable, Sample | None]
"""Samples by what functions have in common; None where a function is no sample."""


def sample_of(
    function: Function, text: TaggedText, name: str, counters: Mapping[str, int], likeness: Likeness
) -> Sample | None:
    """Return the sample that a printed function is; None where others may differ in more.

    ``name`` is that of the class of ``self`` in the text.
    """
    graph, whole = function.graph, str(text)
    nodes, steps = [*walk(graph.nodes), graph.return_node], _steps(graph)
    before, _, behind = whole.partition(name)
    if steps is None or not all(_is_told(node, likeness) for node in nodes):
        return None
    numbers: dict[Any, int] = {node: number for number, node in enumerate(nodes)}
    numbers |= {None: -1, function: -1}
    if not all(owner in numbers for owner in _owners(text)):
        return None
    owners = [(at, numbers[owner]) for at, owner in text.owners]
    marks = [(mark, numbers[mark.node]) for mark in text.marks]
    functions = [one for node in nodes for one in node.attributes.values() if _is_function(one)]
    return Sample(before, name, behind, nodes, owners, marks, steps, functions, counters)


def _is_function(item: Any) -> bool:
    return isinstance(item, Function)


def _owners(text: TaggedText) -> Iterator[Any]:
    yield from (owner for _, owner in text.owners)
    yield from (mark.node for mark in text.marks)


def is_plain(type_: Type) -> bool:
    """Return whether the text of a type names no class."""
    return not is_named(type_) and all(map(is_plain, type_.parts()))


def _is_module(type_: Type) -> bool:
    return isinstance(type_, ClassType) and type_.is_module and not type_.is_native


def _steps(graph: Block) -> list[_Step] | None:
    """Return the submodules that code reaches from ``self``; None where it names other types."""
    steps: list[_Step] = []
    numbers = {graph.params[0]: 0}
    for value in _values(graph):
        node = value.node
        if value in numbers or is_plain(value.type) or isinstance(value.type, FunctionType):
            continue
        owner = numbers.get(node.input) if node.kind == "prim::GetAttr" else None
        if owner is None or not _is_module(value.type):
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
        return likeness.is_kept(item)
    if isinstance(item, float):
        return not math.isnan(item)
    return item is None or isinstance(item, int | Function)
