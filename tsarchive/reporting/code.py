"""Highlighted code of a file, each piece below the lines of user source that it came from.

Debug records tell the lines of user source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from keyword import kwlist
from typing import Final, NamedTuple

from tsarchive.archive import Archive
from tsarchive.describing.text import plural
from tsarchive.errors import ArchiveError
from tsarchive.frontend.places import RecordPlaces
from tsarchive.ir.source_ranges import Range, Source, byte_length

from .html import LINES_PER_ROW, MAX_LINE, Html, Section, Subject, clipped, joined, more, tag, text

# Each alternative takes at least one letter and never backtracks: time is linear in the line.
_TOKENS: Final = re.compile(
    r"""
      (?P<comment> \#.* )
    | (?P<string> (?:\b[rbfuRBFU]{1,2})? (?: "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? ) )
    | (?P<number> \b\d[\w.]* )
    | (?P<value> %\d+ )
    | (?P<operator> [A-Za-z_]\w*::[\w.]+ )
    | (?P<word> [A-Za-z_]\w* )
    """,
    re.VERBOSE,
)
_CLASSES: Final = {
    "comment": "tc", "string": "ts", "number": "tn", "value": "tv", "operator": "to",
}  # fmt: skip
_CONSTANTS: Final = frozenset({"False", "None", "True"})
_KEYWORDS: Final = frozenset(kwlist) - _CONSTANTS
_DEFINING: Final = frozenset({"class", "def"})


def highlight_line(line: str, most: int) -> Html:
    """Highlight a line of source, of which at most ``most`` characters are shown."""
    line = clipped(line, most)
    parts: list[Html] = []
    end, before = 0, ""
    for found in _TOKENS.finditer(line):
        parts.append(_escaped(line[end : found.start()]))
        class_ = _class_of(found, before)
        token = _escaped(found[0])
        parts.append(tag("span", token, class_=class_) if class_ else token)
        end, before = found.end(), found[0]
    parts.append(_escaped(line[end:]))
    return joined(parts)


def tokens_of(line: str) -> list[str]:
    """Split a line into the pieces that have one colour each, and single letters between."""
    parts: list[str] = []
    end = 0
    for found in _TOKENS.finditer(line):
        parts += line[end : found.start()]
        parts.append(found[0])
        end = found.end()
    return [*parts, *line[end:]]


def _class_of(token: re.Match[str], before: str) -> str | None:
    kind = token.lastgroup or ""
    if kind != "word":
        return _CLASSES[kind]
    if token[0] in _KEYWORDS:
        return "tk"
    if token[0] in _CONSTANTS:
        return "tn"
    return "td" if before in _DEFINING else None


def _escaped(piece: str) -> Html:
    return text(piece, len(piece))


# Limit per piece of source. Functions have hundreds of lines; a file made to exhaust memory has
# more.
_MAX_LINES: Final = 100_000


class Origin(NamedTuple):
    """A line of user source, ``net.py:12: y = self.body(x)``, and its anchor in the page.

    Traced code has no line, since only the place was kept.
    """

    text: str
    anchor: str | None


class Origins:
    """The source locations of all records, and the sources encountered.

    Pieces of source with the same place and text are merged, whichever record they come from. The
    number of lines shown is limited in total; lines beyond it have no anchors.
    """

    def __init__(self, archive: Archive, lines: int) -> None:
        self._debug = archive.debug
        self._lines_left = lines
        self._sources: dict[tuple[str | None, int, str], _Lines] = {}
        # Sources are also found by identity, which is faster.
        self._known: dict[Source, _Lines] = {}

    @property
    def sources(self) -> list[_Lines]:
        """The shown sources in the order in which they were encountered."""
        return [lines for lines in self._sources.values() if lines.is_shown]

    def of_record(self, record: str, text: str) -> Iterator[Origin | None]:
        """Yield the origin of the first piece of each line; None where it is unknown."""
        places = RecordPlaces(record, lambda: text, self._debug)
        for number, line in enumerate(places.lines, 1):
            indent = len(line) - len(line.lstrip())
            found = places.range_at(number, indent) if line.strip() else None
            yield None if found is None else self._of_range(found)

    def _of_range(self, found: Range) -> Origin | None:
        source = found.source
        if source not in self._known:
            key = source.filename, source.first_line, source.text
            if key not in self._sources:
                self._sources[key] = _Lines(source, f"source-{len(self._sources)}", self.reserve)
            self._known[source] = self._sources[key]
        return self._known[source].at(found.begin)

    def reserve(self, lines: int) -> bool:
        """Return whether this many more lines can be shown, and count them."""
        fits = lines <= self._lines_left
        self._lines_left -= lines if fits else 0
        return fits


class _Lines:
    """The lines of one source, with their byte offsets."""

    def __init__(self, source: Source, anchor: str, reserve: Callable[[int], bool]) -> None:
        is_readable = source.text.count("\n") < _MAX_LINES
        self.texts = source.text.split("\n") if is_readable else []
        self.first_line = source.first_line
        self.anchor = anchor
        self.is_shown: bool | None = None
        self._starts = [0, *accumulate(byte_length(line) + 1 for line in self.texts)]
        self._filename = source.filename
        self._origins: dict[int, Origin | None] = {}
        self._reserve = reserve

    @property
    def title(self) -> str:
        last = self.first_line + len(self.texts) - 1
        return f"{self._filename or '<unknown>'}, lines {self.first_line} to {last}"

    def at(self, offset: int) -> Origin | None:
        """Return the line that contains the byte at ``offset``."""
        if not self.texts:
            return None
        index = min(bisect_right(self._starts, offset), len(self.texts)) - 1
        if index not in self._origins:
            self._origins[index] = self._origin(index)
        return self._origins[index]

    def _origin(self, index: int) -> Origin | None:
        number = self.first_line + index
        place = Range(Source(self.texts[index], self._filename, number), 0, 0).location
        if place is None:
            return None
        if not place.text:  # a line of a Python stack, which is no source
            return Origin(str(place), None)
        if self.is_shown is None:
            self.is_shown = self._reserve(len(self.texts))
        return Origin(str(place), f"{self.anchor}-L{number}" if self.is_shown else None)


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
    """The number of lines that may still be shown: of code, and of user source between them."""

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


def code(subject: Subject, boxes: Mapping[str, str]) -> Section | None:
    """Make the section; None for files without code.

    ``boxes`` are the anchors of pictures of lines, by the anchors of the lines.
    """
    archive = subject.archive
    if archive is None or (archive.view.has_listings and not subject.has_program):
        return None
    most = subject.rows * LINES_PER_ROW
    budget, origins = _Budget(most, most), Origins(archive, most)
    blocks, total = [], 0
    for anchor, name, source in code_texts(archive):
        if isinstance(source, ArchiveError):
            shown = tag("span", name, class_="name")
            blocks.append(tag("p", shown, f" {source.message}", class_="problem"))
            continue
        count = len(_split(source))
        total += count
        lines = budget.take(_lines(archive, name, source, origins))
        blocks.append(_block(name, lines, count, anchor, boxes, is_open=not blocks))
    if not blocks:
        return None
    box = tag("input", type="checkbox", id="show-origins", checked=True)
    tools = tag("p", tag("label", box, " lines of user source"), class_="tools")
    body = joined((tools, *blocks, *_sources(origins.sources)))
    return Section("code", "Code", body, most - budget.code, total)


def code_texts(archive: Archive) -> Iterator[tuple[str, str, str | ArchiveError]]:
    """Yield the anchor of code in the page, its name, and its text or why it cannot be read."""
    code = archive.view.source
    for number, name in enumerate(code):
        anchor = f"code-{number}"
        try:
            yield anchor, name, code[name]
        except ArchiveError as error:
            yield anchor, name, error


def line_anchors(subject: Subject) -> dict[str, tuple[str, int]]:
    """Return the anchor of each code record in the page, and how many of its lines are shown."""
    if subject.archive is None or subject.archive.view.has_listings:
        return {}
    left = subject.rows * LINES_PER_ROW
    anchors = {}
    for anchor, name, source in code_texts(subject.archive):
        shown = 0 if isinstance(source, ArchiveError) else min(len(_split(source)), left)
        left -= shown
        anchors[name] = anchor, shown
    return anchors


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
    before = None
    lines = zip(_split(text), origins.of_record(name, text), strict=False)
    for number, (line, origin) in enumerate(lines, 1):
        if origin is not None and origin != before:
            indent = line[: len(line) - len(line.lstrip())]
            yield _Line(f"{indent}# {origin.text}", anchor=origin.anchor)
            before = origin
        yield _Line(line, number)


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


# Rendering


def _block(
    name: str, lines: list[_Line], total: int, anchor: str, boxes: Mapping[str, str],
    *, is_open: bool = False,
) -> Html:  # fmt: skip
    heading = tag("summary", tag("span", name, class_="name"), " ",
                  tag("span", plural(total, "line"), class_="figures"))  # fmt: skip
    shown = sum(line.number is not None for line in lines)
    rest = more(shown, total, "line")
    drawn = joined(_drawn(line, anchor, boxes) for line in lines)
    body = tag("pre", tag("code", drawn), tabindex=0) if lines else None
    return tag("details", heading, body, rest, class_="code-block", open=is_open)


def _drawn(line: _Line, block: str, boxes: Mapping[str, str]) -> Html:
    text = highlight_line(line.text, MAX_LINE)
    if line.number is None:
        linked = text if line.anchor is None else tag("a", text, href=f"#{line.anchor}")
        return tag("span", linked, Html("\n"), class_="line origin")
    anchor = f"{block}-L{line.number}"
    box = boxes.get(anchor)
    told = f"line {line.number} in the data flow"
    link = tag("a", href=f"#{box}", class_="drawn-as", aria_label=told) if box else None
    return tag("span", link, text, Html("\n"), class_="line", id=anchor, data_n=line.number)


def _sources(sources: list[_Lines]) -> Iterator[Html]:
    """Yield pieces of user source in full, as debug records hold them."""
    if sources:
        yield tag("h3", "User source")
    for source in sources:
        texts = _split("\n".join(source.texts))
        lines = [_Line(line, number) for number, line in enumerate(texts, source.first_line)]
        yield _block(source.title, lines, len(lines), source.anchor, {})
