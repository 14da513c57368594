"""A table of the tensors of a file, with histograms of the requested ones."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from tsarchive.describing.text import shape
from tsarchive.errors import ArchiveError

from .html import Cell, joined, more, table, tag
from .section import Section, Subject

if TYPE_CHECKING:
    from tsarchive.describing.contents import TensorInfo


_HEADINGS: Final = ("name", "dtype", "shape", "elements", "bytes", "role", "record", "offset")
_HOW: Final = (
    "Values are not read unless they are asked for: 'tsarchive report FILE --histograms' draws all "
    "of them, --histograms='*.weight' those whose names fit."
)
_OPEN: Final = "Open a tensor by its name to see how its values are spread."


def tensors(subject: Subject) -> Section | None:
    """Make the section; None for files without tensors."""
    if subject.archive is None or not subject.has_tensors:
        return None
    found = list(subject.archive.tensors.items())
    if not found:
        return None
    shown = _largest(found, subject.rows)
    drawn = dict(_histograms(subject, shown))
    keys = [str(index) if str(index) in drawn else None for index in range(len(shown))]
    body = joined(
        (
            tag("p", _OPEN if drawn else _HOW, class_="dim"),
            table("tensors", _HEADINGS, [_row(name, info) for name, info in shown], keys=keys),
            more(len(shown), len(found), "tensor", ", none of which is larger"),
        )
    )
    return Section("tensors", "Tensors", body, len(shown), len(found), drawn or None)


def _largest(found: list[tuple[str, TensorInfo]], most: int) -> list[tuple[str, TensorInfo]]:
    """Return the largest tensors in file order."""
    if len(found) <= most:
        return found
    sizes = sorted(range(len(found)), key=lambda index: -found[index][1].nbytes)
    return [found[index] for index in sorted(sizes[:most])]


def _row(name: str, info: TensorInfo) -> list[Cell]:
    return [
        Cell(name, is_code=True),
        Cell(info.dtype),
        Cell(shape(info.shape), value=shape(info.shape)),
        Cell(f"{info.elements:,}", value=info.elements),
        Cell(f"{info.nbytes:,}", value=info.nbytes),
        Cell(info.role),
        Cell(info.storage or "several", is_code=True),
        Cell("" if info.offset is None else f"{info.offset:,}", value=info.offset),
    ]


def _histograms(
    subject: Subject, shown: list[tuple[str, TensorInfo]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the script's histogram data by row number."""
    pattern, archive = subject.histograms, subject.archive
    wanted = [
        (index, name)
        for index, (name, _) in enumerate(shown)
        if pattern is not None and fnmatchcase(name, pattern)
    ]
    if not wanted or archive is None:
        return
    from .histograms import Elements, histogram

    elements = Elements(archive)
    for index, name in wanted:
        try:
            yield str(index), histogram(elements.of(name)).document()
        except ArchiveError as error:
            yield str(index), {"problem": error.message}
