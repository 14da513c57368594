"""Reading of debug records, which map bytes of code records to user source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tsarchive.container import Container
from tsarchive.errors import PickleError
from tsarchive.ir.source_ranges import Range, Source, TaggedRange
from tsarchive.pickler import Global, Reduce, loads

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
