"""The verb ``report``: one HTML document about a file of any kind, or about two of them."""

from __future__ import annotations

import io
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple, TypeAlias, TypeVar

from tsarchive.archive import Archive
from tsarchive.archive import open as opened
from tsarchive.auditing import audit
from tsarchive.container.source import not_a_file, read_all
from tsarchive.container.writer import replacing
from tsarchive.describing.text import plural, size
from tsarchive.diffing import diff
from tsarchive.errors import ArchiveError, CallError
from tsarchive.findings import Severity, is_fine
from tsarchive.formats.registry import title_of
from tsarchive.verifying import verify

from . import changed_tensors, comparison, trees
from .code import code
from .comparison import Comparison, Side
from .document import document
from .html import ROWS, Html, Section, Subject, joined, tag
from .memory_plan import memory_plan
from .tables import findings, operators, overview, pickled_names, records, tensors, tree


def _header(subject: Subject) -> Html:
    kind = subject.kind or "unknown"
    parts = [title_of(kind), f"{size(subject.nbytes)} ({subject.nbytes:,} bytes)"]
    told = joined((", ".join(parts), *_badges(subject)), " ")
    return joined((tag("h1", subject.name), tag("p", told)))


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


_About = TypeVar("_About", Subject, Comparison)
_Row: TypeAlias = tuple[str, str, Callable[[_About], Section | None]]

# In page order.
_SECTIONS: Final[Sequence[_Row[Subject]]] = (
    ("overview", "Overview", overview),
    ("findings", "Findings", findings),
    ("modules", "Modules", tree),
    ("operators", "Operators", operators),
    ("memory", "Memory plan", memory_plan),
    ("tensors", "Tensors", tensors),
    ("code", "Code", code),
    ("pickled", "Pickled names", pickled_names),
    ("records", "Records", records),
)
# In the order of a page about two files.
_COMPARED: Final[Sequence[_Row[Comparison]]] = (
    ("overview", "Overview", comparison.overview),
    ("changes", "Changes", comparison.changes),
    ("modules", "Modules", trees.modules),
    ("code", "Code", comparison.code),
    ("tensors", "Tensors", changed_tensors.tensors),
    ("operators", "Operators", comparison.operators),
    ("extra", "Extra files", comparison.extra_files),
    ("packing", "Packing", comparison.packing),
)
STEPS: Final = ("verifying", "auditing", *(name for name, _, _ in _SECTIONS), "writing")
"""The arguments with which :func:`report` calls ``step``, in order."""
STEPS_AGAINST: Final = ("comparing", *(name for name, _, _ in _COMPARED), "writing")
"""The same, where a file is compared with another."""
_NAMELESS: Final = "archive"
_TOO_DEEP: Final = "it is nested too deeply to be shown"


