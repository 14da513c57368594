"""Analysis of a method's values: types, which are rebound, and which may alias.

A tensor is one object that instructions write to, and a move makes two values the same one. Values
rebound by moves and by operators that return numbers keep their content for the next call, as in
the runtime: loops count in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tsarchive.errors import FormatError
from tsarchive.formats.executorch.methods import Method, Move
from tsarchive.formats.executorch.values import (
    NO_TENSOR,
    IndexList,
    OptionalTensorList,
    Span,
    Tensor,
    TensorList,
    Value,
)
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING, TENSOR, Type, annotation

from .instructions import BasicBlock, Call, Step, result_type

_TYPES: Final[Mapping[type, Type]] = {
    bool: BOOL, int: INT, float: FLOAT, str: STRING, type(None): NONE, Tensor: TENSOR,
}  # fmt: skip

NUMBERS: Final = frozenset({BOOL, INT, FLOAT})


# The constants count as one range.
_CONSTANT: Final = Span(-1, 0, 1)
# Larger groups of values joined by moves are assumed to alias without comparing them.
_MOST_COMPARED: Final = 100


class Slots:
    """The facts about values that are known statically.

    ``types`` are those of single values. ``rebound`` are the values that are rebound, and ``kept``
    those of them that a call may read before it sets them. Raises FormatError where an instruction
    sets a value to something it cannot hold.
    """

    def __init__(self, method: Method, blocks: Sequence[BasicBlock]) -> None:
        self.values = method.values
        self.types: dict[int, Type] = {
            index: _TYPES[type(value)]
            for index, value in enumerate(self.values)
            if type(value) in _TYPES
        }
        every = [numbered.instruction for block in blocks for numbered in block.instructions]
        self.rebound = frozenset(_rebound(every))
        self._given: set[int] = set()
        for step in every:
            self._type_results(step)
        has_jumps = any(block.condition is not None for block in blocks)
        self.kept = self.rebound if has_jumps else frozenset(self._read_early(method, every))
        self._groups = _groups(every)
        self._taken = frozenset(self._taken_by(every)).union(method.outputs)

    def value(self, index: int) -> Value:
        """Return a value. Raises FormatError when there is none of this number."""
        if not 0 <= index < len(self.values):
            raise FormatError(f"it uses value {index}, which is not there")
        return self.values[index]

    def type_of(self, index: int) -> Type:
        """Return the type of a single value. Raises FormatError for lists."""
        self.value(index)
        found = self.types.get(index)
        if found is None:
            raise FormatError(f"it uses value {index}, which is a list, as a single one")
        return found

    def initial(self, index: int) -> Value:
        """Return a value's content before the first call; None where its readers cannot use it."""
        value = self.value(index)
        return value if _TYPES.get(type(value)) == self.types.get(index) else None

    def is_read(self, index: int) -> bool:
        """Return whether an instruction reads a value, or the method returns it."""
        return index in self._taken

    def items(self, index: int) -> Iterator[int]:
        """Yield a value, or the tensors of a list."""
        value = self.value(index)
        if isinstance(value, TensorList | OptionalTensorList):
            yield from (item for item in value.items if item != NO_TENSOR)
        else:
            yield index

    def overlap(self, one: int, other: int) -> bool:
        """Return whether two tensors may share memory."""
        first, second = (self._groups.get(index, (index,)) for index in (one, other))
        if first is second or len(first) + len(second) > _MOST_COMPARED:
            return True
        spans = list(self._spans(second))
        return any(span.meets(found) for span in self._spans(first) for found in spans)

    def _spans(self, indices: Iterable[int]) -> Iterator[Span]:
        for index in indices:
            value = self.value(index)
            if isinstance(value, Tensor):
                alone = Span(-2 - index, 0, 1)
                yield value.span or (_CONSTANT if value.has_data else alone)

    def _type_results(self, step: Step) -> None:
        if isinstance(step, Move):
            self._set_type(step.target, self.type_of(step.source))
        elif isinstance(step, Call) and step.result is not None:
            operands = [self.types.get(index, NONE) for index in step.args]
            declared = self._element_type(step) or self.type_of(step.result)
            self._set_type(step.result, result_type(step, operands, declared))

    def _element_type(self, call: Call) -> Type | None:
        """Return the type of the number in a tensor, for a call that extracts it."""
        if call.name != "aten::_local_scalar_dense":
            return None
        tensor = self.value(call.args[0])
        if not isinstance(tensor, Tensor):
            return None
        if tensor.dtype == "bool":
            return BOOL
        return FLOAT if "float" in tensor.dtype else INT

    def _set_type(self, index: int, type_: Type) -> None:
        """Set the type of a number or None by its first assignment.

        Writers put the integer 0 where a comparison of sizes, or the item of a tensor, will be
        stored.
        """
        before = self.type_of(index)
        is_first = before in NUMBERS and type_ in NUMBERS and index not in self._given
        if is_first or before == NONE:
            self.types[index] = type_
        elif before != type_:
            holds, given = annotation(before), annotation(type_)
            raise FormatError(f"value {index} holds {holds}, and is given {given}")
        self._given.add(index)

    def _read_early(self, method: Method, steps: Iterable[Step]) -> Iterator[int]:
        """Yield values that a method without jumps reads before it sets them, or never sets."""
        is_set: set[int] = set()
        for step in steps:
            for index in self._reads(step):
                if index in self.rebound and index not in is_set:
                    yield index
            is_set.update(_rebound([step]))

    def _reads(self, step: Step) -> Iterator[int]:
        if isinstance(step, Move):
            yield step.source
        elif isinstance(step, Call):
            for index in step.args:
                yield from self._with_items(index)

    def _taken_by(self, steps: Iterable[Step]) -> Iterator[int]:
        for step in steps:
            if isinstance(step, Call):
                for index in step.taken():
                    yield from self._with_items(index)
            else:
                yield from self._reads(step)

    def _with_items(self, index: int) -> Iterator[int]:
        value = self.value(index)
        if isinstance(value, IndexList):
            yield from value.items
        else:
            yield index


def _rebound(steps: Iterable[Step]) -> Iterator[int]:
    for step in steps:
        if isinstance(step, Move):
            yield step.target
        elif isinstance(step, Call) and step.result is not None:
            yield step.result


def _groups(steps: Iterable[Step]) -> Mapping[int, frozenset[int]]:
    """Map each value that may come to share memory to all others in its group."""
    found: dict[int, set[int]] = {}
    for step in steps:
        for one, other in _shared(step):
            first, second = found.get(one, {one}), found.get(other, {other})
            if first is not second:
                small, large = sorted((first, second), key=len)
                large |= small
                found.update(dict.fromkeys(small, large))
                found.update(dict.fromkeys((one, other), large))
    frozen = {id(group): frozenset(group) for group in found.values()}
    return {index: frozen[id(group)] for index, group in found.items()}


def _shared(step: Step) -> Iterator[tuple[int, int]]:
    if isinstance(step, Move):
        yield step.source, step.target
    elif isinstance(step, Call) and step.is_view:
        yield step.args[0], step.args[-1]
