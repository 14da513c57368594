"""Textual listings of methods: values with their types and locations, numbered instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tsarchive.errors import FormatError

from .methods import Chain, DelegateCall, Free, Instruction, JumpFalse, KernelCall, Method, Move
from .program import Program
from .values import (
    MAX_RANK,
    BoolList,
    DoubleList,
    IndexList,
    IntList,
    OptionalTensorList,
    Shape,
    Tensor,
    TensorList,
    Value,
)

_LONGEST_TEXT: Final = 200


class Listings(Mapping[str, str]):
    """A listing of each method, made on access.

    ``program`` is called each time: it ensures that the file is still the one that was opened.
    """

    def __init__(self, program: Callable[[], Program], *, sources: bool) -> None:
        self._program = program
        self._sources = sources

    def __getitem__(self, name: str) -> str:
        program = self._program()
        if name not in program.indices:
            raise KeyError(name)
        return listing(program, program.method(name), sources=self._sources)

    def __iter__(self) -> Iterator[str]:
        return iter(self._program().indices)

    def __len__(self) -> int:
        return len(self._program().indices)


def listing(program: Program, method: Method, *, sources: bool = False) -> str:
    """List a method, one item a line, including malformed ones as they are.

    ``%3`` is value number 3. With ``sources``, lines of user source precede the instructions that
    come from them.
    """
    lines = [*_head(method), *_values(program, method), *_chains(method, sources)]
    return "".join(f"{line}\n" for line in lines)


def plain(text: str) -> str:
    """Escape what is not printable, so that a text of the file takes one line."""
    return text if text.isprintable() else ascii(text)[1:-1]


def signature(method: Method) -> str:
    """Return the signature: ``forward(float32[2, 4]) -> float32[2, 3]``."""
    inputs = ", ".join(type_text(_at(method, index)) for index in method.inputs)
    outputs = [type_text(_at(method, index)) for index in method.outputs]
    result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return f"{plain(method.name)}({inputs}) -> {result}"


def type_text(value: Value | FormatError) -> str:
    """Return the type as text: ``float32[<=16, 4]`` (the first size is a bound), ``int``."""
    match value:
        case None:
            return "None"
        case Tensor():
            return f"{value.dtype}[{', '.join(_sizes(value))}]"
        case bool() | int() | float() | str():
            return type(value).__name__
        case FormatError():
            return "?"
    return _LIST_TYPES[type(value)]


_LIST_TYPES: Final[Mapping[type, str]] = {
    IntList: "int[]", DoubleList: "float[]", BoolList: "bool[]", TensorList: "Tensor[]",
    OptionalTensorList: "Tensor?[]",
}  # fmt: skip


def _sizes(tensor: Tensor) -> Iterator[str]:
    """Yield sizes; those of a dynamic tensor are all bounds."""
    if len(tensor.sizes) > MAX_RANK:
        return iter((f"{len(tensor.sizes):,} sizes",))
    if tensor.dynamism == Shape.DYNAMIC_UNBOUND:
        return ("?" for _ in tensor.sizes)
    bound = "<=" if tensor.dynamism == Shape.DYNAMIC_BOUND else ""
    return (f"{bound}{size}" for size in tensor.sizes)


def _head(method: Method) -> Iterator[str]:
    yield f"method {signature(method)}"
    if method.container is not None and method.container.inputs:
        yield f"  nested inputs: {plain(method.container.inputs)}"
    if method.container is not None and method.container.outputs:
        yield f"  nested outputs: {plain(method.container.outputs)}"
    for number, size in enumerate(method.arenas[1:], 1):
        yield f"  arena {number}: {size:,} bytes"
    for number, delegate in enumerate(method.delegates):
        where = "delegates" if delegate.is_inline else "segments"
        yield f"  delegate {number}: {plain(delegate.backend)}, program in {where}/{delegate.index}"
        yield from (f"    {plain(key)}: {len(value):,} bytes" for key, value in delegate.options)
    yield f"  inputs: {_references(method.inputs)}"
    yield f"  outputs: {_references(method.outputs)}"


def _references(indices: Iterable[int]) -> str:
    return ", ".join(f"%{index}" for index in indices) or "none"


def _values(program: Program, method: Method) -> Iterator[str]:
    yield "values:"
    for index, value in enumerate(method.values):
        yield f"  %{index}: {type_text(value)}{_content(program, value)}"


def _content(program: Program, value: Value) -> str:
    match value:
        case None:
            return ""
        case Tensor():
            return "".join(f", {part}" for part in _tensor_parts(program, value))
        case str():
            shown = value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}..."
            return f" = {shown!r}"
        case bool() | int() | float():
            return f" = {value!r}"
        case IndexList():
            return f" = [{', '.join(_reference(index) for index in value.items)}]"
    return f" = {list(value.items)!r}"


def _reference(index: int) -> str:
    return "None" if index < 0 else f"%{index}"


def _tensor_parts(program: Program, tensor: Tensor) -> Iterator[str]:
    if tensor.name is not None:
        yield repr(tensor.name)
    if len(tensor.dim_order) <= MAX_RANK and list(tensor.dim_order) != sorted(tensor.dim_order):
        yield f"order of dimensions {list(tensor.dim_order)}"
    if tensor.is_external:
        yield "in a data file"
    elif tensor.data_index:
        yield f"{_place(program, tensor)}, {tensor.nbytes:,} bytes"
    if tensor.allocation is not None:
        arena, offset = tensor.allocation.arena, tensor.allocation.offset
        yield f"arena {arena} at {offset:,}, {tensor.nbytes:,} bytes"
    elif not tensor.has_data:
        yield "given when it is run"


def _place(program: Program, tensor: Tensor) -> str:
    """Return the location of the initial bytes of a tensor: ``segments/0 at 16``."""
    record, offset = program.place_of(tensor)
    if record == "data":
        return f"data {tensor.data_index}, which is nowhere"
    if record.startswith("constants/"):
        return record
    return f"{record} at an unknown place" if offset is None else f"{record} at {offset:,}"


def _chains(method: Method, sources: bool) -> Iterator[str]:
    for number, chain in enumerate(method.chains):
        suffix = f" of chain {number}" if len(method.chains) > 1 else ""
        yield f"instructions{suffix}:"
        for index, instruction in enumerate(chain.instructions):
            if sources:
                yield from _frames(chain, index)
            yield f"  {index}: {instruction_text(method, instruction)}"


def _frames(chain: Chain, index: int) -> Iterator[str]:
    if index < len(chain.frames):
        for frame in chain.frames[index]:
            place = f"{frame.file}:{frame.line} in {frame.function}: {frame.context.strip()}"
            yield f"  # {plain(place)}"


def instruction_text(method: Method, instruction: Instruction) -> str:
    """Return an instruction as text: ``aten::add.out(%0, %1, %2, %3, %3)``."""
    match instruction:
        case KernelCall(operator, args):
            return f"{_operator(method, operator)}({_references(args) if args else ''})"
        case DelegateCall(delegate, args):
            backend = _delegate(method, delegate)
            return f"delegate {delegate} ({backend})({_references(args) if args else ''})"
        case Move(source, target):
            return f"%{target} = %{source}"
        case JumpFalse(condition, destination):
            return f"if not %{condition}: go to {destination}"
        case Free(value):
            return f"free %{value}"


def _operator(method: Method, index: int) -> str:
    known = 0 <= index < len(method.operators)
    return (
        plain(method.operators[index].qualified_name) if known else f"operator {index}, not listed"
    )


def _delegate(method: Method, index: int) -> str:
    known = 0 <= index < len(method.delegates)
    return plain(method.delegates[index].backend) if known else "not listed"


def _at(method: Method, index: int) -> Value | FormatError:
    known = 0 <= index < len(method.values)
    return method.values[index] if known else FormatError(f"there is no value {index}")
