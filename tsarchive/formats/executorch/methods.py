"""The methods of a program: values, instructions, operators, delegates, arenas; their decoding.

A value is None, a bool, int, float or str, a tensor or a list. Element types have the numbers of
ATen. Numbers in instructions index values, operators and delegates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from .flatbuffer import Table


class ScalarType(NamedTuple):
    """An element type: torch's name without ``torch.``, and the size of an element in bytes."""

    name: str
    itemsize: int


SCALAR_TYPES: Final[Mapping[int, ScalarType]] = {
    0: ScalarType("uint8", 1),
    1: ScalarType("int8", 1),
    2: ScalarType("int16", 2),
    3: ScalarType("int32", 4),
    4: ScalarType("int64", 8),
    5: ScalarType("float16", 2),
    6: ScalarType("float32", 4),
    7: ScalarType("float64", 8),
    # Commented out in the schema, written by exir and read by the runtime.
    8: ScalarType("complex32", 4),
    9: ScalarType("complex64", 8),
    10: ScalarType("complex128", 16),
    11: ScalarType("bool", 1),
    12: ScalarType("qint8", 1),
    13: ScalarType("quint8", 1),
    14: ScalarType("qint32", 4),
    15: ScalarType("bfloat16", 2),
    16: ScalarType("quint4x2", 1),
    17: ScalarType("quint2x4", 1),
    22: ScalarType("bits16", 2),
    23: ScalarType("float8_e5m2", 1),
    24: ScalarType("float8_e4m3fn", 1),
    25: ScalarType("float8_e5m2fnuz", 1),
    26: ScalarType("float8_e4m3fnuz", 1),
    27: ScalarType("uint16", 2),
    28: ScalarType("uint32", 4),
    29: ScalarType("uint64", 8),
}

NO_TENSOR: Final = -1
# The maximum rank that the runtime accepts.
MAX_RANK: Final = 16
_MAX_BYTES: Final = (1 << 63) - 1


class Span(NamedTuple):
    """A byte range of an arena."""

    arena: int
    start: int
    end: int

    def meets(self, other: Span) -> bool:
        return self.arena == other.arena and self.start < other.end and other.start < self.end


class Shape(IntEnum):
    """The ways declared sizes bound a tensor: exactly, by their product, or not at all."""

    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


@dataclass(frozen=True, slots=True)
class Allocation:
    """A place in an arena of the memory plan: arenas count from 1, ``offset`` in bytes."""

    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The interpretation of bytes as a tensor; unchecked."""

    scalar_type: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """The element type, as torch's name without ``torch.``; a placeholder if unknown."""
        found = SCALAR_TYPES.get(self.scalar_type)
        return f"scalar type {self.scalar_type}" if found is None else found.name

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements, as the runtime derives them.

        () where ``dim_order`` is not a permutation of the dimensions, or there are too many for the
        runtime.
        """
        rank = len(self.sizes)
        if rank > MAX_RANK or sorted(self.dim_order) != list(range(rank)):
            return ()
        strides = [0] * rank
        step = 1
        for dim in reversed(self.dim_order):
            strides[dim] = step
            step *= max(self.sizes[dim], 1)
        return tuple(strides)

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes, 0 where the element type is unknown."""
        return byte_count(self.scalar_type, self.sizes)

    @property
    def problem(self) -> str | None:
        """Why no tensor can have this layout; None for a valid one."""
        rank = len(self.sizes)
        if self.scalar_type not in SCALAR_TYPES:
            return f"the scalar type {self.scalar_type} is not known"
        if min(self.sizes, default=0) < 0:
            return f"the size {min(self.sizes)} is negative"
        if rank > MAX_RANK:
            return f"it has {rank} dimensions, more than {MAX_RANK}"
        if byte_count(self.scalar_type, tuple(max(size, 1) for size in self.sizes)) > _MAX_BYTES:
            return "its bytes are more than 64 bits count"
        if sorted(self.dim_order) != list(range(rank)):
            return f"the order of dimensions {list(self.dim_order)} is no permutation of {rank}"
        return None


@dataclass(frozen=True, slots=True)
class Tensor(Layout):
    """A tensor as the file describes it; complete, but otherwise unchecked.

    ``sizes`` are upper bounds where ``dynamism`` is not static. ``data_index`` refers to its
    initial bytes, 0 for none; ``is_external`` if they are in a data file, under ``name``.
    ``mutable_index``, ``device_type`` and ``device_index`` are as written.
    """

    storage_offset: int
    requires_grad: bool
    data_index: int
    allocation: Allocation | None
    layout: int
    dynamism: int
    name: str | None = None
    is_external: bool = False
    mutable_index: int = 0
    device_type: int = 0
    device_index: int = 0

    @property
    def has_data(self) -> bool:
        """True if it has initial bytes, in the file or in a data file."""
        return self.is_external or bool(self.data_index)

    @property
    def span(self) -> Span | None:
        """Its place in the memory plan, if it has one."""
        if self.allocation is None:
            return None
        start = self.allocation.offset
        return Span(self.allocation.arena, start, start + self.nbytes)


