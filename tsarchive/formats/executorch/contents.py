"""The contents of a file of ExecuTorch: methods as plain data, and the bytes that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial

from tsarchive.analyses.encoding import Plain
from tsarchive.describing.contents import uniquely_named
from tsarchive.errors import FormatError
from tsarchive.formats.contents import Contents, Elements, Outline, TensorContent

from .content import DataFile, Program, Segment, SegmentedFile
from .methods import (
    SCALAR_TYPES,
    Delegate,
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    KernelCall,
    Layout,
    Method,
    Move,
    Tensor,
    Value,
    ValueList,
    item_at,
)
from .view import ExecutorchView


class ExecutorchContents(Contents):
    """The contents of a program, of the program in a bundle, or of a data file."""

    language = "ExecuTorch"
    may_have_extra_files = False

    def __init__(self, view: ExecutorchView) -> None:
        self._view = view

    @cached_property
    def code(self) -> Plain:
        program = self._view.program
        return [] if program is None else [*map(_method, program.reachable_methods)]

    @cached_property
    def structure(self) -> Plain:
        program = self._view.program
        methods = () if program is None else program.reachable_methods
        return [
            [
                method.name,
                [*map(_value, method.values)],
                method.input_nesting,
                method.output_nesting,
            ]
            for method in methods
        ]

    @cached_property
    def tensors(self) -> Mapping[str, TensorContent]:
        content, program = self._view.regions.content, self._view.program
        found: dict[str, TensorContent] = {}
        if isinstance(content, DataFile):
            found |= {
                key: _content(content, partial(content.entry_place, entry), entry.layout)
                for key, entry in content.by_key.items()
            }
        if program is not None:
            found |= dict(uniquely_named(_of_program(program)))
        return found

    @cached_property
    def outline(self) -> Outline:
        from .outline import program_outline  # what digests the contents has no use for it

        return program_outline(self._view.program)

    @property
    def extra_files(self) -> Mapping[str, bytes]:
        return {}


def _of_program(program: Program) -> Iterator[tuple[str, TensorContent]]:
    for method in program.reachable_methods:
        for index, tensor in method.stored_tensors:
            if not tensor.is_external:
                name = tensor.name or f"{method.name}.{index}"
                yield name, _content(program, partial(_initial_place, program, tensor), tensor)
        for number, delegate in enumerate(method.delegates):
            yield (
                f"{method.name}.delegate.{number}",
                _content(program, partial(program.delegate_place, delegate), None),
            )
    for entry in program.named_data:
        place = partial(program.segment_place, entry.segment)
        yield entry.key, _content(program, place, entry.layout)


def _initial_place(program: Program, tensor: Tensor) -> Segment:
    return program.initial_place(tensor) or Segment(0, 0)


def _content(
    file: SegmentedFile, place: Callable[[], Segment], layout: Layout | None
) -> TensorContent:
    """Return bytes that are read when they are looked at; those of no tensor as they are."""

    def data() -> memoryview:
        return file.piece(place())

    if layout is None:
        size = place().size
        return TensorContent(["bytes"], Elements(data, 0, [size], [1], 1, 1))
    if layout.problem is not None:
        raise FormatError(layout.problem)
    itemsize = SCALAR_TYPES[layout.scalar_type].itemsize
    strides = [step * itemsize for step in layout.strides]
    return TensorContent(
        _meaning(layout), Elements(data, 0, layout.sizes, strides, itemsize, itemsize)
    )


def _meaning(layout: Layout) -> Plain:
    return ["dense", layout.dtype, [*layout.sizes], []]


def _method(method: Method) -> Plain:
    return [
        method.name,
        [*method.inputs],
        [*method.outputs],
        [*method.arenas],
        [[*device] for device in method.arena_devices],
        [[_instruction(method, one) for one in chain.instructions] for chain in method.chains],
    ]


def _instruction(method: Method, instruction: Instruction) -> Plain:
    match instruction:
        case KernelCall(number, args):
            operator = item_at(method.operators, number)
            return ["call", None if operator is None else operator.qualified_name, [*args]]
        case DelegateCall(number, args):
            delegate = item_at(method.delegates, number)
            return ["delegate", number, None if delegate is None else _delegate(delegate), [*args]]
        case Move(source, target):
            return ["move", source, target]
        case JumpFalse(condition, destination):
            return ["jump if false", condition, destination]
        case Free(value):
            return ["free", value]


def _delegate(delegate: Delegate) -> Plain:
    return [delegate.backend, [[key, bytes(value)] for key, value in delegate.options]]


def _value(value: Value) -> Plain:
    match value:
        case ValueList(items):
            return {type(value).__name__: [*items]}
        case Tensor():
            place = value.allocation
            return {
                "tensor": _meaning(value),
                "order": [*value.dim_order],
                "name": value.name,
                "stored": value.has_data,
                "external": value.is_external,
                "grad": value.requires_grad,
                "dynamism": value.dynamism,
                "device": [value.device_type, value.device_index],
                "place": None if place is None else [place.arena, place.offset],
            }
    return value
