"""The place of a node in user source, from the stack that was recorded with it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tsarchive.ir.source_ranges import Range, Source, byte_length

from . import schema

__all__ = ["NodePlace", "Places"]

_FRAME: Final = re.compile(
    r'^ *File "([^"\n]*)", line (\d{1,9}), in [^\n]*\n?([^\n]*)', re.MULTILINE
)
# Frames of torch's own code, and of code that was made on the way.
_INNER: Final = re.compile(r"(?:site|dist)-packages[/\\]torch[/\\]|^<")


class NodePlace(NamedTuple):
    """A node of a program. ``range`` is None where nothing tells where it came from."""

    record: str
    name: str
    range: Range | None

    def __str__(self) -> str:
        where = None if self.range is None else self.range.location
        return f"{self.record}: node {self.name!r}" if where is None else str(where)


class Places:
    """The places of the nodes of one program. Nodes of one line have one range."""

    def __init__(self, record: str) -> None:
        self.record = record
        self._ranges: dict[str, Range | None] = {}

    def of(self, node: schema.Node) -> NodePlace:
        stack = node.metadata.get("stack_trace", "")
        if stack not in self._ranges:
            self._ranges[stack] = _user_line(stack)
        return NodePlace(self.record, name_of(node), self._ranges[stack])


def name_of(node: schema.Node) -> str:
    """The name of a node; programs of before torch 2.11 name results alone."""
    if node.name is not None:
        return node.name
    for output in node.outputs:
        name = getattr(output.value, "name", None) or getattr(output.value, "value", None)
        if isinstance(name, str):
            return name
    return node.target


def _user_line(stack: str) -> Range | None:
    """The innermost line of the stack that is not torch's own; it is the last."""
    frames = _FRAME.findall(stack)
    mine = [frame for frame in frames if not _INNER.search(frame[0])]
    if not frames:
        return None
    filename, line, text = (mine or frames)[-1]
    text = text.strip() if text[:1].isspace() else ""
    shown = text or filename
    # Of a range that is all of its text, torch.jit tells neither file nor line.
    return Range(Source(f"{shown}\n", filename, int(line)), 0, byte_length(shown))
