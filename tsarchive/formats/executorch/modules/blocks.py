"""Basic blocks of a method's instructions, and the location of each instruction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tsarchive.errors import FormatError
from tsarchive.formats.executorch.methods import Frame, JumpFalse, Method
from tsarchive.formats.executorch.program import RECORD
from tsarchive.ir.source_ranges import Range, Source, byte_length

from .kernels import Step


@dataclass(frozen=True, slots=True)
class Numbered:
    """An instruction with its index in its chain."""

    chain: int
    index: int
    instruction: Step

    @property
    def place(self) -> str:
        """The instruction's name in errors, for methods with a single chain, as all have."""
        return f"instruction {self.index}" + (f" of chain {self.chain}" if self.chain else "")


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions without jumps between them.

    The block ``following`` runs next, or the block ``otherwise`` where the value ``condition`` is
    false; the number of blocks stands for the end of the method.
    """

    instructions: tuple[Numbered, ...]
    following: int
    condition: int | None = None
    otherwise: int = 0


def basic_blocks(method: Method) -> tuple[BasicBlock, ...]:
    """Return the blocks of all chains, which run one after the other.

    Raises FormatError for a method without a chain, and for a jump beyond the end of its chain.
    """
    if not method.chains:
        raise FormatError(f"method {method.name!r}: it has no chain of instructions")
    instructions = tuple(_numbered(method))
    targets = dict(_targets(method, instructions))
    starts = {0, len(instructions), *targets.values(), *(at + 1 for at in targets)}
    ordered = sorted(starts)
    numbers = {start: number for number, start in enumerate(ordered)}
    return tuple(
        _block(instructions, begin, end, targets, numbers) for begin, end in pairwise(ordered)
    )


def _block(
    instructions: tuple[Numbered, ...],
    begin: int,
    end: int,
    targets: dict[int, int],
    numbers: dict[int, int],
) -> BasicBlock:
    last = instructions[end - 1].instruction
    if not isinstance(last, JumpFalse):
        return BasicBlock(instructions[begin:end], numbers[end])
    inner, otherwise = instructions[begin : end - 1], numbers[targets[end - 1]]
    return BasicBlock(inner, numbers[end], last.condition, otherwise)


def _numbered(method: Method) -> Iterator[Numbered]:
    for number, chain in enumerate(method.chains):
        for index, instruction in enumerate(chain.instructions):
            yield Numbered(number, index, instruction)


def _targets(method: Method, instructions: tuple[Numbered, ...]) -> Iterator[tuple[int, int]]:
    """Yield (jump, target), both counted from the first instruction of the first chain."""
    for at, numbered in enumerate(instructions):
        jump = numbered.instruction
        if isinstance(jump, JumpFalse):
            target = jump.destination
            if not 0 <= target <= len(method.chains[numbered.chain].instructions):
                place = f"instruction {numbered.index}"
                message = f"{place} jumps to {target}, behind the end of its chain"
                raise FormatError(f"method {method.name!r}: {message}")
            yield at, at - numbered.index + target


class InstructionPlace(NamedTuple):
    """The location of an instruction. ``range`` is None where its source is not recorded."""

    method: str
    name: str
    range: Range | None

    def __str__(self) -> str:
        where = None if self.range is None else self.range.location
        return f"{RECORD}: {self.method}, {self.name}" if where is None else str(where)


def instruction_place(method: Method, numbered: Numbered) -> InstructionPlace:
    """Return the location of an instruction of a method."""
    frames = method.chains[numbered.chain].frames
    stack = frames[numbered.index] if numbered.index < len(frames) else ()
    found = _range(stack[-1]) if stack else None
    return InstructionPlace(method.name, numbered.place, found)


def _range(frame: Frame) -> Range:
    shown = frame.context.strip() or frame.file
    return Range(Source(shown, frame.file, frame.line), 0, byte_length(shown))
