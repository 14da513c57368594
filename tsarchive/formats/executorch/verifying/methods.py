"""A method of a program of ExecuTorch: its values, its memory plan, and what it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.formats.executorch.listing import type_text
from tsarchive.formats.executorch.methods import Method
from tsarchive.formats.executorch.program import Program
from tsarchive.formats.executorch.values import (
    NO_TENSOR,
    Allocation,
    IntList,
    OptionalTensorList,
    Shape,
    Tensor,
    TensorList,
    Value,
    layout_problem,
)

from .flow import Fault, flow_faults

_LONGEST_OPERATOR: Final = 99


def broken(
    rule: str,
    message: str,
    record: str | None,
    nature: Nature = Nature.BROKEN,
    severity: Severity = Severity.ERROR,
) -> Finding:
    """A finding, of an error unless it is told otherwise."""
    return Finding(rule, severity, nature, message, record)


def method_findings(program: Program, method: Method, record: str) -> Iterator[Finding]:
    """All that is wrong with a method. ``record`` is that of the tables."""
    for rule, message, severity in _faults(program, method):
        yield broken(rule, f"method {method.name!r}: {message}", record, severity=severity)


def _faults(program: Program, method: Method) -> Iterator[Fault]:
    yield from _plan(method)
    for index, value in enumerate(method.values):
        yield from _value(program, method, index, value)
    yield from _delegates(program, method)
    yield from flow_faults(method)


def _plan(method: Method) -> Iterator[Fault]:
    for what, indices in (("input", method.inputs), ("output", method.outputs)):
        for index in indices:
            if not 0 <= index < len(method.values):
                yield Fault("executorch-index", f"its {what} is value {index}, which is not there")
    for number, size in enumerate(method.arenas):
        if size < 0:
            yield Fault("executorch-arena", f"arena {number} has {size} bytes")
    for arena, _, _ in method.arena_devices:
        if not 0 <= arena < len(method.arenas):
            yield Fault(
                "executorch-arena", f"a device is told of arena {arena}, which is not there"
            )
    for operator in method.operators:
        if len(operator.qualified_name.encode()) > _LONGEST_OPERATOR:
            shown = operator.qualified_name[:_LONGEST_OPERATOR]
            yield Fault("executorch-operator", f"the name of the operator {shown}... is too long")


def _value(program: Program, method: Method, index: int, value: Value) -> Iterator[Fault]:
    if isinstance(value, Tensor):
        for rule, problem in _tensor(program, method, value):
            yield Fault(rule, f"value {index}: {problem}")
    elif isinstance(value, IntList):
        yield from _items(method, index, value.items, _is_integer, "an integer")
    elif isinstance(value, TensorList):
        yield from _items(method, index, value.items, _is_tensor, "a tensor")
    elif isinstance(value, OptionalTensorList):
        given = (item for item in value.items if item != NO_TENSOR)
        yield from _items(method, index, given, _is_tensor, "a tensor")


def _items(
    method: Method, index: int, items: Iterable[int], fits: Callable[[Any], bool], what: str
) -> Iterator[Fault]:
    """Items of a list are numbers of other values, each of one kind."""
    for item in items:
        if not 0 <= item < len(method.values):
            message = f"value {index} lists value {item}, which is not there"
            yield Fault("executorch-index", message)
        elif not fits(method.values[item]):
            shown = type_text(method.values[item])
            message = f"value {index} lists value {item}, which is {shown} and not {what}"
            yield Fault("executorch-item-kind", message)


def _is_integer(value: Value) -> bool:
    # Symbolic values are None until an operator sets them.
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _is_tensor(value: Value) -> bool:
    return isinstance(value, Tensor)


def _tensor(program: Program, method: Method, tensor: Tensor) -> Iterator[tuple[str, str]]:
    problem = layout_problem(tensor.scalar_type, tensor.sizes, tensor.dim_order)
    if problem is not None:
        yield "executorch-tensor", problem
        return
    if tensor.storage_offset:
        yield "executorch-tensor", f"the storage offset is {tensor.storage_offset}, not 0"
    if tensor.dynamism not in (Shape.STATIC, Shape.DYNAMIC_BOUND):
        yield "executorch-tensor", f"its sizes are not bound (shape dynamism {tensor.dynamism})"
    if tensor.is_external and not tensor.name:
        yield "executorch-constant", "its bytes are in a data file, and it has no name there"
    try:
        program.initial_data(tensor)
    except ArchiveError as error:
        yield "executorch-constant", error.message
    if tensor.allocation is not None:
        yield from _allocation(method, tensor, tensor.allocation)


def _allocation(
    method: Method, tensor: Tensor, allocation: Allocation
) -> Iterator[tuple[str, str]]:
    arena, offset = allocation.arena, allocation.offset
    if not 1 <= arena < len(method.arenas):
        yield "executorch-allocation", f"it is in arena {arena}, which is not there"
    elif offset + tensor.nbytes > method.arenas[arena]:
        end, size = offset + tensor.nbytes, method.arenas[arena]
        message = f"it ends at {end:,} of arena {arena}, which has {size:,} bytes"
        yield "executorch-allocation", message


def _delegates(program: Program, method: Method) -> Iterator[Fault]:
    for number, delegate in enumerate(method.delegates):
        try:
            program.delegate_data(delegate)
        except ArchiveError as error:
            yield Fault("executorch-delegate", f"delegate {number}: {error.message}")
