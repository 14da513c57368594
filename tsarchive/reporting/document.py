"""A page as one HTML document that loads nothing, with its style and script inline."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tsarchive.errors import ArchiveError

from .html import Html, Section, tag

Subject = TypeVar("Subject")
Row: TypeAlias = tuple[str, str, Callable[[Subject], Section | None]]
"""A section of pages: its name, its title, and what makes it of what the page is about."""
_TOO_DEEP: Final = "it is nested too deeply to be shown"


class Made(NamedTuple):
    """The parts of a page, and what :class:`tsarchive.Page` tells of it."""

    name: str
    kind: str | None
    header: Html
    sections: Sequence[Section]
    ok: bool | None


def made_sections(
    rows: Sequence[Row[Subject]], subject: Subject, step: Callable[[str], None]
) -> list[Section]:
    """Make the sections of a page that have something to show."""
    return [section for row in rows if (section := _made(row, subject, step))]


def _made(row: Row[Subject], subject: Subject, step: Callable[[str], None]) -> Section | None:
    """Make a section, or one that tells why it cannot be made."""
    name, title, make = row
    step(name)
    try:
        return make(subject)
    except (ArchiveError, RecursionError) as error:
        message = error.message if isinstance(error, ArchiveError) else _TOO_DEEP
        problem = tag("p", f"This cannot be shown: {message}", class_="problem")
        return Section(name, title, problem, 0, 0)


def document(title: str, header: Html, sections: Sequence[Section]) -> Html:
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
        tag("title", f"{title}: tsarchive"),
        tag("style", Html(style)),
    )
    body = (
        tag("a", "To the content", href="#content", class_="skip"),
        tag("header", header),
        tag("nav", tag("ul", *map(_content, sections)), aria_label="Sections"),
        tag("main", *map(_section, sections), id="content"),
        tag("script", _data(sections), type="application/json", id="page-data"),
        tag("script", Html(script)),
    )
    document = tag("html", tag("head", *head), Html("\n"), tag("body", *body), lang="en")
    return Html(f"<!DOCTYPE html>\n{document}\n")


def _content(section: Section) -> Html:
    link = tag("a", section.title, href=f"#{section.name}")
    if section.total <= 1:
        return tag("li", link)
    return tag("li", link, " ", tag("span", f"{section.total:,}", class_="figures"))


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
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


@cache
def _resource(name: str) -> str:
    """Read a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