@dataclass(frozen=True, slots=True)
class ValueList:
    """A list of one of the kinds below."""

    items: tuple[Any, ...]


class DoubleList(ValueList):
    """A list of floats."""


class BoolList(ValueList):
    """A list of bools."""


class IndexList(ValueList):
    """A list of other values, by their indices."""


class IntList(IndexList):
    """Indices of integer values, which allows symbolic sizes."""


class TensorList(IndexList):
    """Indices of tensor values."""


class OptionalTensorList(IndexList):
    """Indices of tensor values, -1 for None."""


Value: TypeAlias = bool | int | float | str | Tensor | ValueList | None


def byte_count(scalar_type: int, sizes: tuple[int, ...]) -> int:
    """Return the size of a tensor in bytes, 0 where its element type or sizes are invalid."""
    found = SCALAR_TYPES.get(scalar_type)
    if found is None or len(sizes) > MAX_RANK or min(sizes, default=0) < 0:
        return 0
    return math.prod(sizes) * found.itemsize


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Call an operator. ``args`` are those of its schema, outputs included, then its results."""

    operator: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Run a program of a backend."""

    delegate: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Make a value the same as another; no bytes are copied."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class JumpFalse:
    """Jump to an instruction of the chain if a bool, or any element of a bool tensor, is false."""

    condition: int
    destination: int


@dataclass(frozen=True, slots=True)
class Free:
    """Free the data of a tensor."""

    value: int


Instruction: TypeAlias = KernelCall | DelegateCall | Move | JumpFalse | Free


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator.

    ``name`` includes its namespace (``aten::add``), ``overload`` has no dot and may be empty.
    """

    name: str
    overload: str

    @property
    def qualified_name(self) -> str:
        """The name by which the runtime looks it up: ``aten::add.out``."""
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(frozen=True, slots=True)
class Delegate:
    """A subgraph for a backend. Its bytes are a segment, or in the tables if ``is_inline``."""

    backend: str
    is_inline: bool
    index: int
    options: tuple[tuple[str, memoryview], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of user source. ``line`` is 1-based, ``context`` its text."""

    file: str
    line: int
    function: str
    context: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Instructions, run from the first; ``frames`` has the stack of each, or is empty."""

    instructions: tuple[Instruction, ...]
    frames: tuple[tuple[Frame, ...], ...]


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    ``input_nesting`` and ``output_nesting`` describe how arguments and results are nested, in
    ExecuTorch's own notation or in torch's JSON; "" where the file does not say it.
    ``inputs`` and ``outputs`` index ``values``; ``arenas`` are sizes in bytes, the first a
    placeholder; ``arena_devices`` device type and index of some of them.
    """

    name: str
    input_nesting: str
    output_nesting: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[Chain, ...]
    operators: tuple[Operator, ...]
    delegates: tuple[Delegate, ...]
    arenas: tuple[int, ...]
    arena_devices: tuple[tuple[int, int, int], ...] = ()

    @property
    def written_values(self) -> Iterator[int]:
        """The values that instructions may change, by their indices: what a kernel is given last,
        all that a backend is given, and targets of moves."""
        for instruction in self.instructions:
            match instruction:
                case KernelCall(_, args):
                    yield from args[-1:]
                case DelegateCall(_, args):
                    yield from args
                case Move(_, target):
                    yield target

    @property
    def stored_tensors(self) -> Iterator[tuple[int, Tensor]]:
        """The values that are tensors with initial bytes, by their indices."""
        for index, value in enumerate(self.values):
            if isinstance(value, Tensor) and value.has_data:
                yield index, value

    @property
    def instructions(self) -> Iterator[Instruction]:
        """The instructions of all chains."""
        return (instruction for chain in self.chains for instruction in chain.instructions)

    def span_problem(self, span: Span) -> str | None:
        """Return why no value can be at this place of the memory plan."""
        if not 1 <= span.arena < len(self.arenas):
            return f"it is in arena {span.arena}, which is not there"
        size = self.arenas[span.arena]
        if span.end > size:
            return f"it ends at {span.end:,} of arena {span.arena}, which has {size:,} bytes"
        return None


_T = TypeVar("_T")

_EXTERNAL: Final = 1
_INLINE: Final = 0
_NOT_WRITTEN: Final = "it is not there, and the format demands it"


def item_at(items: Sequence[_T], index: int) -> _T | None:
    """Return an item by its number in a file, None where there is none."""
    return items[index] if 0 <= index < len(items) else None


def decode_method(plan: Table) -> Method:
    """Decode an execution plan. Raises FormatError where the tables break a rule."""
    nesting = plan.table("container_meta_type")
    return Method(
        name=_label(plan, "name"),
        input_nesting=(nesting and nesting.text("encoded_inp_str")) or "",
        output_nesting=(nesting and nesting.text("encoded_out_str")) or "",
        values=_each(plan, "values", _value),
        inputs=plan.numbers("inputs") or (),
        outputs=plan.numbers("outputs") or (),
        chains=_each(plan, "chains", _chain),
        operators=_each(plan, "operators", _operator),
        delegates=_each(plan, "delegates", _delegate),
        arenas=plan.numbers("non_const_buffer_sizes") or (),
        arena_devices=_each(plan, "non_const_buffer_device", _device),
    )


