"""Sections of a page, and the subject that they describe."""

from __future__ import annotations

from dataclasses import dataclass

from tsarchive.archive import Archive
from tsarchive.auditing import AuditReport
from tsarchive.findings import Finding
from tsarchive.formats.executorch.program import Program
from tsarchive.formats.executorch.view import ExecutorchView
from tsarchive.verifying import VerifyReport

from .html import Html


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page that shows ``shown`` of ``total`` things.

    ``data`` is for the script of the page: JSON values.
    """

    name: str
    title: str
    body: Html
    shown: int
    total: int
    data: object = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The file that a page is about.

    ``archive`` is None where it cannot be opened; ``verified`` and ``audited`` where this was not
    requested. ``rows`` limits how much of each kind is shown, ``histograms`` is a pattern for the
    names of tensors whose values are counted.
    """

    name: str
    nbytes: int
    archive: Archive | None
    verified: VerifyReport | None
    audited: AuditReport | None
    rows: int
    histograms: str | None

    @property
    def kind(self) -> str | None:
        """The :attr:`tsarchive.Archive.kind`, or that of the audit for an unreadable file."""
        if self.archive is not None:
            return self.archive.kind
        return None if self.audited is None else self.audited.kind

    @property
    def has_program(self) -> bool:
        """Whether it has modules and tensors that can be listed; data files have entries."""
        return self.archive is not None and self.archive.view.has_modules

    @property
    def has_tensors(self) -> bool:
        """Whether tensors can be listed, also those beside compiled code."""
        return self.archive is not None and self.archive.view.has_tensors

    @property
    def executorch_program(self) -> Program | None:
        """The program of a file of ExecuTorch, also in a bundle."""
        view = None if self.archive is None else self.archive.view
        return view.program if isinstance(view, ExecutorchView) else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of verify and audit without duplicates, worst first."""
        found: dict[Finding, None] = {}
        for report in (self.verified, self.audited):
            found.update(dict.fromkeys(() if report is None else report.findings))
        return tuple(sorted(found, key=lambda finding: -finding.severity.rank))
