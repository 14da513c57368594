"""The facts of a file, as in ``tsarchive info``, its bytes by purpose, and its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tsarchive.container import Record
from tsarchive.describing.facts import GroupFacts
from tsarchive.describing.lines import fact_lines
from tsarchive.describing.text import method_name, plural, size
from tsarchive.errors import ArchiveError
from tsarchive.formats.base import ZipFormat
from tsarchive.formats.records import RecordTable
from tsarchive.formats.registry import format_named

from .html import MAX_FACT, Cell, Html, joined, more, table, tag, text
from .section import Section, Subject


def overview(subject: Subject) -> Section | None:
    """Make the section; None for a file that cannot be opened."""
    if subject.archive is None:
        return None
    format_ = format_named(subject.archive.kind)
    facts = format_.describe(subject.archive, subject.name, subject.nbytes)
    body = joined((_bytes(facts.groups), _facts(list(fact_lines(facts)))))
    return Section("overview", "Overview", body, 1, 1)


def _facts(lines: list[tuple[str, str]]) -> Html:
    """List labels and values; a value without a label continues the one before."""
    rows: list[Html] = []
    for label, value in lines:
        if label:
            rows.append(tag("dt", label))
        rows.append(tag("dd", text(value, MAX_FACT)))
    return tag("dl", *rows, class_="facts")


def _bytes(groups: Mapping[str, GroupFacts]) -> Html:
    """Draw the shares of record groups as a bar and as a table."""
    groups = dict(sorted(groups.items(), key=lambda item: -item[1].stored_bytes))
    total = sum(group.stored_bytes for group in groups.values()) or 1
    parts: list[Html] = []
    start = 0.0
    for number, (name, group) in enumerate(groups.items()):
        width = 1000 * group.stored_bytes / total
        title = tag("title", f"{name}: {size(group.stored_bytes)}")
        colour = f"part c{number % 8}"
        parts.append(
            tag("rect", title, x=round(start, 2), y=0, width=round(width, 2), height=20,
                class_=colour)
        )  # fmt: skip
        start += width
    bar = tag("svg", *parts, viewBox="0 0 1000 20", preserveAspectRatio="none", class_="bytes",
              role="img", aria_label="Bytes by purpose, as the list below tells them")  # fmt: skip
    return joined((bar, _legend(groups, total)))


def _legend(groups: Mapping[str, GroupFacts], total: int) -> Html:
    items = (
        tag(
            "li",
            tag("span", class_=f"key c{number % 8}"),
            tag("b", name),
            f" {size(group.stored_bytes)}, {100 * group.stored_bytes / total:.1f} %, "
            f"{plural(group.records, 'record')}",
        )
        for number, (name, group) in enumerate(groups.items())
    )
    return tag("ul", *items, class_="legend")


_OF_ZIP: Final = ("record", "purpose", "bytes", "in the file", "stored as", "offset")
_OF_PARTS: Final = ("part", "bytes", "offset")


def records(subject: Subject) -> Section | None:
    """Make the section; None for a file that cannot be opened."""
    archive = subject.archive
    if archive is None:
        return None
    found = list(archive.records.values())
    shown = found[: subject.rows]
    format_ = format_named(archive.kind)
    purposes = format_.table(archive.container) if isinstance(format_, ZipFormat) else None
    headings = _OF_PARTS if purposes is None else _OF_ZIP
    rows = [_row(record, purposes) for record in shown]
    body = joined((table("records", headings, rows), more(len(shown), len(found), "record")))
    return Section("records", "Records", body, len(shown), len(found))


def _row(record: Record, purposes: RecordTable | None) -> list[Cell]:
    """Return the cells of a record; for a part of another file than a zip, the fewer ones."""
    name, nbytes = Cell(record.name, is_code=True), Cell(f"{record.size:,}", value=record.size)
    if purposes is None:
        return [name, nbytes, _offset(record)]
    return [
        name,
        Cell(purposes.role(record.name).described),
        nbytes,
        Cell(f"{record.stored_size:,}", value=record.stored_size),
        Cell(method_name(record.method)),
        _offset(record),
    ]


def _offset(record: Record) -> Cell:
    """Return the offset of a record's data in the file, according to its local header."""
    try:
        return Cell(f"{record.offset:,}", value=record.offset)
    except ArchiveError:
        return Cell("unknown", value=-1)
