"""The memory plan of a method: which value occupies which bytes of an arena, and when."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tsarchive.formats.executorch.listing import type_text
from tsarchive.formats.executorch.methods import Method
from tsarchive.formats.executorch.values import Allocation, Tensor

from .lifetimes import Span, Uses, uses_of

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
        span = _span(index, role, uses, writers)
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
    return bool(tensor.data_index) or tensor.is_external or tensor.name is not None


def _span(index: int, role: str, uses: Uses, writers: _Writers) -> Span:
    if role == STATE:
        return Span(0, max(uses.count - 1, 0))
    found = uses.spans.get(index)
    if found is None:
        return Span(-1, -1)
    writer = writers.before(index)
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
            self._writes[tensor.allocation] += self._of(index, tensor)
        for writes in self._writes.values():
            writes.sort()

    def _of(self, index: int, tensor: Tensor) -> Iterator[_Write]:
        if index in self._inputs or _is_kept(tensor):
            yield _Write(-1, index)
        yield from (_Write(place, index) for place in self._uses.writes.get(index, ()))

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