def _each(table: Table, field: str, decode: Callable[[Table], Any]) -> tuple[Any, ...]:
    return tuple(map(decode, table.tables(field) or ()))


def _label(table: Table, field: str) -> str:
    """Return a required short text."""
    return _required(table, field, table.label(field))


def _required(table: Table, field: str, found: _T | None) -> _T:
    """Return a part that must be there: the runtime would follow a null pointer."""
    if found is None:
        raise table.buffer.error(table.position, f"{table.path}.{field}: {_NOT_WRITTEN}")
    return found


def _operator(table: Table) -> Operator:
    return Operator(_label(table, "name"), table.label("overload") or "")


def _device(table: Table) -> tuple[int, int, int]:
    return table.scalar("buffer_idx"), table.scalar("device_type"), table.scalar("device_index")


def _delegate(table: Table) -> Delegate:
    processed = _required(table, "processed", table.table("processed"))
    is_inline = processed.scalar("location") == _INLINE
    options = _each(table, "compile_specs", _option)
    return Delegate(_label(table, "id"), is_inline, processed.scalar("index"), options)


def _option(table: Table) -> tuple[str, memoryview]:
    value = table.data("value")
    return table.text("key") or "", memoryview(b"") if value is None else value


def _value(table: Table) -> Value:
    member = _required(table, "val", table.member("val"))
    return _VALUES[member.name](member)


def _list(kind: Callable[[tuple[Any, ...]], Value]) -> Callable[[Table], Value]:
    return lambda table: kind(table.numbers("items") or ())


def _tensor(table: Table) -> Tensor:
    place, extra = table.table("allocation_info"), table.table("extra_tensor_info")
    allocation = None
    if place is not None:
        low, high = place.scalar("memory_offset_low"), place.scalar("memory_offset_high")
        allocation = Allocation(place.scalar("memory_id"), low | high << 32)
    return Tensor(
        scalar_type=table.scalar("scalar_type"),
        sizes=table.numbers("sizes") or (),
        dim_order=table.numbers("dim_order") or (),
        storage_offset=table.scalar("storage_offset"),
        requires_grad=bool(table.scalar("requires_grad")),
        data_index=table.scalar("data_buffer_idx"),
        allocation=allocation,
        layout=table.scalar("layout"),
        dynamism=table.scalar("shape_dynamism"),
        **({} if extra is None else _extra(extra)),
    )


def _extra(table: Table) -> dict[str, Any]:
    return {
        "name": table.text("fully_qualified_name"),
        "is_external": table.scalar("location") == _EXTERNAL,
        "mutable_index": table.scalar("mutable_data_segments_idx"),
        "device_type": table.scalar("device_type"),
        "device_index": table.scalar("device_index"),
    }


_VALUES: Final[Mapping[str, Callable[[Table], Value]]] = {
    "Null": lambda _table: None,
    "Int": lambda table: table.scalar("int_val"),
    "Bool": lambda table: bool(table.scalar("bool_val")),
    "Double": lambda table: float(table.scalar("double_val")),
    "String": lambda table: _required(table, "string_val", table.text("string_val")),
    "Tensor": _tensor,
    "IntList": _list(IntList),
    "DoubleList": _list(DoubleList),
    "BoolList": _list(BoolList),
    "TensorList": _list(TensorList),
    "OptionalTensorList": _list(OptionalTensorList),
}


def _chain(table: Table) -> Chain:
    return Chain(_each(table, "instructions", _instruction), _each(table, "stacktrace", _frames))


def _frames(table: Table) -> tuple[Frame, ...]:
    return _each(table, "items", _frame)


def _frame(table: Table) -> Frame:
    return Frame(
        table.text("filename") or "", table.scalar("lineno"), table.text("name") or "",
        table.text("context") or "",
    )  # fmt: skip


def _instruction(table: Table) -> Instruction:
    member = _required(table, "instr_args", table.member("instr_args"))
    return _INSTRUCTIONS[member.name](member)


_INSTRUCTIONS: Final[Mapping[str, Callable[[Table], Instruction]]] = {
    "KernelCall": lambda table: KernelCall(table.scalar("op_index"), table.numbers("args") or ()),
    "DelegateCall": lambda table: DelegateCall(
        table.scalar("delegate_index"), table.numbers("args") or ()
    ),
    "MoveCall": lambda table: Move(table.scalar("move_from"), table.scalar("move_to")),
    "JumpFalseCall": lambda table: JumpFalse(
        table.scalar("cond_value_index"), table.scalar("destination_instruction")
    ),
    "FreeCall": lambda table: Free(table.scalar("value_index")),
}
