"""Numbers and names as people read them."""

from __future__ import annotations

from collections.abc import Sequence

_METHODS = {0: "stored", 8: "deflated", 9: "deflate64"}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

LAYOUT = "\n\t"
"""The control characters that lay out lines of source."""


def size(nbytes: int) -> str:
    """``1.4 MiB``; exact below 1 KiB."""
    amount, unit = float(nbytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{nbytes} bytes"


def duration(seconds: float) -> str:
    """Milliseconds below one second."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def shape(sizes: Sequence[int]) -> str:
    """``1x3x64x64``; ``scalar`` for a tensor without dimensions."""
    return "x".join(map(str, sizes)) or "scalar"


def method_name(method: int) -> str:
    """Return a zip compression method in words."""
    return _METHODS.get(method, f"method {method}")


def plural(number: int, noun: str) -> str:
    """``1 class``, ``2 classes``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def listed(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``: the first names, and the number of the others."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def visible(text: str, *, keep: str = "\n") -> str:
    """Return the text with escapes in place of what a terminal would act on.

    Names and source come from the file, which may not be friendly.
    """
    if text.isprintable() or text.translate(dict.fromkeys(map(ord, keep))).isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text
    )


def escaped(data: bytes) -> str:
    """Return bytes as ASCII text with escapes."""
    return ascii(data)[2:-1]
