"""The methods of a program: values, instructions, operators, delegates, arenas; their decoding.

Numbers in instructions index values, operators and delegates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from .flatbuffer import Table
from .values import (
    Allocation,
    BoolList,
    DoubleList,
    IntList,
    OptionalTensorList,
    Span,
    Tensor,
    TensorList,
    Value,
)


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
class Container:
    """The nesting of arguments and results: in ExecuTorch's own notation, or in torch's JSON."""

    inputs: str
    outputs: str


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    ``inputs`` and ``outputs`` index ``values``; ``arenas`` are sizes in bytes, the first a
    placeholder; ``arena_devices`` device type and index of some of them.
    """

    name: str
    container: Container | None
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[Chain, ...]
    operators: tuple[Operator, ...]
    delegates: tuple[Delegate, ...]
    arenas: tuple[int, ...]
    arena_devices: tuple[tuple[int, int, int], ...] = ()

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


def decode_method(plan: Table) -> Method:
    """Decode an execution plan. Raises FormatError where the tables break a rule."""
    container = plan.table("container_meta_type")
    return Method(
        name=_label(plan, "name"),
        container=None if container is None else _container(container),
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


def _container(table: Table) -> Container:
    return Container(table.text("encoded_inp_str") or "", table.text("encoded_out_str") or "")


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
        requires_grad=table.scalar("requires_grad"),
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
