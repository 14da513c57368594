"""The headline facts of a file, as in ``tsarchive info``, and a breakdown of its bytes."""

from __future__ import annotations

from collections.abc import Mapping

from tsarchive.describing.facts import GroupFacts
from tsarchive.describing.lines import fact_lines
from tsarchive.describing.text import plural, size
from tsarchive.formats.registry import format_named

from .caps import MAX_FACT
from .html import Html, joined, tag, text
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
