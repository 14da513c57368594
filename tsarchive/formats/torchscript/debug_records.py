"""Debug records, which map bytes of code records to user source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from tsarchive.container import Container
from tsarchive.errors import PickleError
from tsarchive.ir.source_ranges import Range, Source, TaggedRange
from tsarchive.pickler import Global, Reduce, loads
from tsarchive.pickler import opcodes as op
from tsarchive.pickler.writer import (
    MARK,
    MARKED_TUPLE,
    PickleWriter,
    get_opcode,
    int_opcode,
    tuple_opcodes,
)

# The suffix of the debug record of a code record.
DEBUG_SUFFIX = ".debug_pkl"
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


class DebugForm(Enum):
    """How the rows of a debug record are written: by torch before 1.9, before 1.12, and since."""

    UNTAGGED = "rows without tags"
    TAGGED = "rows with tags"
    TABLE = "rows with tags, and a table of texts"


class DebugRows(NamedTuple):
    """The rows of one debug record. ``tags`` number the ranges of all records of an archive.

    ``form`` is None where there are no rows to tell it.
    """

    form: DebugForm | None
    ranges: list[TaggedRange]
    tags: list[int]


def read_any_debug_record(data: bytes, record: str) -> list[TaggedRange]:
    """Return the ranges of one code record in any form. Raises PickleError."""
    return read_debug_rows(data, record).ranges


def read_debug_rows(data: bytes, record: str) -> DebugRows:
    """Return the rows of one debug record in any form. Raises PickleError."""
    match loads(data, record=record):
        case (str(form), tuple(texts), tuple(rows)) if form == FORMAT:
            reader, is_table = _RowReader(texts, record), True
        case tuple(rows):
            reader, is_table = _OldRowReader((), record), False
        case _:
            raise PickleError("the debug record is malformed", record=record)
    ranges = [reader.row(row) for row in rows]
    tags = [tag for row in rows for tag in _tags_of(row)]
    old = DebugForm.TAGGED if tags else DebugForm.UNTAGGED if rows else None
    return DebugRows(DebugForm.TABLE if is_table else old, ranges, tags)


def _tags_of(row: Any) -> tuple[int, ...]:
    match row:
        case (_, _, int(tag)):
            return (tag,)
    return ()


class DebugRecords(Mapping[str, Sequence[TaggedRange]]):
    """The debug records of a container by the name of their code record.

    ``records`` maps names of code records to those of debug records; by default these differ only
    in their suffix.
    """

    def __init__(self, container: Container, records: Mapping[str, str] | None = None) -> None:
        self._container = container
        if records is None:
            found = (name for name in container.records if name.endswith(DEBUG_SUFFIX))
            records = {name.removesuffix(DEBUG_SUFFIX): name for name in found}
        self._records = records

    def __getitem__(self, name: str) -> Sequence[TaggedRange]:
        record = self._records[name]
        return read_any_debug_record(self._container.read(record), record)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


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
                if not all(type(place) is int and place >= 0 for place in (offset, begin, end)):
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
                self._text_left -= len(text)
                if self._text_left < 0:
                    message = "the sources of the debug record are too long"
                    raise PickleError(message, record=self._record, limit=MAX_TEXT)
                return text
        raise self._malformed()

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


def _is_line(number: int) -> bool:
    return type(number) is int and 0 <= number <= _MAX_LINE


_TUPLE3 = op.TUPLE3.byte
# What stands around the items of a list that is the argument of a call.
_LIST_ARGUMENT = (
    MARKED_TUPLE[0] + op.EMPTY_LIST.byte + MARK,
    op.APPENDS.byte + MARKED_TUPLE[1] + op.REDUCE.byte,
)


class DebugWriter:
    """Writes the debug records of one archive, with tags numbered across all of them."""

    def __init__(self) -> None:
        # Where ranges are in their sources, and their tags, as rows end.
        self._ends: dict[Range | None, bytes] = {}
        self._lines: dict[str, list[str]] = {}

    def record(self, ranges: Sequence[TaggedRange]) -> bytes:
        """Return the pickle for one code record: (format, texts, ((offset, range, tag), ...)).

        Raises SaveError for a text that UTF-8 cannot encode.
        """
        numbers = {"": 0}
        sources = dict.fromkeys(range_[0] if range_ else None for _, range_ in ranges)
        described = self._all_described(sources, numbers)
        writer, ends = PickleWriter(), self._ends
        writer.write(FORMAT)
        _write_texts(writer, numbers)
        opening, closing = tuple_opcodes(len(ranges))
        # Rows are most of a record, and none is shared: their bytes are written directly.
        out, memos = writer.out, dict[Source | None, int]()
        out += opening
        for offset, range_ in ranges:
            source = range_[0] if range_ else None
            out += int_opcode(offset)
            if source in memos:
                out += get_opcode(memos[source])
            else:
                writer.write(INT_LIST)
                out += described[source]
                memos[source] = writer.put()
            end = ends.get(range_)
            if end is None:
                end = ends[range_] = _end_of_row(range_, len(ends))
            out += end
        out += closing
        writer.put()
        out += _TUPLE3
        return writer.finished()

    def _all_described(
        self, sources: Iterable[Source | None], numbers: dict[str, int]
    ) -> dict[Source | None, bytes]:
        """Return sources by their texts. Each stack of a trace is one of its own, often equal."""
        alike: dict[object, bytes] = {}
        found: dict[Source | None, bytes] = {}
        for source in sources:
            content = source and (source.text, source.filename, source.first_line)
            known = alike.get(content)
            if known is None:
                known = alike[content] = self._described(source, numbers)
            found[source] = known
        return found

    def _described(self, source: Source | None, numbers: dict[str, int]) -> bytes:
        """Return a source by its texts, which are added to the table ``numbers``.

        The name of the function that gives the list of the texts stands before it.
        """
        lines: list[int] = []
        filename = first_line = 0
        if source is not None:
            lines = [numbers.setdefault(text, len(numbers)) for text in self._split(source.text)]
            filename = numbers.setdefault(source.filename or "", len(numbers))
            first_line = source.first_line
        numbered = b"".join(map(int_opcode, lines))
        place = int_opcode(filename) + int_opcode(first_line)
        return _LIST_ARGUMENT[0] + numbered + _LIST_ARGUMENT[1] + place + _TUPLE3

    def _split(self, text: str) -> list[str]:
        """Split into lines with their line ends; text that ends in one has a last, empty line.

        Cached, since records of one archive have many texts in common.
        """
        known = self._lines.get(text)
        if known is None:
            *ended, last = text.split("\n")
            known = self._lines[text] = [*(f"{line}\n" for line in ended), last]
        return known


def _end_of_row(range_: Range | None, tag: int) -> bytes:
    _, begin, end = range_ if range_ else (None, 0, 0)
    return int_opcode(begin) + int_opcode(end) + _TUPLE3 + int_opcode(tag) + _TUPLE3


def _write_texts(writer: PickleWriter, texts: Collection[str]) -> None:
    opening, closing = tuple_opcodes(len(texts))
    writer.out += opening
    for text in texts:
        writer.write_text(text)
    writer.out += closing
    writer.put()
