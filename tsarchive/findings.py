"""The common form of findings, for everything that verifies and audits.

Every room may import this module; it imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """The severity of a finding. Severities are ordered, and compare equal to their names."""

    INFO = "info"
    """Worth knowing; harmless by itself."""
    WARNING = "warning"
    """Look at it before the file is used."""
    ERROR = "error"
    """Do not use the file."""

    @property
    def rank(self) -> int:
        """The position in the order of severities, 0 for the mildest."""
        return list(Severity).index(self)

    def __lt__(self, other: str) -> bool:
        return self.rank < Severity(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Severity(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Severity(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Severity(other).rank


class Nature(str, Enum):
    """What a finding says about its file. Each nature is graver than those before it."""

    ABILITY = "ability"
    """Something that the file's code can do."""
    UNUSUAL = "unusual"
    """No writer of archives does so, but it is harmless: an archive packed by hand."""
    OTHER_KIND = "another kind"
    """A file of another kind, which may be sound."""
    BROKEN = "broken"
    """Explained by an accident: a truncated download, a bad disk."""
    INCONSISTENT = "inconsistent"
    """Two places that should agree do not: explained by damage or by forgery."""
    HOSTILE = "hostile"
    """Explained only by intent."""

    @property
    def rank(self) -> int:
        """The position in the order of natures, 0 for the mildest."""
        return list(Nature).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a file.

    ``rule`` is the short name of the rule that found it (``zip-overlap``), the same in every
    version; ``record`` and ``offset`` say where, as in ArchiveError: an offset is a byte position
    in the record, or in the file when ``record`` is None or the rule begins with ``zip-``;
    ``line`` is 1-based in a code record; ``hint`` says what to do.
    """

    rule: str
    severity: Severity
    nature: Nature
    message: str
    record: str | None = None
    offset: int | None = None
    line: int | None = None
    hint: str | None = None


def is_fine(findings: Iterable[Finding]) -> bool:
    """Return whether no finding is above ``Severity.INFO``."""
    return all(finding.severity is Severity.INFO for finding in findings)
