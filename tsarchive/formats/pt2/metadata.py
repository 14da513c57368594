"""The origin of nodes according to their metadata: modules, and lines of user source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .schema import Graph, Node

_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)')
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


def modules(node: Node) -> tuple[ModulePlace, ...]:
    """Return the modules around a node, from the root on; malformed entries are omitted."""
    text = node.metadata.get("nn_module_stack", "")
    return tuple(_places(text)) if text else ()


def places(graph: Graph) -> Iterator[ModulePlace]:
    """Yield the modules that the nodes of a graph name, each at its first occurrence."""
    known: set[str] = set()
    for node in nodes_of(graph):
        for place in modules(node):
            if place.path not in known:
                known.add(place.path)
                yield place


def _places(text: str) -> Iterator[ModulePlace]:
    for entry in text.split(";"):
        parts = tuple(_split(entry))
        if len(parts) == 3 and parts[0] != _NO_MODULE:
            path = parts[1].removeprefix("L['self']").removeprefix(".")
            yield ModulePlace(_CALL_NUMBER.sub("", path), parts[2])


def _split(entry: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    start = depth = 0
    for place, char in enumerate(entry):
        depth += _BRACKETS.get(char, 0)
        if char == "," and not depth:
            yield entry[start:place]
            start = place + 1
    yield entry[start:]


def frames(node: Node) -> tuple[Frame, ...]:
    """Return the lines of user source that a node comes from, outermost first."""
    return tuple(_frames(node.metadata.get("stack_trace", "")))


def _frames(trace: str) -> Iterator[Frame]:
    lines = trace.split("\n")
    for place, line in enumerate(lines):
        match = _FRAME.fullmatch(line)
        if match is not None:
            following = lines[place + 1] if place + 1 < len(lines) else ""
            text = "" if _FRAME.fullmatch(following) else following.strip()
            yield Frame(match["file"], int(match["line"][:9]), match["function"], text)


def nodes_of(graph: Graph) -> Iterator[Node]:
    """Yield every node; those of a nested graph before the node that takes it."""
    for node in graph.nodes:
        for inner in graphs_of(node):
            yield from nodes_of(inner)
        yield node


def graphs_in(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and all graphs nested in it."""
    yield graph
    for node in graph.nodes:
        for inner in graphs_of(node):
            yield from graphs_in(inner)


def graphs_of(node: Node) -> Iterator[Graph]:
    """Yield the graphs among the arguments of a node."""
    for argument in node.inputs:
        if argument.arg.tag == "as_graph":
            yield argument.arg.value.graph
