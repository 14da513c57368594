"""A program of ExecuTorch as an outline: each method is a module, whose routine has its values,
then its instructions, as operations."""

from __future__ import annotations

import re
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
    IntList,
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
# Longer lists and strings, which many operators may take, are told once.
_LONGEST: Final = 64
_INDEX: Final = re.compile(r"%(\d+)")


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
    """Yield values, then what uses them."""
    for line, operation in enumerate(_unplaced(method), 1):
        place = operation.place
        yield operation._replace(place=place and place._replace(line=line))


def _unplaced(method: Method) -> Iterator[Operation]:
    values = _Values(method)
    for index in values.numbers:
        yield _value(values, index, method.values[index])
    for kind, indices in (("input", method.inputs), ("output", method.outputs)):
        for number, index in enumerate(indices):
            place = _place(f"{kind} {number}: %{index}")
            yield Operation(kind, [values.use(index)], {"name": str(number)}, [], [], place)
    for number, chain in enumerate(method.chains):
        if number:
            yield Operation("chain", [], {}, [], [], _place(f"chain {number}"))
        for index, instruction in enumerate(chain.instructions):
            place = _place_of(method, values, chain, index)
            yield _instruction(method, values, instruction, place)


class _Values:
    """The values of a method: numbers, and literals, which are told where operators take them."""

    def __init__(self, method: Method) -> None:
        self._values = method.values
        self._calls = [each for each in method.instructions if isinstance(each, KernelCall)]
        self._variable = {*_variables(method)}
        taken = {arg for call in self._calls for arg in call.args if self._is_literal(arg)}
        items = {item for arg in taken for item in self._items(arg)}
        self._literals = {index: self._literal(index) for index in taken | items}
        kept = (index for index, _ in enumerate(self._values) if index not in self._literals)
        self.numbers = {index: number for number, index in enumerate(kept)}

    def _items(self, index: int) -> tuple[int, ...]:
        value = self._values[index]
        return value.items if isinstance(value, IndexList) else ()

    def _is_literal(self, index: int) -> bool:
        """Return whether a value stays as the file has it."""
        if index in self._variable or not 0 <= index < len(self._values):
            return False
        value = self._values[index]
        if _size(value) > _LONGEST:
            return False
        if isinstance(value, IntList):
            return all(self._is_number(item) for item in value.items)
        return not isinstance(value, Tensor | IndexList)

    def _is_number(self, index: int) -> bool:
        return self._is_literal(index) and type(self._values[index]) is int

    def _literal(self, index: int) -> Plain:
        value: Any = self._values[index]
        if isinstance(value, IntList):
            return [type_text(value), [self._values[item] for item in value.items]]
        return [type_text(value), [*value.items] if isinstance(value, ValueList) else value]

    def use(self, index: int) -> Plain:
        """Return a value by its number, or a literal."""
        if index in self._literals:
            return self._literals[index]
        if index in self.numbers:
            return self.numbers[index]
        return ["value", None if index == _NO_VALUE else index]

    def text(self, text: str) -> str:
        """Return the text of an instruction with literals instead of their indices."""
        return _INDEX.sub(self._text, text)

    def _text(self, match: re.Match[str]) -> str:
        literal: Any = self._literals.get(int(match[1]))
        return match[0] if literal is None else repr(literal[1])


def _size(value: Value) -> int:
    if isinstance(value, ValueList):
        return len(value.items)
    return len(value) if isinstance(value, str) else 1


def _variables(method: Method) -> Iterator[int]:
    """Yield the values that instructions may change, of a kernel what it is given last, and those
    in lists that are no literals."""
    yield from (*method.inputs, *method.outputs)
    calls = (each for each in method.instructions if isinstance(each, KernelCall))
    taken = {arg for call in calls for arg in call.args}
    for index, value in enumerate(method.values):
        if isinstance(value, IndexList) and not (index in taken and _is_of_numbers(method, value)):
            yield from value.items
    yield from method.written_values
    for instruction in method.instructions:
        match instruction:
            case Move(source, _):
                yield source
            case JumpFalse(condition, _):
                yield condition
            case Free(value):
                yield value


def _is_of_numbers(method: Method, value: IndexList) -> bool:
    return all(type(item_at(method.values, item)) is int for item in value.items)


def _value(values: _Values, index: int, value: Value) -> Operation:
    given: list[Plain] = []
    attributes: dict[str, Plain] = {}
    type_ = text = type_text(value)
    match value:
        case Tensor():
            type_, text = "Tensor", ", ".join(_tensor(value))
            attributes = {"described": text}
        case IndexList(items):
            given = [values.use(item) for item in items]
        case ValueList(items):
            given = [[type_, [*items]]]
            text = f"{type_} = {[*items]}"
        case _:
            given = [[type_, value]]
            text = type_ if value is None else f"{type_} = {value!r}"
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
    if [*tensor.dim_order] != [*range(len(tensor.dim_order))]:
        yield f"order of dimensions {[*tensor.dim_order]}"
    if tensor.allocation is not None:
        yield f"arena {tensor.allocation.arena} at {tensor.allocation.offset:,}"
    if tensor.requires_grad:
        yield "with gradient"
    if tensor.dynamism:
        yield f"at most {[*tensor.sizes]}, dynamism {tensor.dynamism}"
    if tensor.device_type or tensor.device_index:
        yield f"device {tensor.device_type}:{tensor.device_index}"


def _instruction(
    method: Method, values: _Values, instruction: Instruction, place: Place
) -> Operation:
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
    return Operation(kind, [values.use(arg) for arg in args], attributes, [], [], place)


def _place(text: str, frame: Frame | None = None) -> Place:
    return Place(text, lambda: None if frame is None else _location(frame))


def _location(frame: Frame) -> Location:
    return Location(frame.file, frame.line, frame.context.strip())


def _place_of(method: Method, values: _Values, chain: Chain, index: int) -> Place:
    """Return the place of an instruction, whose frames are outermost first."""
    frames: Any = chain.frames[index] if index < len(chain.frames) else ()
    text = instruction_text(method, chain.instructions[index])
    return _place(values.text(text), frames[-1] if frames else None)
