"""The location of an instruction in its method, and in user source where recorded."""

from __future__ import annotations

from typing import NamedTuple

from tsarchive.formats.executorch.methods import Frame, Method
from tsarchive.formats.executorch.program import RECORD
from tsarchive.ir.source_ranges import Range, Source, byte_length

from .blocks import Numbered


class InstructionPlace(NamedTuple):
    """The location of an instruction. ``range`` is None where its source is not recorded."""

    method: str
    name: str
    range: Range | None

    def __str__(self) -> str:
        where = None if self.range is None else self.range.location
        return f"{RECORD}: {self.method}, {self.name}" if where is None else str(where)


class Places:
    """The locations of the instructions of one method."""

    def __init__(self, method: Method) -> None:
        self._method = method

    def of(self, numbered: Numbered) -> InstructionPlace:
        frames = self._method.chains[numbered.chain].frames
        stack = frames[numbered.index] if numbered.index < len(frames) else ()
        found = _range(stack[-1]) if stack else None
        return InstructionPlace(self._method.name, numbered.place, found)


def _range(frame: Frame) -> Range:
    shown = frame.context.strip() or frame.file
    return Range(Source(shown, frame.file, frame.line), 0, byte_length(shown))
