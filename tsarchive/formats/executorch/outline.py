"""A program of ExecuTorch as an outline: each method is a module, whose routine has its values,
then its instructions, as operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tsarchive.analyses.encoding import Plain
from tsarchive.formats.contents import (
    Body,
    Definition,
    ModuleContent,
    Operation,
    Outline,
    Place,
    Routine,
)
from tsarchive.ir.source_ranges import Location

from .content import Program
from .methods import (
    Chain,
    DelegateCall,
    Frame,
    Free,
    IndexList,
    Instruction,
    JumpFalse,
    KernelCall,
    Method,
    Move,
    Tensor,
    Value,
    ValueList,
    item_at,
)
from .view import instruction_text, type_text

_NO_VALUE: Final = -1


def program_outline(program: Program | None) -> Outline:
    """Return the outline of a program; of a data file it has no methods."""
    root = ModuleContent(Definition("", {"kind": "program"}, {}, {}, {}), {})
    methods = () if program is None else program.reachable_methods
    return Outline({"": root, **{method.name: _module(method) for method in methods}}, [])


def _module(method: Method) -> ModuleContent:
    traits: dict[str, Plain] = {
        "kind": "method",
        "nesting inputs": method.input_nesting,
        "nesting outputs": method.output_nesting,
        **{f"plan arena {n}": size for n, size in enumerate(method.arenas)},
        **{f"plan device {n}": [*device] for n, device in enumerate(method.arena_devices)},
    }
    operations = [*_operations(method)]
    places = [operation.place for operation in operations if operation.place is not None]
    routine = Routine([], [], Body([], operations, []), lambda: places)
    return ModuleContent(Definition("", traits, {}, {}, {"": routine}), {})


def _operations(method: Method) -> Iterator[Operation]:
    """Yield values, so that each has its index for a number, then what uses them."""
    for line, operation in enumerate(_unplaced(method), 1):
        place = operation.place
        yield operation._replace(place=place and place._replace(line=line))


def _unplaced(method: Method) -> Iterator[Operation]:
    for index, value in enumerate(method.values):
        yield _value(method, index, value)
    for kind, indices in (("input", method.inputs), ("output", method.outputs)):
        for number, index in enumerate(indices):
            place = _place(f"{kind} {number}: %{index}")
            yield Operation(kind, [_use(method, index)], {"name": str(number)}, [], [], place)
    for number, chain in enumerate(method.chains):
        if number:
            yield Operation("chain", [], {}, [], [], _place(f"chain {number}"))
        for index, instruction in enumerate(chain.instructions):
            yield _instruction(method, instruction, _place_of(method, chain, index))


def _value(method: Method, index: int, value: Value) -> Operation:
    given: list[Plain] = []
    attributes: dict[str, Plain] = {}
    type_ = text = type_text(value)
    match value:
        case Tensor():
            type_, text = "Tensor", ", ".join(_tensor(value))
            attributes = {"described": text}
        case IndexList(items):
            given = [_use(method, item) for item in items]
        case ValueList(items):
            given = [[type_, [*items]]]
        case _:
            given = [[type_, value]]
    return Operation("value", given, attributes, [], [type_], _place(f"%{index}: {text}"))


def _tensor(tensor: Tensor) -> Iterator[str]:
    """Yield what a tensor is; type and name of one with stored bytes are told with these."""
    if tensor.has_data and not tensor.is_external:
        yield "stored"
    else:
        yield type_text(tensor)
        if tensor.name is not None:
            yield repr(tensor.name)
    if tensor.is_external:
        yield "in a data file"
    if [*tensor.dim_order] != sorted(tensor.dim_order):
        yield f"order of dimensions {[*tensor.dim_order]}"
    if tensor.allocation is not None:
        yield f"arena {tensor.allocation.arena} at {tensor.allocation.offset:,}"
    if tensor.requires_grad:
        yield "with gradient"
    if tensor.dynamism:
        yield f"at most {[*tensor.sizes]}, dynamism {tensor.dynamism}"
    if tensor.device_type or tensor.device_index:
        yield f"device {tensor.device_type}:{tensor.device_index}"


def _use(method: Method, index: int) -> Plain:
    """Return a value by its number, which is its index."""
    if 0 <= index < len(method.values):
        return index
    return ["value", None if index == _NO_VALUE else index]


def _instruction(method: Method, instruction: Instruction, place: Place) -> Operation:
    attributes: dict[str, Plain] = {}
    match instruction:
        case KernelCall(number, args):
            operator = item_at(method.operators, number)
            kind = "call" if operator is None else operator.qualified_name
        case DelegateCall(number, args):
            delegate = item_at(method.delegates, number)
            kind = "delegate" if delegate is None else f"delegate {delegate.backend}"
            options = () if delegate is None else delegate.options
            attributes = {"number": number, "options": [[key, bytes(v)] for key, v in options]}
        case Move(source, target):
            kind, args = "move", (source, target)
        case JumpFalse(condition, destination):
            kind, args, attributes = "jump if false", (condition,), {"destination": destination}
        case Free(value):
            kind, args = "free", (value,)
    return Operation(kind, [_use(method, arg) for arg in args], attributes, [], [], place)


def _place(text: str, frame: Frame | None = None) -> Place:
    return Place(text, lambda: None if frame is None else _location(frame))


def _location(frame: Frame) -> Location:
    return Location(frame.file, frame.line, frame.context.strip())


def _place_of(method: Method, chain: Chain, index: int) -> Place:
    """Return the place of an instruction, whose frames are outermost first."""
    frames: Any = chain.frames[index] if index < len(chain.frames) else ()
    text = instruction_text(method, chain.instructions[index])
    return _place(text, frames[-1] if frames else None)
