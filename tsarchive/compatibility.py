"""Which releases of torch load and run a file, told without any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from tsarchive.container.opening import open_source
from tsarchive.describing.text import plural
from tsarchive.errors import CallError, FormatError
from tsarchive.fingerprinting import is_file, readable_contents
from tsarchive.formats.base import Format, Opened
from tsarchive.formats.compatibility import Compatibility, Reason, Row, Tie
from tsarchive.formats.registry import format_of, opened_source
from tsarchive.garbage import not_collecting
from tsarchive.operators.registry import listed_versions
from tsarchive.operators.releases import Release, release_named
from tsarchive.reports import Report

if TYPE_CHECKING:
    from tsarchive.fingerprinting import Subject

__all__ = ["CompatReport", "Reason", "Row", "Tie", "compat"]


_ABLE = {
    (False, False): "does not load",
    (False, True): "does not load",
    (True, False): "loads",
    (True, True): "runs",
}


@dataclass(frozen=True, slots=True, repr=False)
class CompatReport(Report, Compatibility):
    """Which releases of torch read a file, of what ``kind``, and what ties it to one place.

    ``rows`` are the releases that were asked for, oldest first; ``is_asked`` tells whether they
    were named.

        >>> [row] = tsarchive.compat("net.pt", torch=["2.13"]).rows
        >>> row.loads, row.runs
        (True, True)
    """

    _COLUMNS = "release", "", "reason"

    kind: str = ""
    is_asked: bool = False

    @property
    def loads(self) -> bool:
        """Whether all releases that were asked for load the file; False where torch runs none."""
        return bool(self.rows) and all(row.loads for row in self.rows)

    def row(self, torch: str) -> Row:
        """Return the row of a release. Raises CallError for one that was not asked for."""
        release = release_named(torch)
        found = next((row for row in self.rows if row.torch == release.name), None)
        if found is None:
            raise CallError(f"torch {release} was not asked for")
        return found

    @property
    def ok(self) -> bool:
        """Whether all releases that were asked for load the file or, where none was named, any."""
        if self.is_asked:
            return self.loads
        return any(row.loads for row in (*self.rows, *self.mobile))

    def _headline(self) -> str:
        rows = self.rows or self.mobile
        loading = sum(row.loads for row in rows)
        return f"{self.kind}, loaded by {loading} of {plural(len(rows), 'release')}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [
            (row.torch, _ABLE[row.loads, row.runs], row.reasons[0].text if row.reasons else None)
            for row in reversed(self.rows or self.mobile)
        ]


def compat(f: Subject, torch: Sequence[str] | None = None) -> CompatReport:
    """Tell which releases of torch load and run a file, and what ties it to one place.

    ``f`` is a path or a binary file object, with an archive of TorchScript or torch.export or a
    program of ExecuTorch, or a module or program, of which it tells what the file would need that
    ``save`` writes; ``torch`` names releases, such as ``["1.13", "2.9"]``, all known ones
    otherwise. The ``plan`` of a row tells, where releases were named, what a conversion would do
    for one that does not load the file. What a release reads is told from the schemas of its
    operators, which come with this package: nothing of a file runs, and torch is not imported.

    Raises ArchiveError for a file that is broken or of another kind, CallError for a release that
    is not known, OSError for a file that cannot be read.

        >>> rows = tsarchive.compat("net.pt", torch=["2.6", "2.13"]).rows
        >>> [row.torch for row in rows if row.runs]
        ['2.6', '2.13']
    """
    _releases(torch)  # named wrongly, they are told before the file is read
    with _opened(f) as opened:
        return compatibility_of(opened, torch)


def compatibility_of(opened: Opened, torch: Sequence[str] | None = None) -> CompatReport:
    """Return what :func:`compat` tells of a file that is open. Raises as it does."""
    format_, asked = format_of(opened), _releases(torch)
    first = min(asked)
    known = [Release(name) for name in listed_versions()]
    try:
        found = format_.compatibility(opened, [each for each in known if each >= first])
        names = {release.name for release in asked}
        rows = [row for row in found.rows if row.torch in names]
        if torch is not None and found.rows:
            rows = [_planned(row, format_, opened) for row in rows]
        elif torch is not None:
            rows = [_refused(release, format_) for release in sorted(asked)]
    except RecursionError:
        raise FormatError("the program is nested too deeply") from None
    return _report(format_.kind, found, rows, is_asked=torch is not None)


@contextmanager
def _opened(source: Any) -> Iterator[Any]:
    """Open a file, or what ``save`` writes of a module."""
    if isinstance(source, dict) and not all(map(callable, source.values())):
        raise CallError(
            "a state dict holds no code", hint="Give a file that holds a model, or a module"
        )
    if not is_file(source):
        with readable_contents(source, debug=True) as readable:
            yield readable.opened
        return
    opened = opened_source(open_source(source))
    with not_collecting(), closing(opened):
        yield opened


def _refused(release: Release, format_: Format) -> Row:
    """Return the row of a release for a file that no torch runs."""
    return Row(
        release.name, False, False, (Reason("format", f"{format_.what_it_is}: no torch runs it"),)
    )


def _releases(torch: Sequence[str] | None) -> list[Release]:
    if torch is None:
        return [Release(name) for name in listed_versions()]
    if isinstance(torch, str) or not torch:
        raise CallError("torch is a list of versions", hint='Give a list, such as ["2.4", "2.9"]')
    return [release_named(version) for version in torch]


def _planned(row: Row, format_: Format, opened: Any) -> Row:
    """Add what a conversion would do to a row that does not load the file."""
    if row.loads:
        return row
    return replace(row, plan=format_.plan(opened, Release(row.torch)))


def _report(
    kind: str, found: Compatibility, rows: Sequence[Row], *, is_asked: bool
) -> CompatReport:
    asked = {row.torch for row in rows}
    mobile = tuple(row for row in found.mobile if row.torch in asked or not found.rows)
    given = {f.name: getattr(found, f.name) for f in fields(found)}
    given |= {"rows": tuple(rows), "mobile": mobile}
    return CompatReport(**given, kind=kind, is_asked=is_asked)
