"""The verb ``report``: one HTML document about a file of any kind, or about two of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from tsarchive.archive import Archive
from tsarchive.archive import open as opened
from tsarchive.auditing import audit
from tsarchive.compatibility import CompatReport, compat
from tsarchive.container.writer import is_same_file, replacing
from tsarchive.describing.text import plural, size
from tsarchive.errors import ArchiveError, CallError
from tsarchive.findings import Severity, is_fine
from tsarchive.formats.registry import title_of
from tsarchive.leaving.plan import LeavingPlan
from tsarchive.operators.registry import installed_torch, listed_versions, minor
from tsarchive.remote import located
from tsarchive.renaming import renamed_fields
from tsarchive.reports import Report
from tsarchive.steps import Step, no_step
from tsarchive.verifying import verify

from .code import code
from .data_flow import data_flow, flow_anchors
from .document import Made, Row, document, made_sections
from .given import Given
from .glance import at_a_glance
from .html import ROWS, Html, Subject, joined, tag
from .memory_plan import memory_plan
from .tables import findings, operators, overview, pickled_names, records, tensors, tree
from .ways import ways


def _header(subject: Subject) -> Html:
    kind = subject.kind or "unknown"
    parts = [title_of(kind), f"{size(subject.nbytes)} ({subject.nbytes:,} bytes)"]
    told = joined((", ".join(parts), *_badges(subject)), " ")
    return joined((tag("h1", subject.name), tag("p", told), at_a_glance(subject)))


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


# In page order.
_SECTIONS: Final[Sequence[Row[Subject]]] = (
    ("modules", "Modules", tree),
    ("findings", "Findings", findings),
    ("ways", "Ways out", ways),
    ("overview", "Overview", overview),
    ("operators", "Operators", operators),
    ("memory", "Memory plan", memory_plan),
    ("tensors", "Tensors", tensors),
    ("flow", "Data flow", data_flow),
    ("code", "Code", lambda subject: code(subject, flow_anchors(subject))),
    ("pickled", "Pickled names", pickled_names),
    ("records", "Records", records),
)
STEPS: Final = ("verifying", "auditing", *(name for name, _, _ in _SECTIONS), "writing")
"""The arguments with which :func:`report` calls ``step``, in order."""


@dataclass(frozen=True, slots=True)
class SectionSize:
    """A section of a page: it shows ``shown`` of ``total`` things, in so many bytes.

    For example:

        >>> page = tsarchive.report("net.pt", findings=False)
        >>> [(part.shown, part.total) for part in page.sections if part.name == "tensors"]
        [(2, 2)]
    """

    name: str
    shown: int
    total: int
    nbytes: int


@renamed_fields(path="out")
@dataclass(frozen=True, slots=True, repr=False)
class Page(Report):
    """A page about a file, or about a survey of many.

    ``html`` is the whole page, ``out`` where it was written, or None. ``kind`` is as in
    AuditReport or, where nothing was checked, :attr:`tsarchive.Archive.kind`; ``ok`` tells whether
    no finding is above ``Severity.INFO``, None where nothing was checked. Where two files are
    compared, ``ok`` tells whether they have the same model; of a survey, whether all its files have
    been read, and none has a finding above ``Severity.INFO`` or violates a rule of a gate.

        >>> page = tsarchive.report("net.pt", findings=False)
        >>> page.html.startswith("<!DOCTYPE html>"), page.out
        (True, None)
    """

    _COLUMNS = "section", "shown", "of"

    file: str
    kind: str | None
    out: str | None
    html: str
    sections: tuple[SectionSize, ...]
    ok: bool | None

    @property
    def nbytes(self) -> int:
        """The size of the page in bytes."""
        return len(self.html.encode())

    def _headline(self) -> str:
        return f"{self.file}: a page of {plural(self.nbytes, 'byte')}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(part.name, part.shown, part.total) for part in self.sections]


def report(
    f: str | os.PathLike[str] | BinaryIO,
    out: str | os.PathLike[str] | None = None,
    *,
    against: str | os.PathLike[str] | BinaryIO | None = None,
    histograms: str | None = None,
    findings: bool = True,
    rows: int = ROWS,
    plan: LeavingPlan | None = None,
    step: Step | None = None,
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
    of ``STEPS``. ``out`` is replaced only when the page is complete. ``plan``, what
    :func:`tsarchive.leave` found for the file, has a section of its own.

    With ``against``, another file, the page shows what changed from ``f`` to that: modules and code
    side by side, tensors with histograms of their changes (``histograms`` limits these), operators,
    extra files, packing. ``step`` is called with ``against.STEPS`` then, and ``findings`` has no
    effect. Raises what :func:`tsarchive.diff` raises.

    A file that cannot be opened gives a page with its findings. Raises OSError when ``f`` cannot be
    read or ``out`` cannot be written; CallError when ``f`` is not a file, when ``out`` is ``f``,
    and for ``rows`` below 1; without ``findings``, what :func:`tsarchive.open` raises.

        >>> tsarchive.report("net.pt", "net.html", findings=False).out
        'net.html'
    """
    step = step or no_step
    if rows < 1:
        raise CallError(f"a page has no {rows} rows", hint="Give a number of 1 or more")
    for given in (f, against):
        _check_other_file(given, out)
    if against is None:
        made = _about(Given(f), histograms, findings, rows, plan, step)
    else:
        from .against import compared  # few pages need what it takes, such as NumPy

        made = compared(Given(f), Given(against), histograms or "*", rows, step)
    step(STEPS[-1])
    return page_of(made, out)


def page_of(made: Made, out: str | os.PathLike[str] | None) -> Page:
    """Return a page of these parts, which is written to ``out`` if given."""
    html = document(made.name, made.header, made.sections)
    if out is not None:
        with replacing(os.fsdecode(out)) as stream:
            stream.write(html.encode())
    sizes = (SectionSize(s.name, s.shown, s.total, len(s.body.encode())) for s in made.sections)
    path = None if out is None else located(os.fsdecode(out))
    return Page(made.name, made.kind, path, str(html), tuple(sizes), made.ok)


def _about(
    given: Given, histograms: str | None, findings: bool, rows: int, plan: LeavingPlan | None,
    step: Callable[[str], None],
) -> Made:  # fmt: skip
    """Make the parts of a page about a file."""
    with ExitStack() as stack:
        subject = replace(_subject(given, histograms, findings, rows, step, stack), plan=plan)
        made = made_sections(_SECTIONS, subject, step)
        header = _header(subject)
    ok = is_fine(subject.findings) if findings else None
    return Made(subject.name, subject.kind, header, made, ok)


def _subject(
    given: Given, histograms: str | None, findings: bool, rows: int,
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
    return Subject(
        given.name, given.nbytes, archive, verified, audited, rows, histograms,
        compatibility=_compatibility(given) if findings else None,
    )  # fmt: skip


def _compatibility(given: Given) -> CompatReport | None:
    """Return what the installed torch does with a file, or the newest; None where none reads it."""
    known = listed_versions()
    installed = minor(installed_torch() or known[-1])
    with suppress(ArchiveError):
        return compat(given.fresh(), [installed if installed in known else known[-1]])
    return None


def _check_other_file(
    f: str | os.PathLike[str] | BinaryIO | None, out: str | os.PathLike[str] | None
) -> None:
    """Raise CallError where the page would overwrite the file that it describes."""
    if out is not None and isinstance(f, str | os.PathLike) and is_same_file(f, out):
        raise CallError(
            "the page would replace the file that it is about", hint="Give another name to it"
        )
