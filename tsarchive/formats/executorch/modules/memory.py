"""The memory of a module: arenas, the tensors that lie in them, and buffers.

All methods share it, so one runs at a time. Arenas are as large as the largest that a method asks
for. A tensor without a place that is not a constant has an arena of its own. Constants and initial
values are buffers of the module, by their names, or by method and value number. Copies of a module
have memory of their own.

Methods identify a buffer that they change by its memory, and others by name and type. Values can be
copied into them; replacing a buffer by another tensor raises an error instead of being ignored.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import is_
from typing import Any, Final

import torch

from tsarchive.errors import CallError, FormatError, LimitError, UnsupportedError
from tsarchive.formats.executorch.content import RECORD, Program
from tsarchive.formats.executorch.methods import (
    SCALAR_TYPES,
    Method,
    Shape,
    Tensor,
)
from tsarchive.formats.executorch.methods import Layout as TensorLayout
from tsarchive.formats.torchscript.tensors import without_warnings

_UNSUPPORTED: Final = frozenset({"qint8", "quint8", "qint32", "quint4x2", "quint2x4", "bits16"})


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor in an arena, ``offset`` bytes from its start."""

    arena: int
    offset: int
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Names:
    """Attributes of the module that a method uses.

    ``planned`` maps planned values, in the order of the list that holds their tensors, to places in
    the layout; ``constants`` maps values to names of constant buffers.
    """

    method: str
    planned: dict[int, int] = field(default_factory=dict)
    constants: dict[int, str] = field(default_factory=dict)

    @property
    def tensors(self) -> str:
        return f"tensors of {self.method}"

    def kept(self, index: int) -> str:
        """Return the name of the attribute that keeps a rebound value."""
        return f"{self.method} %{index}"


@dataclass(slots=True)
class Layout:
    """The layout of all tensors. ``arenas`` are sizes in bytes; each of ``places`` is unique.

    ``buffers`` are tensors by name, or indices of places of those that methods change.
    """

    arenas: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    methods: dict[str, Names] = field(default_factory=dict)
    buffers: dict[str, Tensor | int] = field(default_factory=dict)


def layout_of(program: Program) -> Layout:
    """Compute the layout of the first method of each name.

    Raises FormatError for a tensor that does not fit into its arena, UnsupportedError for one that
    torch cannot represent.
    """
    arenas: list[int] = [0]  # the first is a placeholder, as in the file
    for method in program.reachable_methods:
        for number, size in enumerate(method.arenas):
            if size < 0:
                raise FormatError(f"arena {number} has {size} bytes", record=RECORD)
            arenas += [0] * (number + 1 - len(arenas))
            arenas[number] = max(arenas[number], size)
    made = _LayoutBuilder(arenas)
    for method in program.reachable_methods:
        made.add(method)
    return made.layout


_Key = tuple[object, ...]


class _LayoutBuilder:
    """Adds the tensors of methods to a layout."""

    def __init__(self, arenas: list[int]) -> None:
        self.layout = Layout(arenas)
        self._known_places: dict[_Key, int] = {}
        self._known_constants: dict[_Key, str] = {}
        self._named: set[int] = set()

    def add(self, method: Method) -> None:
        self.layout.methods[method.name] = Names(method.name)
        for index, value in enumerate(method.values):
            if not isinstance(value, Tensor):
                continue
            try:
                self._tensor(method, index, value)
            except (FormatError, UnsupportedError) as error:
                error.message = f"method {method.name!r}, value {index}: {error.message}"
                error.record = error.record or RECORD
                raise

    def _tensor(self, method: Method, index: int, tensor: Tensor) -> None:
        names = self.layout.methods[method.name]
        _check(tensor)
        if tensor.allocation is None and tensor.has_data:
            names.constants[index] = self._constant(method, index, tensor)
            return
        number = names.planned[index] = self._place(method, tensor)
        is_state = tensor.has_data or (tensor.name and tensor.allocation is not None)
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
            name, number = f"{method.name}.{index}", 0
            while name in self.layout.buffers:
                name, number = f"{name}.{number}", number + 1
        self.layout.buffers[name] = content
        return name

    def _place(self, method: Method, tensor: Tensor) -> int:
        span = tensor.span
        if span is None:
            self.layout.arenas.append(tensor.nbytes)
            self.layout.places.append(Place(len(self.layout.arenas) - 1, 0, tensor))
            return len(self.layout.places) - 1
        problem = method.span_problem(span)
        if problem is None and span.start % SCALAR_TYPES[tensor.scalar_type].itemsize:
            problem = f"it begins at {span.start:,} of arena {span.arena}, between two elements"
        if problem is not None:
            raise FormatError(problem)
        # Buffers that methods share are one tensor, as they are one memory.
        is_shared = bool(tensor.name) or bool(tensor.data_index)
        key = _key(tensor)
        found = self._known_places.get(key) if is_shared else None
        if found is None:
            self.layout.places.append(Place(span.arena, span.start, tensor))
            found = self._known_places[key] = len(self.layout.places) - 1
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
    if tensor.problem is not None:
        raise FormatError(tensor.problem)
    if tensor.storage_offset:
        raise FormatError(f"the storage offset is {tensor.storage_offset}, not 0")
    if tensor.dynamism not in (Shape.STATIC, Shape.DYNAMIC_BOUND):
        raise UnsupportedError(f"its sizes are not bound (shape dynamism {tensor.dynamism})")
    if tensor.dtype in _UNSUPPORTED:
        raise UnsupportedError(f"memory of a plan cannot hold elements of type {tensor.dtype}")


