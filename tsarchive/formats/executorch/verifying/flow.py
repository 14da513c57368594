"""Instructions of a method of ExecuTorch: what they refer to, where they jump, what they overwrite.

The runtime looks at indices alone, when it loads a method. It takes a jump to anywhere, ends an
endless loop after ten million instructions, and lets an operator overwrite what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tsarchive.findings import Severity
from tsarchive.formats.executorch.instructions import (
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    KernelCall,
    Move,
)
from tsarchive.formats.executorch.listing import type_text
from tsarchive.formats.executorch.methods import Method
from tsarchive.formats.executorch.values import Tensor, TensorList, Value

_BOOL: Final = 11
# How many pairs of tensors are compared; calls of real programs have few arguments.
_PAIRS_ALWAYS: Final = 1_000_000
_PAIRS_PER_CALL: Final = 100


class Fault(NamedTuple):
    rule: str
    message: str
    severity: Severity = Severity.ERROR


def flow_faults(method: Method) -> Iterator[Fault]:
    """All that is wrong with the instructions of a method."""
    if not method.chains:
        yield Fault("executorch-chain", "it has no chain of instructions")
    fixed, given = _fixed_bools(method), frozenset(_given(method))
    overlaps = _Overlaps(method)
    for number, chain in enumerate(method.chains):
        where = f"instruction {number}." if len(method.chains) > 1 else "instruction "
        for index, instruction in enumerate(chain.instructions):
            for rule, message, severity in _instruction(method, instruction, given):
                yield Fault(rule, f"{where}{index} {message}", severity)
            for message in overlaps.of(instruction):
                text = f"{where}{index} {message}"
                yield Fault("executorch-overlap", text, Severity.WARNING)
        yield from _jumps(chain.instructions, where)
        yield from _endless(chain.instructions, fixed, where)


def _instruction(
    method: Method, instruction: Instruction, given: frozenset[int]
) -> Iterator[Fault]:
    match instruction:
        case KernelCall(operator, args):
            yield from _in_range("operator", operator, len(method.operators))
            yield from _arguments(method, args)
        case DelegateCall(delegate, args):
            yield from _in_range("delegate", delegate, len(method.delegates))
            yield from _arguments(method, args)
        case Move(source, target):
            yield from _arguments(method, (source, target))
        case JumpFalse(condition, _):
            yield from _condition(method, condition, given)
        case Free(value):
            yield from _arguments(method, (value,))
            if not isinstance(_at(method, value), Tensor):
                yield Fault("executorch-kind", f"frees value {value}, which is no tensor")


def _arguments(method: Method, args: tuple[int, ...]) -> Iterator[Fault]:
    for arg in args:
        yield from _in_range("value", arg, len(method.values))


def _in_range(what: str, index: int, count: int) -> Iterator[Fault]:
    if not 0 <= index < count:
        yield Fault("executorch-index", f"uses {what} {index}, which is not there")


def _condition(method: Method, index: int, given: frozenset[int]) -> Iterator[Fault]:
    yield from _arguments(method, (index,))
    value = _at(method, index)
    is_condition = isinstance(value, Tensor) and value.scalar_type == _BOOL
    # Writers put an integer, or nothing, where a comparison of sizes will be.
    is_set = index in given and (value is None or isinstance(value, int))
    if not (is_condition or is_set or isinstance(value, bool)):
        yield Fault("executorch-kind", f"jumps by value {index}, which is {type_text(value)}")


class _Overlaps:
    """Outputs that lie partly in the memory of inputs. In the same place is meant so."""

    def __init__(self, method: Method) -> None:
        self._method = method
        calls = sum(len(chain.instructions) for chain in method.chains)
        self._left = _PAIRS_ALWAYS + _PAIRS_PER_CALL * calls

    def of(self, instruction: Instruction) -> Iterator[str]:
        """What to say of a call. Lists that many calls name are looked at in the first ones."""
        if not isinstance(instruction, KernelCall):
            return
        args, results = set(instruction.args[:-1]), instruction.args[-1:]
        self._left -= (self._count(results) + 1) * (self._count(args) + 1)
        if self._left >= 0:
            yield from self._pairs(args, results)

    def _pairs(self, args: Iterable[int], results: Iterable[int]) -> Iterator[str]:
        outputs = dict(self._planned(results))
        inputs = {i: span for i, span in self._planned(args) if i not in outputs}
        for index, (arena, start, end) in outputs.items():
            for other, (other_arena, other_start, other_end) in inputs.items():
                is_apart = arena != other_arena or end <= other_start or other_end <= start
                if not is_apart and start != other_start:
                    yield f"writes value {index} into the memory of value {other}, which it reads"

    def _count(self, indices: Iterable[int]) -> int:
        values = (_at(self._method, index) for index in indices)
        return sum(len(v.items) if isinstance(v, TensorList) else 1 for v in values)

    def _planned(self, indices: Iterable[int]) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """Planned tensors among values, in lists as well: arena, first byte, end."""
        for index in indices:
            value = _at(self._method, index)
            listed = value.items if isinstance(value, TensorList) else (index,)
            for item in listed:
                tensor = _at(self._method, item)
                if isinstance(tensor, Tensor) and tensor.allocation is not None and tensor.nbytes:
                    start = tensor.allocation.offset
                    yield item, (tensor.allocation.arena, start, start + tensor.nbytes)


def _jumps(instructions: tuple[Instruction, ...], where: str) -> Iterator[Fault]:
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, JumpFalse):
            target = instruction.destination
            if not 0 <= target <= len(instructions):
                message = f"{where}{index} jumps to {target}, behind the end of the chain"
                yield Fault("executorch-jump", message)


def _endless(
    instructions: tuple[Instruction, ...], fixed: dict[int, bool], where: str
) -> Iterator[Fault]:
    """Instructions that can be reached, and from which no way leads to the end."""
    ways = [_ways(index, instruction, fixed) for index, instruction in enumerate(instructions)]
    end = len(instructions)
    back: list[list[int]] = [[] for _ in range(end + 1)]
    for index, targets in enumerate(ways):
        for target in targets:
            back[target if 0 <= target < end else end].append(index)
    ending = _reached(end, back)
    stuck = sorted(index for index in _reached(0, ways) if index < end and index not in ending)
    if stuck:
        severity = Severity.ERROR if 0 in stuck else Severity.WARNING
        message = f"{where}{stuck[0]} never comes to an end"
        yield Fault("executorch-endless", message, severity)


def _ways(index: int, instruction: Instruction, fixed: dict[int, bool]) -> list[int]:
    """What may run after an instruction."""
    if not isinstance(instruction, JumpFalse):
        return [index + 1]
    known = fixed.get(instruction.condition)
    if known is None:
        return [index + 1, instruction.destination]
    return [index + 1] if known else [instruction.destination]


def _reached(start: int, ways: list[list[int]]) -> set[int]:
    found, pending = {start}, [start]
    while pending:
        here = pending.pop()
        for target in ways[here] if here < len(ways) else ():
            if target >= 0 and target not in found:
                found.add(target)
                pending.append(target)
    return found


def _fixed_bools(method: Method) -> dict[int, bool]:
    """Bools that nothing can change: no input, and no instruction but a jump names them."""
    named = set(method.inputs)
    for chain in method.chains:
        for instruction in chain.instructions:
            if isinstance(instruction, KernelCall | DelegateCall):
                named.update(instruction.args)
            elif isinstance(instruction, Move):
                named.add(instruction.target)
    values = enumerate(method.values)
    return {i: value for i, value in values if isinstance(value, bool) and i not in named}


def _given(method: Method) -> Iterator[int]:
    """Values that may become others."""
    for chain in method.chains:
        for instruction in chain.instructions:
            match instruction:
                case KernelCall(_, args):
                    yield from args[-1:]
                case DelegateCall(_, args):
                    yield from args
                case Move(_, target):
                    yield target


def _at(method: Method, index: int) -> Value:
    return method.values[index] if 0 <= index < len(method.values) else None
