"""The layout of a program's tensors: arenas shared by its methods, and buffers.

Arenas are as large as the largest that a method asks for. A tensor without a place that is not a
constant has an arena of its own. Constants and initial values are buffers of the module, by their
names, or by method and value number.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.executorch.methods import Method
from tsarchive.formats.executorch.program import RECORD, Program
from tsarchive.formats.executorch.scalar_types import SCALAR_TYPES
from tsarchive.formats.executorch.values import Allocation, Shape, Tensor, layout_problem

_UNSUPPORTED: Final = frozenset({"qint8", "quint8", "qint32", "quint4x2", "quint2x4", "bits16"})


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor in an arena, ``offset`` bytes from its start."""

    arena: int
    offset: int
    tensor: Tensor


@dataclass(slots=True)
class Layout:
    """The layout of all tensors. ``arenas`` are sizes in bytes; each of ``places`` is unique.

    ``planned`` maps, for each method, planned values to their places; ``constants`` maps values to
    names of buffers. ``buffers`` are tensors by name, or indices of places of those that methods
    change.
    """

    arenas: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    planned: dict[str, dict[int, int]] = field(default_factory=dict)
    constants: dict[str, dict[int, str]] = field(default_factory=dict)
    buffers: dict[str, Tensor | int] = field(default_factory=dict)


def layout_of(program: Program) -> Layout:
    """Compute the layout of the first method of each name.

    Raises FormatError for a tensor that does not fit into its arena, UnsupportedError for one that
    torch cannot represent.
    """
    made = _Made(_shared_arenas(program))
    for index in program.indices.values():
        made.add(program.methods[index])
    return made.layout


def _shared_arenas(program: Program) -> list[int]:
    """Return the size of each arena in bytes; the first is a placeholder, as in the file."""
    found: list[int] = [0]
    for index in program.indices.values():
        for number, size in enumerate(program.methods[index].arenas):
            if size < 0:
                raise FormatError(f"arena {number} has {size} bytes", record=RECORD)
            found += [0] * (number + 1 - len(found))
            found[number] = max(found[number], size)
    return found


_Key = tuple[object, ...]


class _Made:
    def __init__(self, arenas: list[int]) -> None:
        self.layout = Layout(arenas)
        self._shared = len(arenas)
        self._known_places: dict[_Key, int] = {}
        self._known_constants: dict[_Key, str] = {}
        self._named: set[int] = set()

    def add(self, method: Method) -> None:
        planned = self.layout.planned.setdefault(method.name, {})
        constants = self.layout.constants.setdefault(method.name, {})
        for index, value in enumerate(method.values):
            if not isinstance(value, Tensor):
                continue
            try:
                self._tensor(method, index, value, planned, constants)
            except (FormatError, UnsupportedError) as error:
                error.message = f"method {method.name!r}, value {index}: {error.message}"
                error.record = error.record or RECORD
                raise

    def _tensor(
        self,
        method: Method,
        index: int,
        tensor: Tensor,
        planned: dict[int, int],
        constants: dict[int, str],
    ) -> None:
        _check(tensor)
        has_data = tensor.is_external or bool(tensor.data_index)
        if tensor.allocation is None and has_data:
            constants[index] = self._constant(method, index, tensor)
            return
        number = planned[index] = self._place(method, tensor)
        is_state = has_data or (tensor.name and tensor.allocation is not None)
        if is_state and number not in self._named:
            self._named.add(number)
            self._buffer(method, index, tensor, number)

    def _constant(self, method: Method, index: int, tensor: Tensor) -> str:
        """Return the name of a constant, shared by methods where its bytes are the same."""
        key = _key(tensor)
        found = self._known_constants.get(key)
        if found is None:
            found = self._known_constants[key] = self._buffer(method, index, tensor, tensor)
        return found

    def _buffer(self, method: Method, index: int, tensor: Tensor, content: Tensor | int) -> str:
        name = tensor.name
        if not name or name in self.layout.buffers:
            name = _free(f"{method.name}.{index}", self.layout.buffers)
        self.layout.buffers[name] = content
        return name

    def _place(self, method: Method, tensor: Tensor) -> int:
        allocation = tensor.allocation
        if allocation is None:
            self.layout.arenas.append(tensor.nbytes)
            self.layout.places.append(Place(len(self.layout.arenas) - 1, 0, tensor))
            return len(self.layout.places) - 1
        _check_allocation(method, tensor, allocation)
        # Buffers that methods share are one tensor, as they are one memory.
        is_shared = bool(tensor.name) or bool(tensor.data_index)
        key = _key(tensor)
        found = self._known_places.get(key) if is_shared else None
        if found is None:
            self.layout.places.append(Place(allocation.arena, allocation.offset, tensor))
            found = self._known_places[key] = len(self.layout.places) - 1
        return found


def _free(name: str, taken: Container[str]) -> str:
    found, number = name, 0
    while found in taken:
        found, number = f"{name}.{number}", number + 1
    return found


def _key(tensor: Tensor) -> _Key:
    # Each method has its own initial bytes for a buffer that all share by name and place.
    is_shared = tensor.is_external or (tensor.name and tensor.allocation is not None)
    index = 0 if is_shared else tensor.data_index
    return (
        tensor.name, tensor.is_external, index, tensor.allocation, tensor.scalar_type,
        tensor.sizes, tensor.dim_order, tensor.dynamism,
    )  # fmt: skip


def _check(tensor: Tensor) -> None:
    problem = layout_problem(tensor.scalar_type, tensor.sizes, tensor.dim_order)
    if problem is not None:
        raise FormatError(problem)
    if tensor.storage_offset:
        raise FormatError(f"the storage offset is {tensor.storage_offset}, not 0")
    if tensor.dynamism not in (Shape.STATIC, Shape.DYNAMIC_BOUND):
        raise UnsupportedError(f"its sizes are not bound (shape dynamism {tensor.dynamism})")
    if tensor.dtype in _UNSUPPORTED:
        raise UnsupportedError(f"memory of a plan cannot hold elements of type {tensor.dtype}")


def _check_allocation(method: Method, tensor: Tensor, allocation: Allocation) -> None:
    arena, offset = allocation.arena, allocation.offset
    if not 1 <= arena < len(method.arenas):
        raise FormatError(f"it is in arena {arena}, which is not there")
    if offset + tensor.nbytes > method.arenas[arena]:
        end, size = offset + tensor.nbytes, method.arenas[arena]
        raise FormatError(f"it ends at {end:,} of arena {arena}, which has {size:,} bytes")
    if offset % SCALAR_TYPES[tensor.scalar_type].itemsize:
        raise FormatError(f"it begins at {offset:,} of arena {arena}, between two elements")
