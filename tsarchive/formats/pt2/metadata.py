"""Metadata of nodes: the modules and lines of user source that they come from.

torch also writes addresses of Python objects, process-wide counters, and absolute paths, which
``make_stable`` removes.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tsarchive.ir.source_ranges import Range, Source, byte_length

from . import schema

_LINE = r'[^\S\n]*File "(.*)", line (\d+), in (.*)'
# The line of code follows, where it is known.
_FRAME = re.compile(rf"^{_LINE}(?:\n(?!{_LINE}$)(.*))?$", re.MULTILINE)
# Operators as torch and ExecuTorch write them; "#" marks a registered extension.
_OPERATOR = re.compile(
    r"(?:torch\.ops|executorch\.exir\.dialects\.(?:edge|backend)\._ops)"
    r"\.(\w+)\.(\w+)(?:\.(\w+))?|#(\w+):(\w+)(?:\.(\w+))?",
    re.ASCII,
)
_BRACKETS = {"[": 1, "(": 1, "]": -1, ")": -1}
# Recorded for nodes that torch's passes add, which belong to no module.
_NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"
# A module that is called again has the number of the call appended to its name.
_CALL_NUMBER = re.compile(r"@\d+\Z")


class ModulePlace(NamedTuple):
    """A module by its dotted name below the root, and its class."""

    path: str
    class_name: str


class Frame(NamedTuple):
    """A line of Python on the stack when a node was recorded."""

    file: str
    line: int
    function: str
    text: str


def operator_and_overload(target: str) -> tuple[str, str] | None:
    """Return an operator such as ``aten::add``, and its overload, which may be "".

    None for a target that names no operator of a library.
    """
    match = _OPERATOR.fullmatch(target)
    if match is None:
        return None
    namespace, name, overload = match.groups()[:3] if match[1] else match.groups()[3:]
    return f"{namespace}::{name}", overload or ""


def operator_name(target: str) -> str:
    """Return ``aten::linear`` for ``torch.ops.aten.linear.default``; other targets as they are."""
    found = operator_and_overload(target)
    return target if found is None else found[0]


def modules(node: schema.Node) -> tuple[ModulePlace, ...]:
    """Return the modules around a node, from the root on; malformed entries are omitted."""
    found = []
    for entry in node.metadata.get("nn_module_stack", "").split(";"):
        parts = tuple(_split(entry))
        if len(parts) == 3 and parts[0] != _NO_MODULE:
            path = parts[1].removeprefix("L['self']").removeprefix(".")
            found.append(ModulePlace(_CALL_NUMBER.sub("", path), parts[2]))
    return tuple(found)


def places(graph: schema.Graph) -> Iterator[ModulePlace]:
    """Yield the modules that the nodes of a graph name, each at its first occurrence."""
    known: set[str] = set()
    for node in nodes_of(graph):
        for place in modules(node):
            if place.path not in known:
                known.add(place.path)
                yield place


def _split(entry: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    start = depth = 0
    for place, char in enumerate(entry):
        depth += _BRACKETS.get(char, 0)
        if char == "," and not depth:
            yield entry[start:place]
            start = place + 1
    yield entry[start:]


def frames(node: schema.Node) -> tuple[Frame, ...]:
    """Return the lines of user source that a node comes from, outermost first."""
    return _frames(node.metadata.get("stack_trace", ""))


def _frames(trace: str) -> tuple[Frame, ...]:
    return tuple(
        Frame(file, int(line[:9]), function, text.strip())
        for file, line, function, *_, text in _FRAME.findall(trace)
    )


def nodes_of(graph: schema.Graph) -> Iterator[schema.Node]:
    """Yield every node; those of a nested graph before the node that takes it."""
    for node in graph.nodes:
        for inner in graphs_of(node):
            yield from nodes_of(inner)
        yield node


def graphs_in(graph: schema.Graph) -> Iterator[schema.Graph]:
    """Yield a graph and all graphs nested in it."""
    yield graph
    for node in graph.nodes:
        for inner in graphs_of(node):
            yield from graphs_in(inner)


def graphs_of(node: schema.Node) -> Iterator[schema.Graph]:
    """Yield the graphs among the arguments of a node."""
    for argument in node.inputs:
        if argument.arg.tag == "as_graph":
            yield argument.arg.value.graph


# Metadata on the origin of code, not needed for loading and unflattening.
_ORIGINS = ("stack_trace", "from_node", "source_fn_stack", "torch_fn")
_FILE = re.compile(r'(?<=File ")[^"\n]*(?=")')
# Names of generated sources, which a process numbers, and frames of the runner of archive code.
_COUNTED = re.compile(r'(<eval_with_key>)\.[0-9]+|(<tsarchive [^"\n]*?) #[0-9]+(?=>")')
_RUNNER = re.compile(
    rf'^ *File "{re.escape(str(Path(__file__).parents[2]))}{re.escape(os.sep)}(?:run|formats)'
    rf'{re.escape(os.sep)}[^"\n]*", line .*(?:\n {{4,}}.*)*\n?',
    re.MULTILINE,
)


def make_stable(graph: schema.Graph, *, origins: bool, paths: bool) -> None:
    """Rewrite the metadata of all nodes of a freshly decoded graph.

    ``origins`` keeps the origin of code; ``paths`` keeps full paths of source files.
    """
    stable = _Stable(paths)
    for node in nodes_of(graph):
        metadata = node.metadata
        for key in _ORIGINS:
            if not origins:
                metadata.pop(key, None)
        if "stack_trace" in metadata:
            metadata["stack_trace"] = stable.stack_trace(metadata["stack_trace"])
        if "from_node" in metadata:
            metadata["from_node"] = stable.sources(metadata["from_node"])


class _Stable:
    """Numbers graphs in the order in which metadata name them."""

    def __init__(self, paths: bool) -> None:
        self._paths = paths
        self._numbers: dict[Any, int] = {}

    def stack_trace(self, text: str) -> str:
        text = without_runner(text)
        if not self._paths:
            text = without_paths(text)
        return _COUNTED.sub(lambda match: match[1] or match[2], text)

    def sources(self, text: str) -> str:
        """Rewrite ``from_node``, JSON in which graphs are identified by their addresses."""
        return json.dumps(self._renumbered(json.loads(text)))

    def _renumbered(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._renumbered(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self._numbers.setdefault(item, len(self._numbers))
            if key == "graph_id"
            else self._renumbered(item)
            for key, item in value.items()
        }


def without_runner(stack: str) -> str:
    """Leave out of the text of a stack the frames of what runs code of archives."""
    without = _RUNNER.sub("", stack)
    return stack if without == stack else without.strip()


def without_paths(stack_trace: str) -> str:
    """Shorten the file names of a stack trace to those that Python imports."""
    return _FILE.sub(lambda match: shortened(match[0]), stack_trace)


def shortened(path: str) -> str:
    """Return a path relative to Python's import path; otherwise the name of the file."""
    if not os.path.isabs(path):
        return path
    roots = [root for root in sys.path if root and path.startswith(os.path.join(root, ""))]
    root = max(roots, key=len, default=os.path.dirname(path))
    return os.path.relpath(path, root).replace(os.sep, "/")


