"""The fixpoint of source ranges under torch's loading and saving.

torch writes the range of every node beside the text. When the text is read back, each node created
where some text begins gets the range recorded for that byte, and nodes without a location lose
theirs. After two such rounds the records repeat; here the rounds are simulated on the printed text,
without printing again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node
from tsarchive.ir.source_ranges import Mark, Range, Source, TaggedRange, TaggedText, range_records

from .literals import UNIQUE, is_number

_ROUNDS = 2


_Ranges = dict[str, list[TaggedRange]]
# A file, and an offset in it.
_Place = tuple[str, int]


def fixpoint_ranges(files: Mapping[str, TaggedText]) -> _Ranges:
    """Return the range records of each file, as torch's third save of the same program has them."""
    places = _places(files)
    bodies = files.values()
    first = {node: node.range for body in bodies for _, node in body.owners if node is not None}
    records = {name: range_records(body.owners, first.get) for name, body in files.items()}
    for _ in range(_ROUNDS):
        records = _after_round(files, records, places)
    return records


def ranges_after_reading(files: Mapping[str, TaggedText], records: _Ranges) -> _Ranges:
    """Return the range records of the next save, for files that were read with ``records``."""
    return _after_round(files, records, _places(files))


def _after_round(
    files: Mapping[str, TaggedText], records: _Ranges, places: Mapping[Node, _Place]
) -> _Ranges:
    loaded = {name: _loaded(rows) for name, rows in records.items()}
    ranges = {node: loaded[file](offset) for node, (file, offset) in places.items()}
    return {name: range_records(body.owners, ranges.get) for name, body in files.items()}


def _loaded(records: Sequence[TaggedRange]) -> Callable[[int], Range]:
    """Return what gives the range at an offset of a file, of which a loader makes new sources."""
    sources: dict[Source | None, Source] = {}
    offsets = [record.offset for record in records]
    ranges = [_reloaded(record.range, sources) for record in records]
    return lambda offset: ranges[bisect_right(offsets, offset) - 1]


def _reloaded(range_: Range | None, sources: dict[Source | None, Source]) -> Range:
    source = range_.source if range_ else None
    if source not in sources:
        old = source or Source("", "", 0)
        sources[source] = Source(old.text, old.filename or "", old.first_line)
    begin, end = (range_.begin, range_.end) if range_ else (0, 0)
    return Range(sources[source], begin, end)


def _places(files: Mapping[str, TaggedText]) -> dict[Node, _Place]:
    """Return where each node is created when the text is read back; others are left out."""
    places: dict[Node, _Place] = {}
    for name, body in files.items():
        for node, offset in _offsets(body.marks, places.keys()):
            places[node] = name, offset
    return places


def _offsets(marks: Iterable[Mark], known: Container[Node]) -> Iterator[tuple[Node, int]]:
    """Yield the locations in one file. A hook is printed twice; its copy in a class comes first."""
    scopes: list[_Scope] = []
    for mark in marks:
        if isinstance(mark.node, Function | Block):
            scopes.append(_Scope(mark.node, scopes[0] if scopes else None))
        elif mark.node is None and mark.literal is None:
            yield from ((node, at) for node, at in scopes.pop().places() if node not in known)
        else:
            scopes[-1].add(mark)


class _Scope:
    """A function body, in which equal constants become one node, or a closure in it.

    Numbers of a closure are merged with those of the function.
    """

    def __init__(self, scope: Function | Block, function: _Scope | None) -> None:
        self._function = function
        self._returns = (scope.graph if isinstance(scope, Function) else scope).returns
        self._offsets: dict[Node, int] = {}
        self._literals: dict[Node, object] = {}
        self._first: dict[object, tuple[int, bool]] = {}

    def add(self, mark: Mark) -> None:
        if mark.literal is None:
            if mark.node is not None and self._has_place(mark.node):
                self._offsets.setdefault(mark.node, mark.offset)
        elif self._function is not None and is_number(mark.literal):
            self._function.add(mark)
        else:
            self._add_literal(mark, mark.literal)

    def _add_literal(self, mark: Mark, literal: str) -> None:
        key: object = mark.node if literal == UNIQUE else literal
        if mark.node is not None:
            self._literals[mark.node] = key
        if mark.is_text or not is_number(literal):
            event = (mark.offset, not mark.is_text)
            self._first[key] = min(event, self._first.get(key, event))

    def _has_place(self, node: Node) -> bool:
        """Return whether a node has a location.

        Constants have none, nor has the return value made for code that always raises.
        """
        is_unreached = node.kind == "prim::Uninitialized" and node.output in self._returns
        return not (node.is_constant or is_unreached)

    def places(self) -> Iterator[tuple[Node, int]]:
        """Yield locations.

        Constants stand where the first equal one is created; defaults have none.
        """
        yield from self._offsets.items()
        for node, key in self._literals.items():
            offset, is_default = self._first.get(key, (0, True))
            if not is_default:
                yield node, offset
