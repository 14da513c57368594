"""Findings: what verifying and auditing have found in a file, and the collection of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from tsarchive.errors import ArchiveError, SaveError

MAX_PER_RULE: Final = 100
"""The number of findings of a rule to keep: a file can break one at each of a million places."""

COMPUTED: Final = "{...}"
"""The stand-in in findings for text that code computes."""


class _Ranked(str, Enum):
    @property
    def rank(self) -> int:
        """The position in the order of the members, 0 for the mildest."""
        return list(type(self)).index(self)


class Severity(_Ranked):
    """The severity of a finding. Severities are ordered, and compare equal to their names.

    For example:

        >>> tsarchive.verify("half.pt").findings[0].severity is tsarchive.Severity.ERROR
        True
        >>> tsarchive.Severity.ERROR > tsarchive.Severity.INFO
        True
    """

    INFO = "info"
    """Worth knowing; harmless by itself."""
    WARNING = "warning"
    """Look at it before the file is used."""
    ERROR = "error"
    """Do not use the file."""

    def __lt__(self, other: str) -> bool:
        return self.rank < Severity(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Severity(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Severity(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Severity(other).rank


class Nature(_Ranked):
    """The kinds of claims of findings about their files. Each is graver than those before it.

    For example:

        >>> tsarchive.verify("half.pt").findings[0].nature is tsarchive.Nature.BROKEN
        True
    """

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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a file.

    ``rule`` is the short name of the rule that found it (``zip-overlap``), the same in every
    version; ``record`` and ``offset`` say where, as in ArchiveError: an offset is a byte position
    in the record, or in the file when ``record`` is None or the rule begins with ``zip-``;
    ``line`` is 1-based in a code record; ``hint`` says what to do.

        >>> finding = tsarchive.verify("half.pt").findings[0]
        >>> finding.rule, finding.severity.value, finding.nature.value
        ('file-cut-short', 'error', 'broken')
    """

    rule: str
    severity: Severity
    nature: Nature
    message: str
    record: str | None = None
    offset: int | None = None
    line: int | None = None
    hint: str | None = None

    def __rich_repr__(self) -> Iterator[tuple[str, object] | tuple[str, object, object]]:
        yield "rule", self.rule
        yield "severity", self.severity.value
        yield "message", self.message
        for name in ("record", "offset", "line", "hint"):
            yield name, getattr(self, name), None

    def _repr_html_(self) -> str:
        from tsarchive.notebook import table

        return table("1 finding", finding_rows([self]), FINDING_COLUMNS)


FINDING_COLUMNS: Final = ("severity", "rule", "record", "message")


def finding_rows(findings: Iterable[Finding]) -> list[tuple[object, ...]]:
    """Return findings as the rows of a table."""
    return [(one.severity.value, one.rule, one.record, one.message) for one in findings]


def is_fine(findings: Iterable[Finding]) -> bool:
    """Return whether no finding is above ``Severity.INFO``."""
    return all(finding.severity is Severity.INFO for finding in findings)


class Findings:
    """Collects findings, each once, and of each rule as many as anyone reads."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}
        self._counts: Counter[str] = Counter()
        self._worst: dict[str, Finding] = {}
        self._in_doubt: frozenset[str] = frozenset()

    def add(self, findings: Iterable[Finding]) -> None:
        """Take in what a check finds."""
        for finding in findings:
            if finding.record in self._in_doubt:
                finding = excused(finding)
            if finding in self._found:
                continue
            self._counts[finding.rule] += 1
            if self._counts[finding.rule] <= MAX_PER_RULE:
                self._found[finding] = None
                continue
            known = self._worst.setdefault(finding.rule, finding)
            if _weight(finding) > _weight(known):
                self._worst[finding.rule] = finding

    def excuse(self, in_doubt: frozenset[str]) -> None:
        """Treat later findings in these records as possible results of damage."""
        self._in_doubt = in_doubt

    @property
    def has_errors(self) -> bool:
        """Return whether any finding is an error."""
        return any(finding.severity is Severity.ERROR for finding in self._found)

    def damaged(self) -> frozenset[str]:
        """Return the records that errors have been found in."""
        errors = (finding for finding in self._found if finding.severity is Severity.ERROR)
        return frozenset(finding.record for finding in errors if finding.record is not None)

    def __iter__(self) -> Iterator[Finding]:
        """In the order in which they came; one more for each rule with too many."""
        yield from self._found
        for rule, worst in self._worst.items():
            more = self._counts[rule] - MAX_PER_RULE
            message = f"and {more:,} more of this rule; the worst of them: {worst.message}"
            yield replace(worst, message=message)

    def ordered(self) -> tuple[Finding, ...]:
        """All of them, worst first, then by place."""
        return tuple(sorted(self, key=_place))


def _weight(finding: Finding) -> tuple[int, int]:
    return finding.severity.rank, finding.nature.rank


def _place(finding: Finding) -> tuple[int, bool, str, int, int, str]:
    return (
        -finding.severity.rank,
        finding.record is not None,
        finding.record or "",
        -1 if finding.offset is None else finding.offset,
        finding.line or 0,
        finding.rule,
    )


def excused(finding: Finding) -> Finding:
    """Return the finding, no longer hostile, for what may be damaged."""
    is_hostile = finding.nature is Nature.HOSTILE
    return replace(finding, nature=Nature.INCONSISTENT) if is_hostile else finding


def fault(
    error: ArchiveError, rule: str, nature: Nature = Nature.BROKEN, record: str | None = None
) -> Finding:
    """Return the finding of an error, which is about ``record`` where it does not name one."""
    return Finding(
        rule,
        Severity.ERROR,
        nature,
        error.message,
        error.record or record,
        error.offset,
        getattr(error, "line", None),
        error.hint,
    )


def require_whole(findings: Iterable[Finding]) -> None:
    """Raise SaveError for a file that is broken: what is copied from it would be, too."""
    for finding in findings:
        if finding.nature is Nature.BROKEN and finding.severity is not Severity.INFO:
            raise SaveError(
                f"the file that was loaded is broken: {finding.message}",
                hint="Get the file again from where it came from, or copy it as it is",
            )


def broken(
    rule: str, message: str, record: str | None, hint: str | None = None, offset: int | None = None
) -> Finding:
    """Return a finding of damage: nothing can be done with the part that the rule is about."""
    return Finding(rule, Severity.ERROR, Nature.BROKEN, message, record, offset, hint=hint)


def hostile(
    rule: str, message: str, record: str | None, hint: str | None = None, offset: int | None = None
) -> Finding:
    """Return a finding that only intent explains."""
    return Finding(rule, Severity.ERROR, Nature.HOSTILE, message, record, offset, hint=hint)


def unusual(rule: str, message: str, record: str, hint: str | None = None) -> Finding:
    """Return a finding of what no writer writes, and which does no harm."""
    return Finding(rule, Severity.WARNING, Nature.UNUSUAL, message, record, hint=hint)


def note(rule: str, message: str, record: str, offset: int | None = None) -> Finding:
    """Return a finding that is only worth knowing."""
    return Finding(rule, Severity.INFO, Nature.UNUSUAL, message, record, offset)


def refused(error: ArchiveError, rule: str, record: str) -> Finding:
    """Return the finding of an error that a reader raises; limits are reached by intent alone."""
    return fault(error, rule, Nature.BROKEN if error.limit is None else Nature.HOSTILE, record)
