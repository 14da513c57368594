"""The rules for the container, and sinks for breaches: a check serves opening and surveying.

Opening raises at the first fault that refuses the file; a survey collects all of them and continues
where it can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple, NoReturn

from tsarchive.container.names import shown
from tsarchive.container.recognise import FILE_RULES
from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.findings import Finding, Nature, Severity, excused


class Rule(NamedTuple):
    """The meaning of a breach. Strict opening raises ``error`` where the severity is an error.

    A hostile breach is downgraded to an inconsistency where damage may have caused it: damage to
    the member that it concerns or, with ``is_of_whole``, damage anywhere in the file.
    """

    nature: Nature
    severity: Severity
    error: type[ArchiveError] = FormatError
    is_of_whole: bool = False


_OTHER_KIND = Rule(Nature.OTHER_KIND, Severity.ERROR)
_BROKEN = Rule(Nature.BROKEN, Severity.ERROR)
_INCONSISTENT = Rule(Nature.INCONSISTENT, Severity.ERROR)
_HOSTILE = Rule(Nature.HOSTILE, Severity.ERROR)
_HOSTILE_WHOLE = _HOSTILE._replace(is_of_whole=True)
_UNREAD = Rule(Nature.UNUSUAL, Severity.ERROR, UnsupportedError)
_REFUSED = Rule(Nature.UNUSUAL, Severity.ERROR)
_NOTED = Rule(Nature.UNUSUAL, Severity.INFO)

RULES: dict[str, Rule] = {
    # The kind of the file as a whole, where it is not a zip archive.
    **dict.fromkeys(FILE_RULES, _OTHER_KIND),
    "file-cut-short": _BROKEN,
    "file-empty": _BROKEN,
    "file-zeros": _BROKEN,
    "file-zip-volume": _BROKEN,
    "file-two-in-one": _BROKEN,
    "file-shifted": _BROKEN,
    "file-text-mode": _BROKEN,
    "file-hole": _BROKEN,
    "file-changed": _BROKEN,
    "file-unreadable": _BROKEN,
    # The end records.
    "zip-cut-comment": _BROKEN,
    "zip-appended": _BROKEN,
    "zip-several-ends": _HOSTILE_WHOLE,
    "zip-comment": _NOTED,
    "zip-volumes": _UNREAD,
    "zip-locator64": _BROKEN,
    "zip-end64-length": _INCONSISTENT,
    "zip-end64-differs": _INCONSISTENT,
    "zip-directory-place": _BROKEN,
    # The directory.
    "zip-too-many-entries": _HOSTILE_WHOLE,
    "zip-large-directory": _HOSTILE_WHOLE,
    "zip-entry-count": _INCONSISTENT,
    "zip-directory-entry": _BROKEN,
    "zip-no-records": _BROKEN,
    "zip-extra-field": _INCONSISTENT,
    "zip-field64": _INCONSISTENT,
    "zip-entry-comment": _NOTED,
    # Directory entries.
    "zip-encrypted": _UNREAD,
    "zip-patch-data": _UNREAD,
    "zip-stored-sizes": _HOSTILE,
    "zip-second-name": _INCONSISTENT,
    "zip-name-encoding": _INCONSISTENT,
    "zip-bad-name": _HOSTILE,
    "zip-duplicate-name": _HOSTILE,
    "zip-alike-names": _HOSTILE_WHOLE,
    "zip-several-roots": _REFUSED,
    "zip-folder-data": _HOSTILE,
    "zip-large-record": _HOSTILE,
    "zip-bomb": _HOSTILE,
    # The layout of the entries.
    "zip-prefix": _HOSTILE_WHOLE,
    "zip-overlap": _HOSTILE_WHOLE,
    "zip-shared-header": _INCONSISTENT,
    "zip-gap": Rule(Nature.UNUSUAL, Severity.WARNING),
    "zip-hidden-entry": _HOSTILE_WHOLE._replace(severity=Severity.WARNING),
    # Local headers and descriptors.
    "zip-no-local-header": _BROKEN,
    "zip-local-header": _INCONSISTENT,
    "zip-descriptor": _INCONSISTENT,
    "zip-no-descriptor": _BROKEN,
    # Data.
    "zip-method": _UNREAD,
    "zip-no-decoder": _UNREAD,
    "zip-impossible-size": _HOSTILE,
    "zip-damaged-data": _BROKEN,
    "zip-inflates-to-more": _INCONSISTENT,
    "zip-inflates-to-less": _BROKEN,
    "zip-after-data": _INCONSISTENT,
    "zip-crc": _BROKEN,
    # Forms that no writer of archives produces and every reader accepts.
    "zip-no-root": _NOTED,
    "zip-padding": _NOTED,
    "zip-folders": _NOTED,
    "zip-macos": _NOTED,
    "zip-order": _NOTED,
    "zip-compression": _NOTED,
    "zip-no-crc": _NOTED,
    "zip-alignment": _NOTED,
}


class Place(NamedTuple):
    """The member in which a fault lies, and a byte position in the file."""

    record: str | None = None
    offset: int | None = None


NOWHERE = Place()


class Stopped(Exception):
    """The check cannot continue; the reason has been reported."""


class Faults(ABC):
    """Base class of fault sinks."""

    def report(
        self,
        rule: str,
        message: str,
        at: Place = NOWHERE,
        *,
        limit: int | None = None,
        hint: str | None = None,
    ) -> None:
        """Report a fault after which the check goes on; ``limit`` is a bound that is exceeded."""
        record = None if at.record is None else shown(at.record)
        self.take(
            rule,
            RULES[rule].error(message, record=record, offset=at.offset, limit=limit, hint=hint),
        )

    def stop(
        self,
        rule: str,
        message: str,
        at: Place = NOWHERE,
        *,
        limit: int | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        """Report a fault after which the check cannot continue. Raises Stopped."""
        self.report(rule, message, at, limit=limit, hint=hint)
        raise Stopped

    @abstractmethod
    def take(self, rule: str, error: ArchiveError) -> None:
        """Handle a fault, the error of a breach of ``rule``."""


class _Strict(Faults):
    """Raises the error of the first fault whose rule refuses the file."""

    def take(self, rule: str, error: ArchiveError) -> None:
        if RULES[rule].severity is Severity.ERROR:
            raise error


STRICT = _Strict()

# Faults which show that data is not as it was written: no reader can use it.
DAMAGED_DATA = frozenset({"zip-crc", "zip-damaged-data", "zip-inflates-to-less"})

# Findings of these natures leave open whether contradictory values were intended.
_DOUBTS = frozenset({Nature.BROKEN, Nature.INCONSISTENT})

# Further findings of one rule carry no more information.
MAX_FINDINGS_OF_A_RULE = 100


class Collected(Faults):
    """Keeps the first faults of each rule and counts the others."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()
        self._doubts = 0
        self._known = (0, 0)

    @property
    def refused(self) -> bool:
        """Return whether any fault makes strict opening refuse the file."""
        return any(finding.severity is Severity.ERROR for finding in self._findings)

    @property
    def count(self) -> int:
        """The number of findings kept so far."""
        return len(self._findings)

    def findings(self) -> tuple[Finding, ...]:
        """All findings, and a summary finding for each rule that exceeded the maximum."""
        found = self._findings
        if self._doubts:
            found = [excused(f) if RULES[f.rule].is_of_whole else f for f in found]
        more = [
            Finding(
                rule,
                RULES[rule].severity,
                max((f.nature for f in found if f.rule == rule), key=lambda nature: nature.rank),
                f"{count - MAX_FINDINGS_OF_A_RULE} more findings of this rule are left out",
            )
            for rule, count in self._counts.items()
            if count > MAX_FINDINGS_OF_A_RULE
        ]
        return (*found, *more)

    def begin_member(self) -> None:
        """Begin collecting faults of one member, until ``end_member``."""
        self._known = (len(self._findings), self._doubts)

    def end_member(self) -> bool:
        """Downgrade the findings about the member that damage explains.

        Where its data is damaged, its headers may be as well; where these contradict each other, no
        value in them need be intended. Returns whether the member is borne out: all copies of its
        metadata agree with each other and with its data.
        """
        count, doubts = self._known
        latest = self._findings[count:]
        if any(finding.rule in DAMAGED_DATA for finding in latest):
            latest = [
                replace(f, nature=Nature.BROKEN) if f.nature is Nature.INCONSISTENT else f
                for f in latest
            ]
        is_borne_out = self._doubts == doubts
        self._findings[count:] = latest if is_borne_out else [excused(f) for f in latest]
        return is_borne_out

    def excuse_directory(
        self, count: int, members: Iterable[str], borne_out: Collection[str]
    ) -> None:
        """Downgrade the first ``count`` findings, which concern the directory alone.

        ``borne_out`` holds the names of those ``members`` whose headers and data agree.
        """
        self._doubts += sum(name not in borne_out for name in members)
        names = {shown(name) for name in borne_out}
        self._findings[:count] = [
            f if f.record is None or RULES[f.rule].is_of_whole or f.record in names else excused(f)
            for f in self._findings[:count]
        ]

    def take(self, rule: str, error: ArchiveError) -> None:
        nature, severity, *_ = RULES[rule]
        self._doubts += nature in _DOUBTS
        self._counts[rule] += 1
        if self._counts[rule] > MAX_FINDINGS_OF_A_RULE:
            return
        text = error.message
        if error.limit is not None:
            text += f"; the limit is {error.limit}"
        found = Finding(rule, severity, nature, text, error.record, error.offset, hint=error.hint)
        self._findings.append(found)