class Memory:
    """Arenas of zeros, committed as they are written to. Sizes are in bytes.

    Raises LimitError where the system lacks memory.
    """

    def __init__(self, layout: Layout) -> None:
        self.lock = threading.RLock()
        self._layout = layout
        self._arenas = [_arena(size) for size in layout.arenas]
        self.tensors = [_tensor(self._arenas[place.arena], place) for place in layout.places]
        # Buffers of the module that were found to be the ones that methods use.
        self.checked: list[Any] = []

    def contents(self) -> list[bytes]:
        """Return a copy of the bytes of each arena."""
        pairs = zip(self._arenas, self._layout.arenas, strict=True)
        return [arena[:size] for arena, size in pairs]

    def fill(self, contents: Iterable[bytes]) -> None:
        """Set the bytes of each arena."""
        for arena, content in zip(self._arenas, contents, strict=True):
            arena[: len(content)] = content

    def check_buffers(self, buffers: Mapping[str, Any]) -> None:
        """Raise CallError for a buffer of the module that the program was not made for.

        This comes before each call, and is cheap while nothing changed.
        """
        known = self.checked
        if len(known) != len(buffers) or not all(map(is_, buffers.values(), known)):
            for name, content in self._layout.buffers.items():
                _check_buffer(name, content, self, buffers.get(name))
            self.checked = list(buffers.values())

    def copied(self, memo: dict[int, Any]) -> Memory:
        """Copy into new memory. ``memo`` maps each tensor to its copy."""
        made = Memory(self._layout)
        for mine, other in zip(self._arenas, made._arenas, strict=True):
            other[:] = mine[:]
        for tensor, copy in zip(self.tensors, made.tensors, strict=True):
            memo[id(tensor)] = copy
        return made


def _arena(size: int) -> mmap.mmap:
    """Return memory for an arena; the system gives no map without bytes."""
    try:
        return mmap.mmap(-1, max(size, 1))
    except (OSError, OverflowError, ValueError) as error:
        raise LimitError(
            f"the memory plan has an arena of {size:,} bytes, which this process cannot have",
            hint="It stands in the program, as the bound of a size or as that of an arena",
        ) from error


@cache
def _dtype(name: str) -> torch.dtype:
    """Return a dtype after triggering torch's one-time warning about it, suppressed.

    Users cannot change what a file holds.
    """
    found: torch.dtype = getattr(torch, name)
    with without_warnings():
        torch.empty(0, dtype=found, device="cpu")
    return found


def _tensor(arena: mmap.mmap, place: Place) -> torch.Tensor:
    """Return a tensor whose storage is exactly its place."""
    tensor = place.tensor
    dtype = _dtype(tensor.dtype)
    count = tensor.nbytes // dtype.itemsize
    if not count:
        # A view beyond the only element of its storage has no memory, and gets none.
        alone = torch.frombuffer(bytearray(dtype.itemsize), dtype=dtype)
        return alone.as_strided(tensor.sizes, tensor.strides, 1)
    made = torch.frombuffer(arena, dtype=dtype, count=count, offset=place.offset)
    return made.as_strided(tensor.sizes, tensor.strides)


def tensor_over(data: memoryview, described: TensorLayout) -> torch.Tensor:
    """Return a tensor over bytes of a file, or over a copy of them if they are misaligned."""
    dtype = _dtype(described.dtype)
    if not len(data):
        return torch.empty_strided(described.sizes, described.strides, dtype=dtype)
    found = torch.frombuffer(data, dtype=dtype, count=len(data) // dtype.itemsize)
    if found.data_ptr() % dtype.itemsize:
        found = torch.frombuffer(bytearray(data), dtype=dtype)
    return found.as_strided(described.sizes, described.strides)


def _check_buffer(name: str, content: Tensor | int, memory: Memory, found: Any) -> None:
    made_for = _shown(content if isinstance(content, Tensor) else memory.tensors[content])
    is_now = _shown(found) if isinstance(found, torch.Tensor) else type(found).__name__
    if is_now != made_for:
        raise CallError(
            f"the buffer {name!r} is {is_now}; the program was made for {made_for}",
            hint="A program runs in the types and sizes that it was exported with",
        )
    if isinstance(content, int) and found is not memory.tensors[content]:
        raise CallError(
            f"the buffer {name!r} is another tensor than the one in the program's memory",
            hint="Copy values into it: with copy_(), or by load_state_dict()",
        )


def _shown(tensor: Tensor | torch.Tensor) -> str:
    if isinstance(tensor, Tensor):
        return f"{tensor.dtype}{list(tensor.sizes)} on cpu"
    return f"{type_text(tensor)} on {tensor.device.type}"


def type_text(tensor: torch.Tensor) -> str:
    """Return the type and the sizes of a tensor as text: ``float32[2, 3]``."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def load_from_state_dict(
    module: Any,
    state_dict: Mapping[str, Any],
    prefix: str,
    local_metadata: Mapping[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Implement ``_load_from_state_dict``; values are copied even with ``assign=True``.

    torch takes a name with dots for that of a submodule; here it names a buffer.
    """
    metadata = {**local_metadata, "assign_to_params_buffers": False}
    own: list[str] = []
    torch.nn.Module._load_from_state_dict(
        module, state_dict, prefix, metadata, strict, missing_keys, own, error_msgs
    )
    names = {prefix + name for name in module._buffers}
    unexpected_keys += [key for key in own if key not in names]
