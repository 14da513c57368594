"""Sinks for the faults that checks report: each check serves both opening and surveying.

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
from tsarchive.container.rules import RULES
from tsarchive.findings import Finding, Nature, Severity


class Place(NamedTuple):
    """The member in which a fault lies, and a byte position in the file."""

    record: str | None = None
    offset: int | None = None


NOWHERE = Place()


class Fault(NamedTuple):
    """A breach of one of the rules; ``limit`` is the bound that was exceeded."""

    rule: str
    message: str
    at: Place
    limit: int | None
    hint: str | None

    @property
    def record(self) -> str | None:
        """The member's name in printable form, None for a fault of the whole file."""
        return None if self.at.record is None else shown(self.at.record)


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
        """Report a fault after which the check goes on."""
        self.take(Fault(rule, message, at, limit, hint))

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
        self.take(Fault(rule, message, at, limit, hint))
        raise Stopped

    @abstractmethod
    def take(self, fault: Fault) -> None:
        """Handle a fault."""


class _Strict(Faults):
    """Raises the error of the first fault whose rule refuses the file."""

    def take(self, fault: Fault) -> None:
        breach = RULES[fault.rule]
        if breach.severity is Severity.ERROR:
            raise breach.error(
                fault.message,
                record=fault.record,
                offset=fault.at.offset,
                limit=fault.limit,
                hint=fault.hint,
            )


STRICT = _Strict()

# Faults which show that data is not as it was written: no reader can use it.
_DAMAGED_DATA = frozenset({"zip-crc", "zip-damaged-data", "zip-inflates-to-less"})

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
        """Whether any fault makes strict opening refuse the file."""
        return any(finding.severity is Severity.ERROR for finding in self._findings)

    @property
    def count(self) -> int:
        """The number of findings kept so far."""
        return len(self._findings)

    def findings(self) -> tuple[Finding, ...]:
        """All findings, and a summary finding for each rule that exceeded the maximum."""
        found = self._findings
        if self._doubts:
            found = [_excuse(f) if RULES[f.rule].is_of_whole else f for f in found]
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
        if any(finding.rule in _DAMAGED_DATA for finding in latest):
            latest = [_changed(f, Nature.INCONSISTENT, Nature.BROKEN) for f in latest]
        is_borne_out = self._doubts == doubts
        self._findings[count:] = latest if is_borne_out else [_excuse(f) for f in latest]
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
            f if f.record is None or RULES[f.rule].is_of_whole or f.record in names else _excuse(f)
            for f in self._findings[:count]
        ]

    def take(self, fault: Fault) -> None:
        breach = RULES[fault.rule]
        self._doubts += breach.nature in _DOUBTS
        self._counts[fault.rule] += 1
        if self._counts[fault.rule] > MAX_FINDINGS_OF_A_RULE:
            return
        text = fault.message
        if fault.limit is not None:
            text += f"; the limit is {fault.limit}"
        self._findings.append(
            Finding(
                fault.rule,
                breach.severity,
                breach.nature,
                text,
                fault.record,
                fault.at.offset,
                hint=fault.hint,
            )
        )


def _excuse(finding: Finding) -> Finding:
    return _changed(finding, Nature.HOSTILE, Nature.INCONSISTENT)


def _changed(finding: Finding, nature: Nature, other: Nature) -> Finding:
    return replace(finding, nature=other) if finding.nature is nature else finding
