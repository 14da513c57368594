"""Debug records: which user source each byte of a code record came from."""

from __future__ import annotations

from collections.abc import Sequence

from tsarchive.pickler import Global, MarkedTuple, Memoised, Reduce, Value, dumps
from tsarchive.printer.ranges import Range, Source, TaggedRange

_FORMAT = "FORMAT_WITH_STRING_TABLE"
_INT_LIST = Global("torch.jit._pickle", "build_intlist")
_NO_SOURCE: tuple[Value, ...] = (Reduce(_INT_LIST, MarkedTuple(([],))), 0, 0)


class DebugWriter:
    """Writes the debug records of one archive; tags are counted over all of them."""

    def __init__(self) -> None:
        self._tags: dict[Range | None, int] = {}

    def record(self, ranges: Sequence[TaggedRange]) -> bytes:
        """The pickle for one code record: (format, texts, ((offset, range, tag), ...))."""
        texts = _Texts()
        rows = tuple(self._row(texts, offset, range_) for offset, range_ in ranges)
        table = tuple(texts.numbers)
        return dumps((_FORMAT, Memoised(table), Memoised(rows)))

    def _row(self, texts: _Texts, offset: int, range_: Range | None) -> Value:
        tag = self._tags.setdefault(range_, len(self._tags))
        source = texts.source(range_.source if range_ else None)
        begin, end = (range_.begin, range_.end) if range_ else (0, 0)
        return (offset, (source, begin, end), tag)


class _Texts:
    """The text table of one debug record, and the sources that refer to it."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}
        self._sources: dict[Source | None, Memoised] = {}

    def source(self, source: Source | None) -> Memoised:
        known = self._sources.get(source)
        if known is None:
            known = self._sources[source] = Memoised(self._described(source))
        return known

    def _described(self, source: Source | None) -> tuple[Value, ...]:
        if source is None:
            return _NO_SOURCE
        lines: Value = [self._number(line) for line in _lines(source.text)]
        filename = self._number(source.filename) if source.filename is not None else 0
        return (Reduce(_INT_LIST, MarkedTuple((lines,))), filename, source.first_line)

    def _number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def _lines(text: str) -> list[str]:
    """Lines with their line ends; text that ends in one has a last, empty line."""
    *ended, last = text.split("\n")
    return [f"{line}\n" for line in ended] + [last]
