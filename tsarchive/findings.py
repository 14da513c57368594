"""What looking at a file finds: one form for all that verifies and audits.

Every room may import this module; it imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

__all__ = ["Finding", "Nature", "Severity", "is_fine"]


class Severity(str, Enum):
    """How much a finding matters. Severities compare in this order, and equal their names."""

    INFO = "info"
    """Worth knowing; harmless by itself."""
    WARNING = "warning"
    """Look at it before the file is used."""
    ERROR = "error"
    """Do not use the file."""

    @property
    def rank(self) -> int:
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
    """What a finding says of the file that it is in. Each is graver than those before it."""

    ABILITY = "ability"
    """Something that the file's code can do."""
    UNUSUAL = "unusual"
    """No writer of archives does so, and it does no harm: an archive packed by hand."""
    OTHER_KIND = "another kind"
    """It is a file of another kind, which may be sound."""
    BROKEN = "broken"
    """An accident explains it: a download cut short, a bad disk."""
    INCONSISTENT = "inconsistent"
    """Two places that should say the same do not: damage explains it, and so does forgery."""
    HOSTILE = "hostile"
    """Only intent explains it."""

    @property
    def rank(self) -> int:
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
    """Whether none of the findings is above ``Severity.INFO``."""
    return all(finding.severity is Severity.INFO for finding in findings)
