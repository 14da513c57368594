"""Writing of debug records, which map bytes of code records to user source.

They are most of the pickles of a small archive, and all have one form: they are written as bytes
directly, without intermediate values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tsarchive.ir.source_ranges import Range, Source, TaggedRange
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

from .debug import FORMAT, INT_LIST

_BEGIN = op.PROTO.byte + b"\x02"
_LIST = MARK + op.EMPTY_LIST.byte + MARK
_CALL = op.APPENDS.byte + op.TUPLE.byte + op.REDUCE.byte
_TUPLE3 = op.TUPLE3.byte
_END = _TUPLE3 + op.STOP.byte


class DebugWriter:
    """Writes the debug records of one archive, with tags numbered across all of them."""

    def __init__(self) -> None:
        self._tags: dict[Range | None, int] = {}
        self._lines: dict[str, list[str]] = {}
        self._strings: dict[str, bytes] = {}

    def record(self, ranges: Sequence[TaggedRange]) -> bytes:
        """Return the pickle for one code record: (format, texts, ((offset, range, tag), ...)).

        Raises SaveError for a text that UTF-8 cannot encode.
        """
        sources = dict.fromkeys(range_.source if range_ else None for _, range_ in ranges)
        texts = _Texts(self._lines_of)
        described = {source: texts.described(source) for source in sources}
        pickle = _Pickle(self._strings)
        pickle.string(FORMAT)
        pickle.tuple(len(texts.numbers), map(pickle.string, texts.numbers))
        pickle.tuple(len(ranges), self._rows(pickle, ranges, described))
        return bytes(pickle.out + _END)

    def _lines_of(self, text: str) -> list[str]:
        """Split into lines with their line ends; text that ends in one has a last, empty line.

        Cached, since records of one archive have many texts in common.
        """
        known = self._lines.get(text)
        if known is None:
            *ended, last = text.split("\n")
            known = self._lines[text] = [*(f"{line}\n" for line in ended), last]
        return known

    def _rows(
        self,
        pickle: _Pickle,
        ranges: Iterable[TaggedRange],
        described: dict[Source | None, _Described],
    ) -> Iterator[None]:
        """Write a row at each step."""
        tags, out = self._tags, pickle.out
        known: dict[Source | None, int] = {}
        for offset, range_ in ranges:
            source, begin, end = range_ if range_ else (None, 0, 0)
            out += int_opcode(offset)
            if source in known:
                out += get_opcode(known[source])
            else:
                known[source] = pickle.source(*described[source])
            out += int_opcode(begin) + int_opcode(end) + _TUPLE3
            out += int_opcode(tags.setdefault(range_, len(tags))) + _TUPLE3
            yield


_Described = tuple[list[int], int, int]


class _Texts:
    """The text table of one debug record, and the sources that refer to it."""

    def __init__(self, lines_of: Callable[[str], list[str]]) -> None:
        self.numbers: dict[str, int] = {"": 0}
        self._lines_of = lines_of

    def described(self, source: Source | None) -> _Described:
        """Return the indices of the lines and the file name, and the first line."""
        if source is None:
            return [], 0, 0
        numbers = self.numbers
        lines = [numbers.setdefault(line, len(numbers)) for line in self._lines_of(source.text)]
        name = source.filename
        filename = numbers.setdefault(name, len(numbers)) if name is not None else 0
        return lines, filename, source.first_line


class _Pickle:
    """The bytes of one record, memoised as torch does.

    ``encoded`` caches the bytes of strings for the other records of the archive.
    """

    def __init__(self, encoded: dict[str, bytes]) -> None:
        self.out = bytearray(_BEGIN)
        self._encoded = encoded
        self._strings: dict[str, int] = {}
        self._int_list: int | None = None
        self._memos = 0

    def _put(self) -> int:
        """Memoise what was just written; return its memo id."""
        self.out += put_opcode(self._memos)
        self._memos += 1
        return self._memos - 1

    def string(self, text: str) -> None:
        if text in self._strings:
            self.out += get_opcode(self._strings[text])
            return
        encoded = self._encoded.get(text)
        if encoded is None:
            encoded = self._encoded[text] = str_opcode(text)
        self.out += encoded
        self._strings[text] = self._put()

    def tuple(self, length: int, written: Iterable[None]) -> None:
        """Write a tuple whose items are written by the steps of ``written``."""
        opening, closing = tuple_opcodes(length)
        self.out += opening
        for _ in written:
            pass
        self.out += closing
        self._put()

    def source(self, lines: Iterable[int], filename: int, first_line: int) -> int:
        """Write a source for the first time; return its memo id."""
        if self._int_list is not None:
            self.out += get_opcode(self._int_list)
        else:
            self.out += global_opcode(INT_LIST)
            self._int_list = self._put()
        self.out += _LIST + b"".join(map(int_opcode, lines)) + _CALL
        self.out += int_opcode(filename) + int_opcode(first_line) + _TUPLE3
        return self._put()
