"""Small bars that compare numbers in a table, as SVG: the page allows no style attributes."""

from __future__ import annotations

from .html import Html, tag

_LENGTH = 100


def share_bar(part: int, whole: int) -> Html:
    """Draw ``part`` of ``whole`` as a bar; the number itself stands beside it."""
    length = round(_LENGTH * part / max(whole, 1), 2)
    filled = tag("rect", width=length, height=8, class_="filled")
    return tag("svg", filled, viewBox=f"0 0 {_LENGTH} 8", preserveAspectRatio="none",
               class_="bar", aria_hidden="true")  # fmt: skip
