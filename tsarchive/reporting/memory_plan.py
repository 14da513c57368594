"""The memory plan of a method: which value occupies which bytes of an arena, and when.

A value is live from the first instruction that names it to the last. Inputs are live from the
beginning, results to the end, and what is named inside a loop during the whole loop. Instructions
of several chains are numbered consecutively.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tsarchive.errors import LimitError
from tsarchive.formats.executorch.listing import type_text
from tsarchive.formats.executorch.methods import (
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    KernelCall,
    Method,
    Move,
)
from tsarchive.formats.executorch.program import RECORD
from tsarchive.formats.executorch.values import Allocation, OptionalTensorList, Tensor, TensorList

# Its result shows the bytes of its first argument.
_VIEW_OPERATOR: Final = "executorch_prim::et_view"
# One list can be named by every instruction. Real methods have thousands of names.
_MAX_NAMES: Final = 5_000_000


@dataclass(slots=True)
class Span:
    """The first and the last instruction at which a value is live."""

    first: int
    last: int

    def take(self, place: int) -> None:
        self.first, self.last = min(self.first, place), max(self.last, place)


@dataclass(slots=True)
class Uses:
    """The uses of values by the ``count`` instructions of a method.

    ``writes`` has, in order, the instructions that write each value; ``views`` the values whose
    bytes a value aliases. ``read_first`` has the first instruction that reads a value before any
    has written it: ``count`` for results that no instruction names. ``loops`` are the first and
    the last instruction of each loop.
    """

    method: Method
    count: int = 0
    spans: dict[int, Span] = field(default_factory=dict)
    writes: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    views: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    read_first: dict[int, int] = field(default_factory=dict)
    loops: list[tuple[int, int]] = field(default_factory=list)
    names_left: int = _MAX_NAMES

    def collect(self) -> None:
        """Collect uses in one pass over the instructions, ignoring invalid indices."""
        for chain in self.method.chains:
            start = self.count
            for instruction in chain.instructions:
                self._instruction(instruction, self.count, start)
                self.count += 1
        self._stretch_over_loops()
        self._stretch_ends()

    def _instruction(self, instruction: Instruction, place: int, start: int) -> None:
        match instruction:
            case KernelCall(operator, args):
                self._call(operator, args, place)
            case DelegateCall(_, args):  # only the backend knows which of them it writes
                self._write(self._expanded(args), place)
            case Move(source, target):
                self._read(self._expanded([source]), place)
                self._write(self._expanded([target]), place)
                self._show(target, source)
            case JumpFalse(condition, destination):
                self._read(self._expanded([condition]), place)
                if 0 <= destination <= place - start:
                    self.loops.append((start + destination, place))
            case Free(value):
                self._read(self._expanded([value]), place)

    def _call(self, operator: int, args: tuple[int, ...], place: int) -> None:
        """Record a call.

        The last argument is the result: what it names among the others is written.
        """
        if not args:
            return
        written = dict.fromkeys(self._expanded(args[-1:]))
        self._read((value for value in self._expanded(args[:-1]) if value not in written), place)
        self._write(written, place)
        operators = self.method.operators
        is_view = 0 <= operator < len(operators) and operators[operator].name == _VIEW_OPERATOR
        if is_view and len(args) > 1:
            self._show(args[-1], args[0])

    def _show(self, value: int, base: int) -> None:
        """Record that a value aliases the bytes of another, where both exist."""
        if value in self.spans and base in self.spans:
            self.views[value].append(base)

    def _read(self, values: Iterable[int], place: int) -> None:
        for value in values:
            if value not in self.spans:
                self.read_first[value] = place
            self._touch(value, place)

    def _write(self, values: Iterable[int], place: int) -> None:
        for value in values:
            self.writes[value].append(place)
            self._touch(value, place)

    def _touch(self, value: int, place: int) -> None:
        self.spans.setdefault(value, Span(place, place)).take(place)

    def _expanded(self, values: Iterable[int]) -> Iterator[int]:
        """Yield values with the items of those that are lists."""
        known = self.method.values
        for value in values:
            if 0 <= value < len(known):
                held = known[value]
                items = held.items if isinstance(held, TensorList | OptionalTensorList) else ()
                self._count(1 + len(items))
                yield value
                yield from (item for item in items if 0 <= item < len(known))

    def _count(self, names: int) -> None:
        self.names_left -= names
        if self.names_left < 0:
            message = "its instructions name too many values, with those in lists"
            raise LimitError(message, record=RECORD, limit=_MAX_NAMES)

    def _stretch_over_loops(self) -> None:
        """Extend values named inside a loop, or overlapping loops, to its whole range."""
        regions = _regions(self.loops)
        for span in self.spans.values():
            first, last = regions.get(span.first, span), regions.get(span.last, span)
            span.first, span.last = first.first, last.last

    def _stretch_ends(self) -> None:
        """Extend the lifetimes of inputs, results, and values that later ones alias."""
        last = max(self.count - 1, 0)
        for value in self._expanded(self.method.inputs):
            self.spans.setdefault(value, Span(0, 0)).take(0)
        for value in self._expanded(self.method.outputs):
            if value not in self.spans:
                self.read_first[value] = self.count
            self.spans.setdefault(value, Span(last, last)).take(last)
        self._keep_bases()

    def _keep_bases(self) -> None:
        """Keep bytes live as long as any value that aliases them, directly or indirectly."""
        done: set[int] = set()
        for value in sorted(self.views, key=lambda one: -self.spans[one].last):
            last, pending = self.spans[value].last, [value]
            while pending:
                for base in self.views.get(pending.pop(), ()):
                    if base in self.spans and base not in done:
                        done.add(base)
                        self.spans[base].take(last)
                        pending.append(base)


def uses_of(method: Method) -> Uses:
    """Collect the uses of all values. Raises LimitError where there are too many."""
    found = Uses(method)
    found.collect()
    return found


def _regions(loops: Iterable[tuple[int, int]]) -> dict[int, Span]:
    """Map each instruction inside a loop to that loop, joined with those that share some."""
    regions: dict[int, Span] = {}
    region = Span(0, -1)
    for first, last in sorted(loops):
        if first > region.last:
            region = Span(first, first - 1)
        regions.update(dict.fromkeys(range(region.last + 1, last + 1), region))
        region.take(last)
    return regions


INPUT: Final = "input"
OUTPUT: Final = "output"
STATE: Final = "state"
VIEW: Final = "view"
VALUE: Final = "value"
UNUSED: Final = "unused"


@dataclass(frozen=True, slots=True)
class Planned:
    """A value that occupies bytes of an arena during a range of instructions.

    The bytes are ``offset`` to ``offset + nbytes``, the instructions ``first`` to ``last``.
    ``role``: ``input`` and ``output`` of the method; ``state``, which keeps its bytes between calls
    or is read before anything is written; ``view``, which aliases the bytes of the values
    ``bases``; ``unused``, which no instruction names, with -1 for both ends; ``value``, any other.
    """

    index: int
    name: str | None
    type: str
    arena: int
    offset: int
    nbytes: int
    first: int
    last: int
    role: str
    bases: tuple[int, ...]

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned values of a method; ``arenas`` are sizes in bytes by number."""

    method: str
    instructions: int
    arenas: Mapping[int, int]
    values: tuple[Planned, ...]


