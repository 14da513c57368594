"""The records of a file and their locations."""

from __future__ import annotations

from typing import Final

from tsarchive.container import Record
from tsarchive.describing.text import method_name
from tsarchive.errors import ArchiveError
from tsarchive.formats.base import ZipFormat
from tsarchive.formats.records import RecordTable
from tsarchive.formats.registry import format_named

from .html import joined, more
from .section import Section, Subject
from .tables import Cell, table

_OF_ZIP: Final = ("record", "purpose", "bytes", "in the file", "stored as", "offset")
_OF_PARTS: Final = ("part", "bytes", "offset")


def records(subject: Subject) -> Section | None:
    """Make the section; None for a file that cannot be opened."""
    if subject.archive is None:
        return None
    found = list(subject.archive.records.values())
    shown = found[: subject.rows]
    format_ = format_named(subject.archive.kind)
    headings: tuple[str, ...] = _OF_PARTS
    rows = [_part_row(record) for record in shown]
    if isinstance(format_, ZipFormat):
        headings, table_ = _OF_ZIP, format_.table(subject.archive.container)
        rows = [_record_row(record, table_) for record in shown]
    body = joined((table("records", headings, rows), more(len(shown), len(found), "record")))
    return Section("records", "Records", body, len(shown), len(found))


def _record_row(record: Record, table_: RecordTable) -> list[Cell]:
    return [
        Cell(record.name, is_code=True),
        Cell(table_.role(record.name).described),
        Cell(f"{record.size:,}", value=record.size),
        Cell(f"{record.stored_size:,}", value=record.stored_size),
        Cell(method_name(record.method)),
        _offset(record),
    ]


def _part_row(part: Record) -> list[Cell]:
    return [
        Cell(part.name, is_code=True),
        Cell(f"{part.size:,}", value=part.size),
        _offset(part),
    ]


def _offset(record: Record) -> Cell:
    """Return the offset of a record's data in the file, according to its local header."""
    try:
        return Cell(f"{record.offset:,}", value=record.offset)
    except ArchiveError:
        return Cell("unknown", value=-1)