# Frames of torch's own code, and of generated code.
_INNER: Final = re.compile(r"(?:site|dist)-packages[/\\]torch[/\\]|^<")


class ProgramPlace(NamedTuple):
    """The location of a node or instruction: its place in the file, as text, and in user source.

    ``range`` is None where its origin is not recorded.
    """

    in_file: str
    range: Range | None

    def __str__(self) -> str:
        where = None if self.range is None else self.range.location
        return self.in_file if where is None else str(where)


class Places:
    """The locations of the nodes of one program. Nodes of one line share a range."""

    def __init__(self, record: str) -> None:
        self.record = record
        self._ranges: dict[str, Range | None] = {}

    def of(self, node: schema.Node) -> ProgramPlace:
        stack = node.metadata.get("stack_trace", "")
        if stack not in self._ranges:
            self._ranges[stack] = user_line(stack)
        return ProgramPlace(f"{self.record}: node {name_of(node)!r}", self._ranges[stack])


def name_of(node: schema.Node) -> str:
    """Return the name of a node; programs before torch 2.11 only name results."""
    if node.name is not None:
        return node.name
    for output in node.outputs:
        name = getattr(output.value, "name", None) or getattr(output.value, "value", None)
        if isinstance(name, str):
            return name
    return node.target


def user_line(stack: str) -> Range | None:
    """Return the innermost line of the text of a stack that is not torch's own.

    None for text that names no line.
    """
    found = _frames(stack)
    mine = [frame for frame in found if not _INNER.search(frame.file)]
    if not found:
        return None
    frame = (mine or found)[-1]
    shown = frame.text or frame.file
    # The range must not be its whole source, or torch.jit omits file and line.
    return Range(Source(f"{shown}\n", frame.file, frame.line), 0, byte_length(shown))
