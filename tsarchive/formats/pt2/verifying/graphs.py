"""Names in graphs: each is defined once, described, and used after that."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tsarchive.findings import Finding, broken
from tsarchive.formats.pt2.schema import Argument, Graph

from .names import ValueKind, named_values

_RULE = "program-value"
_SHOWN = 80


def graph_findings(graph: Graph, record: str, objects: Collection[str]) -> Iterator[Finding]:
    """What is wrong with the names of a graph, and of the graphs in it.

    ``objects`` are the names of objects that the archive holds, which nodes may name as well.
    """
    pending = [("the graph", graph)]
    while pending:
        place, current = pending.pop()
        scope = _Scope(current, place, record, objects)
        yield from scope.findings()
        pending += scope.graphs


class _Scope:
    """One graph. It sees none of the names around it."""

    def __init__(self, graph: Graph, place: str, record: str, objects: Collection[str]) -> None:
        self._graph = graph
        self._place = place
        self._record = record
        self._objects = objects
        self._defined: set[str] = set()
        self.graphs: list[tuple[str, Graph]] = []

    def findings(self) -> Iterator[Finding]:
        for argument in self._graph.inputs:
            yield from self._define(argument)
        for number, node in enumerate(self._graph.nodes):
            where = f"node {number} ({node.target[:_SHOWN]})"
            for given in node.inputs:
                yield from self._use(given.arg, where)
                if given.arg.tag == "as_graph":
                    name = given.arg.value.name[:_SHOWN]
                    self.graphs.append((f"the graph {name!r}", given.arg.value.graph))
            for argument in node.outputs:
                yield from self._define(argument)
        for argument in self._graph.outputs:
            yield from self._use(argument, "its results")

    def _define(self, argument: Argument) -> Iterator[Finding]:
        for name, kind in named_values(argument):
            if name in self._defined:
                yield self._wrong(f"{name[:_SHOWN]!r} is defined twice")
            elif name not in getattr(self._graph, kind.value):
                yield self._wrong(f"{kind.value} does not describe {name[:_SHOWN]!r}")
            self._defined.add(name)

    def _use(self, argument: Argument, where: str) -> Iterator[Finding]:
        for name, kind in named_values(argument):
            if name in self._defined or (kind is ValueKind.OBJECT and name in self._objects):
                continue
            yield self._wrong(f"{where} has {name[:_SHOWN]!r}, which nothing before it defines")

    def _wrong(self, message: str) -> Finding:
        return broken(_RULE, f"{self._place}: {message}", self._record)