def plan_of(method: Method) -> Plan:
    """Compute the plan. Raises LimitError where instructions name too many values."""
    uses = uses_of(method)
    values = tuple(_planned(method, uses))
    sizes = dict(enumerate(method.arenas[1:], 1))
    arenas = {arena: sizes.get(arena, 0) for arena in sorted({*sizes, *(v.arena for v in values)})}
    return Plan(method.name, uses.count, arenas, values)


def _planned(method: Method, uses: Uses) -> Iterator[Planned]:
    writers = _Writers(method, uses)
    inputs, outputs = frozenset(method.inputs), frozenset(method.outputs)
    for index, tensor in _placed(method):
        writer = writers.before(index)
        shown = (*uses.views.get(index, ()), *(() if writer is None else (writer.value,)))
        bases = tuple(dict.fromkeys(shown))
        role = _role(index, tensor, uses, bases, inputs, outputs)
        span = _span(index, role, uses, writer)
        allocation = tensor.allocation
        assert allocation is not None
        yield Planned(
            index, tensor.name, type_text(tensor), allocation.arena, allocation.offset,
            tensor.nbytes, span.first, span.last, role, bases,
        )  # fmt: skip


def _placed(method: Method) -> Iterator[tuple[int, Tensor]]:
    for index, value in enumerate(method.values):
        if isinstance(value, Tensor) and value.allocation is not None:
            yield index, value


def _role(
    index: int, tensor: Tensor, uses: Uses, bases: tuple[int, ...],
    inputs: frozenset[int], outputs: frozenset[int],
) -> str:  # fmt: skip
    if index in inputs:
        return INPUT
    if _is_kept(tensor):
        return STATE
    if index in outputs:
        return OUTPUT
    if index not in uses.spans:
        return UNUSED
    if bases:
        return VIEW
    return STATE if index in uses.read_first else VALUE


def _is_kept(tensor: Tensor) -> bool:
    """Return whether the value has its bytes before the method is called."""
    return tensor.has_data or tensor.name is not None


def _span(index: int, role: str, uses: Uses, writer: _Write | None) -> Span:
    if role == STATE:
        return Span(0, max(uses.count - 1, 0))
    found = uses.spans.get(index)
    if found is None:
        return Span(-1, -1)
    return found if writer is None else Span(min(found.first, max(writer.place, 0)), found.last)


class _Write(NamedTuple):
    """An instruction that writes a value; -1 for one that is initialized."""

    place: int
    value: int


class _Writers:
    """Finds the writers of values that are read without being written themselves.

    Views that only change the shape are not in the program: their value has the place of another,
    and is read without a write.
    """

    def __init__(self, method: Method, uses: Uses) -> None:
        self._uses = uses
        self._inputs = frozenset(method.inputs)
        self._allocations = {index: tensor.allocation for index, tensor in _placed(method)}
        self._writes: defaultdict[Allocation | None, list[_Write]] = defaultdict(list)
        for index, tensor in _placed(method):
            is_initialized = index in self._inputs or _is_kept(tensor)
            places = [-1] * is_initialized + list(uses.writes.get(index, ()))
            self._writes[tensor.allocation] += (_Write(place, index) for place in places)
        for writes in self._writes.values():
            writes.sort()

    def before(self, index: int) -> _Write | None:
        """Return the last write of the same place before a value is first read.

        None for a value that an instruction writes before.
        """
        first_read = self._uses.read_first.get(index)
        if first_read is None or index in self._inputs:
            return None
        writes = self._writes[self._allocations[index]]
        place = bisect_left(writes, (first_read,))
        found = writes[place - 1] if place else None
        return None if found is None or found.value == index else found
