"""The HTML document: a single file that loads nothing, with its style and script inline."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from tsarchive.describing.text import plural, size
from tsarchive.findings import Severity
from tsarchive.formats.registry import title_of

from .html import Html, joined, tag
from .section import Section, Subject


def page(subject: Subject, sections: Sequence[Section]) -> Html:
    """Return the whole document.

    Its policy lets a browser use only the style and the script in it, identified by their hashes,
    and never contact any address.
    """
    style, script = _resource("style.css"), _resource("page.js")
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=Html(_policy(style, script))),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{subject.name}: tsarchive"),
        tag("style", Html(style)),
    )
    body = (
        tag("a", "To the content", href="#content", class_="skip"),
        _header(subject),
        tag("nav", _contents(sections), aria_label="Sections"),
        tag("main", *map(_section, sections), id="content"),
        tag("script", _data(sections), type="application/json", id="page-data"),
        tag("script", Html(script)),
    )
    document = tag("html", tag("head", *head), Html("\n"), tag("body", *body), lang="en")
    return Html(f"<!DOCTYPE html>\n{document}\n")


def _header(subject: Subject) -> Html:
    kind = subject.kind or "unknown"
    parts = [title_of(kind), f"{size(subject.nbytes)} ({subject.nbytes:,} bytes)"]
    told = joined((", ".join(parts), *_badges(subject)), " ")
    return tag("header", tag("h1", subject.name), tag("p", told))


def _badges(subject: Subject) -> Iterator[Html]:
    """Yield badges: the result of verifying in one word, and the number of findings."""
    if subject.verified is not None:
        style = "good" if subject.verified.ok else "bad"
        yield tag("b", subject.verified.verdict, class_=f"badge {style}")
    counts = Counter(finding.severity for finding in subject.findings)
    for severity in (Severity.ERROR, Severity.WARNING):
        if counts[severity]:
            number = plural(counts[severity], severity.value)
            yield tag("a", number, href="#findings", class_=f"badge {severity.value}")


def _contents(sections: Sequence[Section]) -> Html:
    items = (
        tag("li", tag("a", section.title, href=f"#{section.name}"), _count(section))
        for section in sections
    )
    return tag("ul", *items)


def _count(section: Section) -> Html | None:
    if section.total <= 1:
        return None
    return joined((" ", tag("span", f"{section.total:,}", class_="figures")))


def _section(section: Section) -> Html:
    heading = tag("h2", section.title, id=f"{section.name}-title")
    return tag("section", heading, section.body, id=section.name,
               aria_labelledby=f"{section.name}-title")  # fmt: skip


def _data(sections: Sequence[Section]) -> Html:
    """Return JSON in which nothing can end its enclosing element."""
    found = {section.name: section.data for section in sections if section.data is not None}
    written = json.dumps(found, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        written = written.replace(letter, f"\\u{ord(letter):04x}")
    return Html(written)


def _policy(style: str, script: str) -> str:
    """Return a policy without inline handlers, style attributes, and markup made by the script."""
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


@cache
def _resource(name: str) -> str:
    """Read a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
