"""Debug records, which map bytes of code records to user source: reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tsarchive.container import Container
from tsarchive.errors import PickleError
from tsarchive.ir.source_ranges import Range, Source, TaggedRange
from tsarchive.pickler import Global, Reduce, loads
from tsarchive.pickler import opcodes as op
from tsarchive.pickler.writer import (
    MARK,
    get_opcode,
    global_opcode,
    int_opcode,
    put_opcode,
    str_opcode,
    tuple_opcodes,
)

from .code_records import DEBUG_SUFFIX

FORMAT = "FORMAT_WITH_STRING_TABLE"
INT_LIST = Global("torch.jit._pickle", "build_intlist")
# Limit on the total text: a table of texts can repeat one long line. Real records have two million
# characters.
MAX_TEXT = 1 << 26
_MAX_LINE = (1 << 31) - 1


def read_debug_record(data: bytes, record: str) -> list[TaggedRange]:
    """Return the ranges of one code record; equal objects in the pickle give one source.

    Raises PickleError for a record without a table of texts, as older torch wrote it.
    """
    match loads(data, record=record):
        case (str(form), tuple(texts), tuple(rows)) if form == FORMAT:
            reader = _RowReader(texts, record)
            return [reader.row(row) for row in rows]
    raise PickleError(
        "the debug record has no table of texts",
        record=record,
        hint="It was written by an older torch",
    )


def read_any_debug_record(data: bytes, record: str) -> list[TaggedRange]:
    """Return the ranges of one code record, also without a text table (before torch 1.11).

    Raises PickleError.
    """
    match loads(data, record=record):
        case (str(form), tuple(texts), tuple(rows)) if form == FORMAT:
            reader = _RowReader(texts, record)
        case tuple(rows):
            reader = _OldRowReader((), record)
        case _:
            raise PickleError("the debug record is malformed", record=record)
    return [reader.row(row) for row in rows]


class DebugRecords(Mapping[str, Sequence[TaggedRange]]):
    """The debug records of a container by the name of their code record.

    ``records`` maps names of code records to those of debug records; by default these differ only
    in their suffix.
    """

    def __init__(self, container: Container, records: Mapping[str, str] | None = None) -> None:
        self._container = container
        self._records = dict(_with_ending(container) if records is None else records)

    def __getitem__(self, name: str) -> Sequence[TaggedRange]:
        record = self._records[name]
        return read_any_debug_record(self._container.read(record), record)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


def _with_ending(container: Container) -> Iterator[tuple[str, str]]:
    for name in container.records:
        if name.endswith(DEBUG_SUFFIX):
            yield name.removesuffix(DEBUG_SUFFIX), name


class _RowReader:
    """Reads the rows of one debug record."""

    def __init__(self, texts: tuple[Any, ...], record: str) -> None:
        self._texts = texts
        self._record = record
        self._sources: dict[int, Source | None] = {}
        self._text_left = MAX_TEXT

    def row(self, row: Any) -> TaggedRange:
        match row:
            case (int(offset), (tuple(source), int(begin), int(end)), int()):
                if not all(map(_is_place, (offset, begin, end))):
                    raise self._malformed()
                found = self._source(source)
                return TaggedRange(offset, None if found is None else Range(found, begin, end))
        raise self._malformed()

    def _source(self, source: tuple[Any, ...]) -> Source | None:
        if id(source) not in self._sources:
            self._sources[id(source)] = self._described(source)
        return self._sources[id(source)]

    def _described(self, source: tuple[Any, ...]) -> Source | None:
        match source:
            case (Reduce(function, (list(lines),)), int(filename), int(first_line)) if (
                function == INT_LIST and _is_line(first_line)
            ):
                if not lines:
                    return None
                text = "".join(map(self._text, lines))
                return Source(text, self._text(filename), first_line)
        raise self._malformed()

    def _text(self, number: Any) -> str:
        if type(number) is int and 0 <= number < len(self._texts):
            text = self._texts[number]
            if isinstance(text, str):
                self._spend(len(text))
                return text
        raise self._malformed()

    def _spend(self, characters: int) -> None:
        self._text_left -= characters
        if self._text_left < 0:
            raise PickleError(
                "the sources of the debug record are too long", record=self._record, limit=MAX_TEXT
            )

    def _malformed(self) -> PickleError:
        return PickleError("the debug record is malformed", record=self._record)


class _OldRowReader(_RowReader):
    """Reads rows that contain their source; the oldest have no tag."""

    def row(self, row: Any) -> TaggedRange:
        match row:
            case (int(offset), place):
                return super().row((offset, place, 0))
        return super().row(row)

    def _described(self, source: tuple[Any, ...]) -> Source | None:
        match source:
            case (str(text), str() | None as filename, int(first_line)) if _is_line(first_line):
                return Source(text, filename, first_line) if text else None
        raise self._malformed()


def _is_place(number: int) -> bool:
    return type(number) is int and number >= 0


def _is_line(number: int) -> bool:
    return type(number) is int and 0 <= number <= _MAX_LINE


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
