"""Functions that are printed like others of one shape: their text, and where their nodes stand.

A network has many modules of a kind, each with a class of its own. The text of the first such
method is kept, with a gap for the name of the class of ``self``; of the others only the places of
nodes are asked for. Texts are kept for later saves of the process, too.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from threading import Lock
from typing import Any, ClassVar, NamedTuple

from tsarchive.ir.classes import ClassType, Function, FunctionType, Likeness, is_module
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Block, Node, Value, walk
from tsarchive.ir.names import TypeNames
from tsarchive.ir.source_ranges import TaggedText, byte_length
from tsarchive.ir.types import NamedType, Type, is_named

from .literals import ConstantTable
from .reading_back import Copy, constants_in_order, places_of_nodes, ranges_after_rounds
from .statements import version_needed

# What is kept: functions and bytes in all, and layouts of each function.
_MOST = 1 << 10
_MOST_SIZE = 1 << 23
_MOST_LAYOUTS = 1 << 2
# The memory of a function with nothing in it, of a tuple with a name, an entry of a dict or a
# type, of a pointer, and of a number in an array, which has room to grow.
_FUNCTION_BYTES = 1 << 12
_ITEM_BYTES = 1 << 8
_POINTER_BYTES = 8
_NUMBER_BYTES = array("i").itemsize + 1


class _Step(NamedTuple):
    """A submodule: the attribute of this name of an earlier one, by its number; ``self`` is 0."""

    owner: int
    name: str


class _Called(NamedTuple):
    """A function that a node is the constant of, by its number, and its name in the text."""

    node: int
    name: str


class Pairs:
    """Pairs of small numbers, in a tenth of the memory of a list of tuples."""

    __slots__ = ("_first", "_second")

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._first, self._second = array("i"), array("i")
        for first, second in pairs:
            self._first.append(first)
            self._second.append(second)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._first, self._second, strict=True)

    def __len__(self) -> int:
        return len(self._first)


class _Entry(NamedTuple):
    """A constant in the table of the archive: the number of its node, and its place there."""

    node: int
    position: int
    type: Type


@dataclass(frozen=True, slots=True)
class Sample:
    """The text of a function: that ``before`` the name of the class of ``self``, and ``behind`` it.

    ``kinds`` are those of its nodes in the order of the graph, ``called`` the functions among them
    and ``entries`` the constants in the table of the archive, each in the order of the text.
    ``owners`` and ``places`` count from the name on: they tell which node wrote the text, by
    number, -1 for none, and where the text makes a node.
    ``needed`` is the archive version of its operators, and ``counters`` are those of names, after
    the function.
    """

    before: str
    behind: str
    length: int
    kinds: Sequence[str]
    owners: Pairs
    places: Pairs
    steps: Sequence[_Step]
    called: Sequence[_Called]
    entries: Sequence[_Entry]
    needed: int
    counters: Mapping[str, int]
    _rows: dict[Hashable, Pairs] = field(default_factory=dict)

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

    def functions(self, likeness: Likeness, names: TypeNames) -> list[Function] | None:
        """Return the functions that one of this shape calls; None if their names are others."""
        if not self.called:
            return []
        found = likeness.functions([number for number, _ in self.called], self.kinds)
        by_name: dict[str, Function] = {}
        for function, (_, name) in zip(found, self.called, strict=True):
            is_first = by_name.setdefault(name, function) is function
            if not is_first or names.expected(function.type) != name:
                return None
        return found

    def enter(self, likeness: Likeness, table: ConstantTable) -> bool:
        """Add the constants of a method of this shape; return whether text names them like this."""
        if not self.entries:
            return True
        values = likeness.constants([entry.node for entry in self.entries], self.kinds)
        if table.expected(values) != [entry.position for entry in self.entries]:
            return False
        for value, entry in zip(values, self.entries, strict=True):
            table.index(value, entry.type)
        return True

    def copy_to(self, body: TaggedText, name: str, likeness: Likeness) -> None:
        """Append the text of a function whose class has this name."""
        start, gap = body.length, byte_length(self.before) + byte_length(name)
        body.owners.append((start, Copy(self, gap, likeness.places(self.kinds))))
        body.parts += (self.before, name, self.behind)
        body.length = start + gap + self.length

    def rows(self, ranges: Sequence[int], rounds: int) -> Iterable[tuple[int, int]]:
        """Return where the text changes its range, once it was written and read so many times.

        ``ranges`` are those of the nodes, by number.
        """
        key = array("i", ranges).tobytes(), rounds
        known = self._rows.get(key)
        if known is None:
            owners, places = list(self.owners), list(self.places)
            known = Pairs(ranges_after_rounds(owners, places, ranges, rounds))
            if len(self._rows) >= _MOST_LAYOUTS:
                self._rows.clear()
            self._rows[key] = known
        return known

    @property
    def size(self) -> int:
        """The bytes of memory that it takes at most, with all layouts."""
        text = byte_length(self.before) + self.length
        nodes = len(self.kinds) * _POINTER_BYTES
        layout = (2 * len(self.owners) + len(self.kinds)) * _NUMBER_BYTES
        pairs = 2 * (len(self.owners) + len(self.places)) * _NUMBER_BYTES
        names = [*(step.name for step in self.steps), *(one.name for one in self.called)]
        names += self.counters
        items = (len(names) + len(self.entries)) * _ITEM_BYTES + sum(map(byte_length, names))
        return _FUNCTION_BYTES + text + nodes + pairs + items + _MOST_LAYOUTS * layout


class Store:
    """Samples by all that decides over the text of a function but for names of types.

    None stands for a function that is no sample, or one too large to be kept. The oldest go when
    there are many; for all threads.
    """

    def __init__(self) -> None:
        self._samples: dict[Hashable, Sample | None] = {}
        self._size = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._samples)

    def may_have(self, key: Hashable) -> bool:
        """Return whether a function with this in common may be a sample, as far as is known."""
        return self._samples.get(key, key) is not None

    def find(self, key: Hashable) -> Sample | None:
        return self._samples.get(key)

    def keep(self, key: Hashable, sample: Sample | None) -> None:
        added = 0 if sample is None else sample.size
        if added > _MOST_SIZE:
            added, sample = 0, None
        with self._lock:
            self._forget(key)
            while self._samples and (len(self) >= _MOST or self._size + added > _MOST_SIZE):
                self._forget(next(iter(self._samples)))
            self._samples[key] = sample
            self._size += added

    def _forget(self, key: Hashable) -> None:
        sample = self._samples.pop(key, None)
        self._size -= 0 if sample is None else sample.size


class Samples:
    """The samples that a process keeps, for an archive of these ``names``."""

    kept: ClassVar[Store] = Store()

    def __init__(self, names: TypeNames) -> None:
        self.names = names


def sample_of(
    function: Function,
    text: TaggedText,
    name: str,
    counters: Mapping[str, int],
    rename: Callable[[NamedType], str],
    table: ConstantTable,
) -> Sample | None:
    """Return the sample that a printed function is; None where others may differ in more.

    ``name`` is that of the class of ``self`` in the text, "" for a free function.
    """
    graph = function.graph
    nodes, steps = [*walk(graph.nodes), graph.return_node], _steps(graph, is_method=bool(name))
    entries = [node for node in constants_in_order(graph) if _is_entry(node)]
    indices = table.expected([node.attributes["value"] for node in entries])
    if steps is None or indices is None or not all(map(_is_told, nodes)):
        return None
    before, behind = _around(str(text), name)
    gap = byte_length(before) + byte_length(name)
    (_, outside), *owners = text.owners
    numbers: dict[Any, int] = {node: number for number, node in enumerate(nodes)}
    numbers |= {nodes[-1]: -1, None: -1, function: -1}
    shown = owners + [(mark.offset, mark.node) for mark in text.marks]
    if outside is not None or not all(at > gap and owner in numbers for at, owner in shown):
        return None
    return Sample(
        before,
        behind,
        text.length - gap,
        tuple([intern(node.kind) for node in nodes[:-1]]),
        Pairs((at - gap, numbers[owner]) for at, owner in owners),
        Pairs((numbers[node], at - gap) for node, at in places_of_nodes(text.marks)),
        steps,
        [_Called(numbers[node], rename(type_)) for node, type_ in _called(graph)],
        [
            _Entry(numbers[node], index, node.output.type)
            for node, index in zip(entries, indices, strict=True)
        ],
        max(map(version_needed, nodes)),
        counters,
    )


def _around(text: str, name: str) -> tuple[str, str]:
    """Return what stands before the name and behind it."""
    before, _, behind = text.partition(name) if name else ("", "", text)
    return before, behind


def _called(graph: Block) -> Iterator[tuple[Node, FunctionType]]:
    """Yield the constants that are functions, in the order in which they are printed first."""
    for node in constants_in_order(graph):
        if isinstance(type_ := node.output.type, FunctionType):
            yield node, type_


def is_plain(type_: Type) -> bool:
    """Return whether the text of a type names no class."""
    return not is_named(type_) and all(map(is_plain, type_.parts()))


def _steps(graph: Block, *, is_method: bool) -> list[_Step] | None:
    """Return the submodules that code reaches from ``self``; None where it names other types."""
    steps: list[_Step] = []
    numbers = {graph.params[0]: 0} if is_method else {}
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


def _is_entry(node: Node) -> bool:
    return isinstance(node.attributes.get("value"), TableConstant)


def _is_told(node: Node) -> bool:
    """Return whether the shape of a graph tells all of a node."""
    has_own_text = _is_entry(node) and not node.is_constant
    told = all(map(_is_told_item, node.attributes.values()))
    return told and not (node.lost or has_own_text)


def _is_told_item(item: Any) -> bool:
    """Return the same of an attribute; functions are compared, and what the table has."""
    if isinstance(item, str):
        return item.isascii()  # others go to the table of constants
    if isinstance(item, float):
        return not math.isnan(item)
    return item is None or isinstance(item, int | Function | TableConstant)
