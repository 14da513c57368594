"""Writes debug records: which user source each byte of a code record came from.

They are most of the pickles of a small archive, and all have one form: they are written as bytes
without becoming values first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tsarchive.pickler import opcodes as op
from tsarchive.pickler.encoding import (
    MARK,
    get_opcode,
    global_opcode,
    int_opcode,
    put_opcode,
    str_opcode,
    tuple_opcodes,
)
from tsarchive.printer.ranges import Range, Source, TaggedRange
from tsarchive.torchscript.debug import FORMAT, INT_LIST

_BEGIN = op.PROTO.byte + b"\x02"
_LIST = MARK + op.EMPTY_LIST.byte + MARK
_CALL = op.APPENDS.byte + op.TUPLE.byte + op.REDUCE.byte
_TUPLE3 = op.TUPLE3.byte
_END = _TUPLE3 + op.STOP.byte


class DebugWriter:
    """Writes the debug records of one archive; tags are counted over all of them."""

    def __init__(self) -> None:
        self._tags: dict[Range | None, int] = {}

    def record(self, ranges: Sequence[TaggedRange]) -> bytes:
        """The pickle for one code record: (format, texts, ((offset, range, tag), ...)).

        Raises SaveError for a text that UTF-8 cannot encode.
        """
        sources = dict.fromkeys(range_.source if range_ else None for _, range_ in ranges)
        texts = _Texts()
        described = {source: texts.described(source) for source in sources}
        pickle = _Pickle()
        pickle.string(FORMAT)
        pickle.tuple(len(texts.numbers), map(pickle.string, texts.numbers))
        pickle.tuple(len(ranges), self._rows(pickle, ranges, described))
        return bytes(pickle.out + _END)

    def _rows(
        self,
        pickle: _Pickle,
        ranges: Iterable[TaggedRange],
        described: dict[Source | None, _Described],
    ) -> Iterator[None]:
        """Writes a row at each step."""
        tags, out = self._tags, pickle.out
        known: dict[Source | None, bytes] = {}
        for offset, range_ in ranges:
            source, begin, end = range_ if range_ else (None, 0, 0)
            out += int_opcode(offset)
            if source in known:
                out += known[source]
            else:
                known[source] = pickle.source(*described[source])
            out += int_opcode(begin) + int_opcode(end) + _TUPLE3
            out += int_opcode(tags.setdefault(range_, len(tags))) + _TUPLE3
            yield


_Described = tuple[list[int], int, int]


class _Texts:
    """The text table of one debug record, and the sources that refer to it."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def described(self, source: Source | None) -> _Described:
        """The lines and the file name by their numbers, and the first line."""
        if source is None:
            return [], 0, 0
        lines = list(map(self._number, _lines(source.text)))
        filename = self._number(source.filename) if source.filename is not None else 0
        return lines, filename, source.first_line

    def _number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


class _Pickle:
    """The bytes of one record, with everything memoised that torch memoises."""

    def __init__(self) -> None:
        self.out = bytearray(_BEGIN)
        self._strings: dict[str, bytes] = {}
        self._int_list = b""
        self._memos = 0

    def _put(self) -> bytes:
        """Memoises what was just written; gives what stands for it from now on."""
        self.out += put_opcode(self._memos)
        self._memos += 1
        return get_opcode(self._memos - 1)

    def string(self, text: str) -> None:
        if text in self._strings:
            self.out += self._strings[text]
        else:
            self.out += str_opcode(text)
            self._strings[text] = self._put()

    def tuple(self, length: int, written: Iterable[None]) -> None:
        """A tuple of items that are written at each step of ``written``."""
        opening, closing = tuple_opcodes(length)
        self.out += opening
        for _ in written:
            pass
        self.out += closing
        self._put()

    def source(self, lines: Iterable[int], filename: int, first_line: int) -> bytes:
        """A source for the first time; gives what stands for it from now on."""
        if self._int_list:
            self.out += self._int_list
        else:
            self.out += global_opcode(INT_LIST)
            self._int_list = self._put()
        self.out += _LIST + b"".join(map(int_opcode, lines)) + _CALL
        self.out += int_opcode(filename) + int_opcode(first_line) + _TUPLE3
        return self._put()


def _lines(text: str) -> list[str]:
    """Lines with their line ends; text that ends in one has a last, empty line."""
    *ended, last = text.split("\n")
    return [f"{line}\n" for line in ended] + [last]
