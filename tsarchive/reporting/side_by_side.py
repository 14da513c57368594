"""Code before and after, line beside line, with what differs within a line marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final, NamedTuple

from tsarchive.diffing.report import MethodChange, SideBySide, SourceLine

from .code import highlight_line, tokens_of
from .html import MAX_LINE, Html, joined, more, tag

# Lines alike that are shown around others.
_CONTEXT: Final = 3
# A comparison of the tokens of two lines takes time with the product of their numbers.
_MOST_TOKENS: Final = 400
_COLUMNS: Final = tag("colgroup", *(tag("col", class_=name) for name in ("n", None, "n", None)))


def block(method: MethodChange, most: int, *, is_open: bool) -> tuple[Html, int]:
    """Draw a method of which at most ``most`` lines are shown; give how many are."""
    changed = sum(not row.is_same for row in method.rows)
    told = f"{changed:,} of {len(method.rows):,} lines differ"
    name = tag("span", method.where or "(root)", class_="name")
    heading = tag("summary", name, " ", tag("span", told, class_="figures"))
    rows = list(method.rows[:most])
    body = tag("table", _COLUMNS, tag("tbody", *_rows(rows)), class_="sides lines")
    rest = more(len(rows), len(method.rows), "line")
    drawn = tag("details", heading, tag("div", body, class_="scroll"), rest,
                class_="code-block", open=is_open)  # fmt: skip
    return drawn, len(rows)


def _rows(rows: Sequence[SideBySide]) -> Iterator[Html]:
    sources: tuple[SourceLine | None, SourceLine | None] = (None, None)
    for is_shown, group in groupby(_near(rows), lambda pair: pair[0]):
        listed = [row for _, row in group]
        if not is_shown:
            told = f"{len(listed):,} more {'line' if len(listed) == 1 else 'lines'} alike"
            yield tag("tr", tag("td", told, colspan=4), class_="left-out")
            continue
        for row in listed:
            if row.source != sources and any(row.source):
                yield _origin(row.source)
            sources = row.source
            yield _row(row)


def _near(rows: Sequence[SideBySide]) -> Iterator[tuple[bool, SideBySide]]:
    """Yield each line with whether one that differs is near; all where none differs."""
    changed = [index for index, row in enumerate(rows) if not row.is_same]
    near = {i + step for i in changed for step in range(-_CONTEXT, _CONTEXT + 1)}
    near |= {i for i in range(len(rows)) if {i - 1, i + 1} <= near | {-1, len(rows)}}
    for index, row in enumerate(rows):
        yield not changed or index in near, row


def _origin(source: tuple[SourceLine | None, SourceLine | None]) -> Html:
    """Return a row with the lines of user source that the next lines come from."""
    cells = (tag("td", f"# {line}" if line else "", colspan=2) for line in source)
    return tag("tr", *cells, class_="origin")


def _row(row: SideBySide) -> Html:
    if row.is_same:
        shown = _Pair(*(highlight_line(line or "", MAX_LINE) for line in (row.before, row.after)))
    else:
        shown = marked(row.before, row.after)
    before, after = row.source
    return tag(
        "tr",
        tag("td", _number(before), class_="n"),
        tag("td", shown.before, class_=_class("removed", row, row.before)),
        tag("td", _number(after), class_="n"),
        tag("td", shown.after, class_=_class("added", row, row.after)),
    )


def _number(source: SourceLine | None) -> str:
    return str(source.line) if source else ""


def _class(name: str, row: SideBySide, line: str | None) -> str | None:
    if line is None:
        return "absent"
    return None if row.is_same else name


class _Pair(NamedTuple):
    before: Html
    after: Html


def marked(before: str | None, after: str | None) -> _Pair:
    """Highlight two lines, and mark the tokens that differ; a line that has no other is whole."""
    if before is None or after is None:
        return _Pair(*(highlight_line(line or "", MAX_LINE) for line in (before, after)))
    one, other = tokens_of(before), tokens_of(after)
    is_long = max(len(before), len(after)) > MAX_LINE or max(len(one), len(other)) > _MOST_TOKENS
    if is_long:
        return _Pair(highlight_line(before, MAX_LINE), highlight_line(after, MAX_LINE))
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    left = ((one[start:end], kind == "equal") for kind, start, end, _, _ in steps)
    right = ((other[start:end], kind == "equal") for kind, _, _, start, end in steps)
    return _Pair(joined(map(_piece, left)), joined(map(_piece, right)))


def _piece(part: tuple[Sequence[str], bool]) -> Html:
    tokens, is_equal = part
    shown = highlight_line("".join(tokens), MAX_LINE)
    return shown if is_equal or not shown else tag("mark", shown)
