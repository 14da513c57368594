"""A separate type for HTML, so that text of the file enters a page only escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from tsarchive.describing.text import visible

from .caps import MAX_TEXT

_VOID: Final = frozenset({"br", "input", "meta", "rect", "line", "path"})
_WITHOUT_END: Final = frozenset({"br", "input", "meta"})


class Html(str):
    """A piece of a page. A plain string is none, and is escaped wherever it is passed."""

    __slots__ = ()


def text(value: str, most: int = MAX_TEXT) -> Html:
    """Escape text of the file, including whatever a browser would act on.

    Control characters, marks that change the direction of text, and anything else without a glyph
    are written as Python escapes.
    """
    return Html(html.escape(visible(clipped(value, most), keep=""), quote=True))


def clipped(value: str, most: int = MAX_TEXT) -> str:
    """Return the first ``most`` characters, and how many more there are."""
    left = len(value) - most
    return value if left <= 0 else f"{value[:most]}… {left:,} more letters"


def joined(parts: Iterable[str | None], between: str = "") -> Html:
    """Concatenate pieces; plain strings are escaped."""
    return Html(between.join(_piece(part) for part in parts if part is not None))


def tag(name: str, /, *content: str | None, **attributes: str | int | float | bool | None) -> Html:
    """Make an element.

    ``class_`` is the attribute ``class``, ``data_of`` is ``data-of``; None and False omit an
    attribute, True writes its name alone.
    """
    opened = f"<{name}{''.join(_attribute(*pair) for pair in attributes.items())}"
    if name in _WITHOUT_END:
        return Html(f"{opened}>")
    if name in _VOID and not content:
        return Html(f"{opened}/>")
    return Html(f"{opened}>{joined(content)}</{name}>")


def more(shown: int, total: int, noun: str, behind: str = "") -> Html | None:
    """Return ``and 9,500 more modules``, None where all are shown; ``behind`` is appended."""
    left = total - shown
    told = f"and {left:,} more {noun}{'' if left == 1 else 's'}{behind}"
    return tag("p", told, class_="more") if left > 0 else None


def _piece(part: str) -> str:
    return part if isinstance(part, Html) else text(part)


def _attribute(name: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    shown = value if isinstance(value, Html) else text(str(value))
    return f' {written}="{shown}"'
