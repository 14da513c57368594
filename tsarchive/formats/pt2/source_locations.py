"""The location of a node in user source, from its recorded stack."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tsarchive.ir.source_ranges import Range, Source, byte_length

from . import schema

_FRAME: Final = re.compile(
    r'^ *File "([^"\n]*)", line (\d{1,9}), in [^\n]*\n?([^\n]*)', re.MULTILINE
)
# Frames of torch's own code, and of generated code.
_INNER: Final = re.compile(r"(?:site|dist)-packages[/\\]torch[/\\]|^<")


class NodePlace(NamedTuple):
    """The location of a node. ``range`` is None where its origin is unknown."""

    record: str
    name: str
    range: Range | None

    def __str__(self) -> str:
        where = None if self.range is None else self.range.location
        return f"{self.record}: node {self.name!r}" if where is None else str(where)


class Places:
    """The locations of the nodes of one program. Nodes of one line share a range."""

    def __init__(self, record: str) -> None:
        self.record = record
        self._ranges: dict[str, Range | None] = {}

    def of(self, node: schema.Node) -> NodePlace:
        stack = node.metadata.get("stack_trace", "")
        if stack not in self._ranges:
            self._ranges[stack] = _user_line(stack)
        return NodePlace(self.record, name_of(node), self._ranges[stack])


def name_of(node: schema.Node) -> str:
    """Return the name of a node; programs before torch 2.11 only name results."""
    if node.name is not None:
        return node.name
    for output in node.outputs:
        name = getattr(output.value, "name", None) or getattr(output.value, "value", None)
        if isinstance(name, str):
            return name
    return node.target


def _user_line(stack: str) -> Range | None:
    """Return the innermost line of the stack that is not torch's own."""
    frames = _FRAME.findall(stack)
    mine = [frame for frame in frames if not _INNER.search(frame[0])]
    if not frames:
        return None
    filename, line, text = (mine or frames)[-1]
    text = text.strip() if text[:1].isspace() else ""
    shown = text or filename
    # The range must not be its whole source, or torch.jit omits file and line.
    return Range(Source(f"{shown}\n", filename, int(line)), 0, byte_length(shown))
