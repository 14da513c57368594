"""Highlighted code of a file, each piece below the lines of user source that it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tsarchive.archive import Archive
from tsarchive.describing.text import plural
from tsarchive.errors import ArchiveError

from .caps import LINES_PER_ROW, MAX_LINE
from .colouring import highlight_line
from .html import Html, joined, more, tag
from .origins import Origins, UserSource
from .section import Section, Subject


@dataclass(frozen=True, slots=True)
class _Line:
    """A numbered line of code (from 1), or an unnumbered line of user source.

    ``anchor`` links the latter to the full source.
    """

    text: str
    number: int | None = None
    anchor: str | None = None


@dataclass(slots=True)
class _Budget:
    """How many lines may still be shown: of code, and of user source between them."""

    code: int
    origins: int

    def take(self, lines: Iterable[_Line]) -> list[_Line]:
        taken = []
        for line in lines:
            if line.number is None and self.origins:
                self.origins -= 1
                taken.append(line)
            elif line.number is not None:
                if not self.code:
                    break
                self.code -= 1
                taken.append(line)
        return taken


def code(subject: Subject) -> Section | None:
    """Make the section; None for files without code."""
    archive = subject.archive
    if archive is None or not (subject.has_program or _has_records(archive)):
        return None
    most = subject.rows * LINES_PER_ROW
    budget, origins = _Budget(most, most), Origins(archive, most)
    blocks, total = [], 0
    for number, (name, text) in enumerate(_texts(archive)):
        if isinstance(text, ArchiveError):
            blocks.append(_unread(name, text))
            continue
        count = len(_split(text))
        total += count
        lines = budget.take(_lines(archive, name, text, origins))
        blocks.append(_block(name, lines, count, _anchor(number), is_open=not number))
    if not blocks:
        return None
    body = joined((_tools(), *blocks, *_sources(origins.sources)))
    return Section("code", "Code", body, most - budget.code, total)


def _has_records(archive: Archive) -> bool:
    """Return whether the archive's code is the text of records."""
    return not archive.view.has_listings


def _texts(archive: Archive) -> Iterator[tuple[str, str | ArchiveError]]:
    """Yield the code by name, or the error that prevents reading it."""
    code = archive.view.source
    for name in code:
        try:
            yield name, code[name]
        except ArchiveError as error:
            yield name, error


def _anchor(number: int) -> str:
    return f"code-{number}"


def line_anchors(subject: Subject) -> LineAnchors:
    """Return the locations of lines of code records in the page."""
    if subject.archive is None or not _has_records(subject.archive):
        return LineAnchors({}, {})
    left = subject.rows * LINES_PER_ROW
    shown, anchors = {}, {}
    for number, (name, text) in enumerate(_texts(subject.archive)):
        shown[name] = 0 if isinstance(text, ArchiveError) else min(len(_split(text)), left)
        left -= shown[name]
        anchors[name] = _anchor(number)
    return LineAnchors(anchors, shown)


@dataclass(frozen=True, slots=True)
class LineAnchors:
    """The blocks of records, and how many lines of each are shown."""

    blocks: Mapping[str, str]
    shown: Mapping[str, int]

    def of(self, record: str | None, line: int) -> str | None:
        """Return the anchor of a line, None if it is not shown."""
        if record is None or not 1 <= line <= self.shown.get(record, 0):
            return None
        return _line_anchor(self.blocks[record], line)


def _line_anchor(block: str, line: int) -> str:
    return f"{block}-L{line}"


def _lines(archive: Archive, name: str, text: str, origins: Origins) -> Iterator[_Line]:
    if archive.view.has_listings:
        return _listed(text, archive.view.sourced_code[name])
    return _stored(name, text, origins)


def _listed(plain: str, sourced: str) -> Iterator[_Line]:
    """Yield a listing; lines that are missing from the plain one are user source."""
    expected = iter(_split(plain))
    wanted, number = next(expected, None), 1
    for line in _split(sourced):
        if line == wanted:
            yield _Line(line, number)
            wanted, number = next(expected, None), number + 1
        else:
            yield _Line(line)


def _stored(name: str, text: str, origins: Origins) -> Iterator[_Line]:
    """Yield a code record with the locations in user source from its debug record."""
    of_record = origins.of_record(name, text)
    before = None
    for number, line in enumerate(_split(text), 1):
        origin = of_record.line(number)
        if origin is not None and origin != before:
            indent = line[: len(line) - len(line.lstrip())]
            yield _Line(f"{indent}# {origin.text}", anchor=origin.anchor)
            before = origin
        yield _Line(line, number)


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


# Rendering


def _tools() -> Html:
    box = tag("input", type="checkbox", id="show-origins", checked=True)
    return tag("p", tag("label", box, " lines of user source"), class_="tools")


def _block(name: str, lines: list[_Line], total: int, anchor: str, *, is_open: bool) -> Html:
    heading = tag("summary", tag("span", name, class_="name"), " ",
                  tag("span", plural(total, "line"), class_="figures"))  # fmt: skip
    shown = sum(line.number is not None for line in lines)
    rest = more(shown, total, "line")
    drawn = joined(_drawn(line, anchor) for line in lines)
    body = tag("pre", tag("code", drawn), tabindex=0) if lines else None
    return tag("details", heading, body, rest, class_="code-block", open=is_open)


def _unread(name: str, error: ArchiveError) -> Html:
    return tag("p", tag("span", name, class_="name"), f" {error.message}", class_="problem")


def _drawn(line: _Line, block: str) -> Html:
    text = highlight_line(line.text, MAX_LINE)
    if line.number is None:
        linked = text if line.anchor is None else tag("a", text, href=f"#{line.anchor}")
        return tag("span", linked, Html("\n"), class_="line origin")
    anchor = _line_anchor(block, line.number)
    return tag("span", text, Html("\n"), class_="line", id=anchor, data_n=line.number)


def _sources(sources: list[UserSource]) -> Iterator[Html]:
    """Yield pieces of user source in full, as debug records hold them."""
    if sources:
        yield tag("h3", "User source")
    for source in sources:
        every = _split(source.text)
        lines = [_Line(line, number) for number, line in enumerate(every, source.first_line)]
        yield _block(source.title, lines, len(lines), source.anchor, is_open=False)