@dataclass(frozen=True, slots=True)
class SectionSize:
    """A section of a page: it shows ``shown`` of ``total`` things, in so many bytes."""

    name: str
    shown: int
    total: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page about a file.

    ``html`` is the whole page, ``path`` where it was written, or None. ``kind`` is as in
    AuditReport or, where nothing was checked, :attr:`tsarchive.Archive.kind`; ``ok`` tells whether
    no finding is above ``Severity.INFO``, None where nothing was checked. Where two files are
    compared, ``ok`` tells whether they have the same model.
    """

    file: str
    kind: str | None
    path: str | None
    html: str
    sections: tuple[SectionSize, ...]
    ok: bool | None

    @property
    def nbytes(self) -> int:
        """The size of the page in bytes."""
        return len(self.html.encode())


def report(
    f: str | os.PathLike[str] | BinaryIO,
    out: str | os.PathLike[str] | None = None,
    *,
    against: str | os.PathLike[str] | BinaryIO | None = None,
    histograms: str | None = None,
    findings: bool = True,
    rows: int = ROWS,
    step: Callable[[str], None] = lambda step: None,
) -> Page:
    """Make one HTML page about a file, and write it to ``out`` if given.

    The page is a single file: it loads nothing, works offline, and prints. It shows the facts of
    the file, the findings of verify and audit, modules, operators, code with the lines of user
    source that it came from, tensors, records, and the memory plan of programs of ExecuTorch.
    Nothing of the file is run, and torch is not imported. All content of the file appears in the
    page as text.

    ``f`` is a path, or a binary file object that gives a file from its position on. ``histograms``
    is a pattern for the names of tensors (``"*.weight"``) whose values are read and counted; by
    default no elements are read. Without ``findings``, verify and audit, which read the whole file,
    are skipped. ``rows`` limits how many modules, tensors, operators and records are shown, and
    five times as many lines of code; omissions are counted. ``step`` is called with each step, one
    of ``STEPS``. ``out`` is replaced only when the page is complete.

    With ``against``, another file, the page shows what changed from ``f`` to that: modules and code
    side by side, tensors with histograms of their changes (``histograms`` limits these), operators,
    extra files, packing. ``step`` is called with ``STEPS_AGAINST`` then, and ``findings`` has no
    effect. Raises what :func:`tsarchive.diff` raises.

    A file that cannot be opened gives a page with its findings. Raises OSError when ``f`` cannot be
    read or ``out`` cannot be written; CallError when ``f`` is not a file, when ``out`` is ``f``,
    and for ``rows`` below 1; without ``findings``, what :func:`tsarchive.open` raises.
    """
    if rows < 1:
        raise CallError(f"a page has no {rows} rows", hint="Give a number of 1 or more")
    for given in (f, against):
        _check_other_file(given, out)
    if against is None:
        made = _about(_Given(f), histograms, findings, rows, step)
    else:
        made = _comparing(_Given(f), _Given(against), histograms or "*", rows, step)
    step(STEPS[-1])
    html = document(made.name, made.header, made.sections)
    if out is not None:
        with replacing(os.fsdecode(out)) as stream:
            stream.write(html.encode())
    sizes = (SectionSize(s.name, s.shown, s.total, len(s.body.encode())) for s in made.sections)
    path = None if out is None else os.fsdecode(out)
    return Page(made.name, made.kind, path, str(html), tuple(sizes), made.ok)


class _Made(NamedTuple):
    """The parts of a page, and what :class:`Page` tells of it."""

    name: str
    kind: str | None
    header: Html
    sections: Sequence[Section]
    ok: bool | None


def _about(
    given: _Given, histograms: str | None, findings: bool, rows: int, step: Callable[[str], None]
) -> _Made:
    """Make the parts of a page about a file."""
    with ExitStack() as stack:
        subject = _subject(given, histograms, findings, rows, step, stack)
        made = [section for row in _SECTIONS if (section := _made(row, subject, step))]
    ok = is_fine(subject.findings) if findings else None
    return _Made(subject.name, subject.kind, _header(subject), made, ok)


def _comparing(
    before: _Given, after: _Given, histograms: str, rows: int, step: Callable[[str], None]
) -> _Made:
    """Make the parts of a page about two files."""
    step(STEPS_AGAINST[0])
    found = diff(before.fresh(), after.fresh())
    with ExitStack() as stack:
        one, other = (
            Side(given.name, given.nbytes, stack.enter_context(opened(given.fresh())))
            for given in (before, after)
        )
        compared = Comparison(found, one, other, rows, histograms)
        made = [section for row in _COMPARED if (section := _made(row, compared, step))]
        name = f"{one.name} → {other.name}"
        return _Made(name, one.archive.kind, comparison.header(compared), made, found.same)


class _Given:
    """The caller's file, which can be read several times from its beginning."""

    def __init__(self, f: str | os.PathLike[str] | BinaryIO) -> None:
        self._data: bytes | None = None
        self._path = ""
        if isinstance(f, str | os.PathLike):
            self._path = os.fsdecode(f)
            if not stat.S_ISREG(os.stat(self._path).st_mode):
                with open(self._path, "rb") as file:
                    self._data = bytes(read_all(file))
        elif hasattr(f, "read"):
            self._data = bytes(read_all(f))
        else:
            raise not_a_file(type(f).__name__)
        self.name = os.path.basename(self._path) or _NAMELESS
        self.nbytes = os.path.getsize(self._path) if self._data is None else len(self._data)

    def fresh(self) -> str | BinaryIO:
        """Return a path, or a file object at its beginning."""
        return self._path if self._data is None else io.BytesIO(self._data)


def _subject(
    given: _Given, histograms: str | None, findings: bool, rows: int,
    step: Callable[[str], None], stack: ExitStack,
) -> Subject:  # fmt: skip
    verified = audited = None
    if findings:
        step(STEPS[0])
        verified = verify(given.fresh())
        step(STEPS[1])
        audited = audit(given.fresh())
    archive: Archive | None = None
    # Findings explain why a file cannot be opened.
    with suppress(ArchiveError) if findings else nullcontext():
        archive = stack.enter_context(opened(given.fresh()))
    return Subject(given.name, given.nbytes, archive, verified, audited, rows, histograms)


def _made(row: _Row[_About], subject: _About, step: Callable[[str], None]) -> Section | None:
    """Make a section, or one that tells why it cannot be made."""
    name, title, make = row
    step(name)
    try:
        return make(subject)
    except (ArchiveError, RecursionError) as error:
        message = error.message if isinstance(error, ArchiveError) else _TOO_DEEP
        problem = tag("p", f"This cannot be shown: {message}", class_="problem")
        return Section(name, title, problem, 0, 0)


def _check_other_file(
    f: str | os.PathLike[str] | BinaryIO | None, out: str | os.PathLike[str] | None
) -> None:
    """Raise CallError where the page would overwrite the file that it describes."""
    if out is None or not isinstance(f, str | os.PathLike) or not os.path.exists(out):
        return
    if os.path.exists(f) and os.path.samefile(f, out):
        raise CallError(
            "the page would replace the file that it is about", hint="Give another name to it"
        )
