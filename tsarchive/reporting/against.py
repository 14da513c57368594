"""A page about two files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from tsarchive.archive import open as opened
from tsarchive.diffing import diff

from . import changed_tensors, comparison, trees
from .comparison import Comparison, Side
from .document import Made, Row, made_sections
from .given import Given

# In page order.
_SECTIONS: Final[Sequence[Row[Comparison]]] = (
    ("overview", "Overview", comparison.overview),
    ("changes", "Changes", comparison.changes),
    ("modules", "Modules", trees.modules),
    ("code", "Code", comparison.code),
    ("tensors", "Tensors", changed_tensors.tensors),
    ("operators", "Operators", comparison.operators),
    ("extra", "Extra files", comparison.extra_files),
    ("packing", "Packing", comparison.packing),
)
STEPS: Final = ("comparing", *(name for name, _, _ in _SECTIONS), "writing")
"""The arguments with which ``report`` calls ``step`` for such a page, in order."""


def compared(
    before: Given, after: Given, histograms: str, rows: int, step: Callable[[str], None]
) -> Made:
    """Make the parts of the page. Raises what :func:`tsarchive.diff` raises."""
    step(STEPS[0])
    found = diff(before.fresh(), after.fresh())
    with ExitStack() as stack:
        one, other = (
            Side(given.name, given.nbytes, stack.enter_context(opened(given.fresh())))
            for given in (before, after)
        )
        both = Comparison(found, one, other, rows, histograms)
        made = made_sections(_SECTIONS, both, step)
        name = f"{one.name} → {other.name}"
        return Made(name, one.archive.kind, comparison.header(both), made, found.same)
