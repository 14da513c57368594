"""Gates: whether the files of a survey keep the rules of a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Protocol

from tsarchive.auditing.sarif import sarif_log, sarif_place, sarif_result
from tsarchive.describing.text import plural
from tsarchive.errors import CallError
from tsarchive.findings import Severity
from tsarchive.reports import Report

from .conditions import VERBS, FindingCondition, SignedCondition, TwinCondition
from .grouping import Groups, Notes, Place
from .listing import SIGNATURE
from .rows import FileRow, FindingRow
from .rules import Exemption, Gate, Rule

LISTED: Final = 1_000
"""The default number of violations of each rule that a report lists."""


class Rows(Protocol):
    """The rows of a survey, which can be read several times."""

    def files(self) -> Iterable[FileRow]:
        """Return one row for each file."""

    def findings(self) -> Iterable[FindingRow]:
        """Return one row for each finding."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A file that violates a rule; ``message`` says how, and ``hint`` what to do."""

    rule: str
    severity: Severity
    place: Place
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The number of files that violate a rule, and of those that do and are exempt."""

    name: str
    severity: Severity
    message: str
    violated: int
    exempt: int


@dataclass(frozen=True, slots=True, repr=False)
class GateReport(Report):
    """Whether the files of a survey keep the rules of a gate.

    ``violations`` are the first of each rule, gravest first and then by file; ``violated`` counts
    all. ``ok`` tells whether none is above ``Severity.INFO``.

        >>> gate = tsarchive.Gate.of('''
        ... [[rule]]
        ... name = "small"
        ... message = "It is large"
        ... require = { nbytes = "< 1000" }
        ... ''')
        >>> survey = tsarchive.survey("net.pt", "survey", workers=0, format="jsonl")
        >>> report = survey.check(gate)
        >>> report.ok, [violation.rule for violation in report.violations]
        (False, ['small'])
    """

    _COLUMNS = "severity", "rule", "file", "message"

    checked: int
    rules: tuple[RuleResult, ...]
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """Return whether no violation is above ``Severity.INFO``."""
        return not any(rule.violated for rule in self.rules if rule.severity > Severity.INFO)

    @property
    def violated(self) -> int:
        """The number of all violations."""
        return sum(rule.violated for rule in self.rules)

    def _headline(self) -> str:
        return f"{plural(self.violated, 'violation')} in {plural(self.checked, 'file')}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(one.severity.value, one.rule, one.place, one.message) for one in self.violations]


_FINGERPRINT: Final = ("fingerprint",)
_MODEL: Final = ("fingerprint", "weights")
# What a survey must have asked of files so that it tells of these.
_ASPECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "sha256": ("digest",),
    **dict.fromkeys(("code", "structure", "extra_files"), _FINGERPRINT),
    **dict.fromkeys(("weights", "model"), _MODEL),
    **dict.fromkeys(("errors", "warnings", "notes"), VERBS),
    **{verb: (verb,) for verb in VERBS},
    "effects": ("audit",),
    **dict.fromkeys(("loads_on", "runs_on"), ("compat",)),
}


def require_asked(gate: Gate, aspects: Mapping[str, object]) -> None:
    """Raise CallError for a rule about what a survey of these aspects has not asked of files."""
    for rule in gate.rules:
        for name in (name for condition in rule.conditions for name in condition.asks):
            missing = [each for each in _ASPECTS.get(name, ()) if aspects.get(each) is False]
            if missing:
                raise CallError(
                    f"rule {rule.name!r} asks for {name}; the survey was made without {missing[0]}",
                    hint=f"Survey them without the option --no-{missing[0]}, in a new folder",
                )


def check(gate: Gate, rows: Rows, *, today: date | None = None, listed: int = LISTED) -> GateReport:
    """Check the files of a survey; ``listed`` limits the violations of each rule in the report.

    ``today`` is the day for which exemptions count. Files that are signatures of others are not
    checked. Memory does not grow with the number of rows, which are read twice where rules compare
    files.
    """
    known = _Known(gate, rows)
    day = today or date.today()
    checking = [_Checking(rule, gate.exemptions, day, listed) for rule in gate.rules]
    checked = 0
    for row in rows.files():
        if known.is_signature(row):
            continue
        checked += 1
        for each in checking:
            each.check(row, known)
    found = [violation for each in checking for violation in each.violations]
    found.sort(key=lambda v: (-v.severity.rank, v.place, v.rule))
    return GateReport(checked, tuple(each.result() for each in checking), tuple(found))


def sarif_of(report: GateReport, version: str) -> dict[str, Any]:
    """Describe the violations that a report lists as a SARIF 2.1.0 document."""
    rules = {rule.name: rule.message or rule.name for rule in report.rules}
    places = {name: index for index, name in enumerate(rules)}
    results = (
        sarif_result(places[v.rule], v, {"physicalLocation": sarif_place(str(v.place))})
        for v in report.violations
    )
    return sarif_log(rules, results, version)


class _Known:
    """What the rows tell together, as far as the conditions of a gate ask for it."""

    def __init__(self, gate: Gate, rows: Rows) -> None:
        self._gate = gate
        self._notes = Notes()
        found = {condition for rule in gate.rules for condition in rule.conditions}
        self._groups = {c.column: Groups() for c in found if isinstance(c, TwinCondition)}
        self._keys = {
            condition: number
            for number, condition in enumerate(found, 1)
            if isinstance(condition, FindingCondition)
        }
        if self._groups or any(isinstance(condition, SignedCondition) for condition in found):
            for row in rows.files():
                self._add(row)
        if self._keys:
            for finding in rows.findings():
                self._add_finding(finding)

    def _add(self, row: FileRow) -> None:
        if self.is_signature(row):
            end = max((s for s in self._gate.suffixes if row.path.endswith(s)), key=len)
            self._notes.add(_SIGNATURE, Place(row.root, row.path.removesuffix(end)), end)
            return
        for column, groups in self._groups.items():
            if digest := getattr(row, column):
                groups.add(digest, Place(row.root, row.path), row.nbytes or 0)

    def _add_finding(self, row: FindingRow) -> None:
        for condition, key in self._keys.items():
            if condition.fits(row):
                told = f"{row.verb} finds {row.rule}: {row.message}"
                self._notes.add(key, Place(row.root, row.path), told)

    def is_signature(self, row: FileRow) -> bool:
        """Return whether a file is called like a signature, and is of no kind that is known."""
        is_unknown = row.status == "foreign" and row.kind in (None, SIGNATURE)
        return is_unknown and row.path.endswith(self._gate.suffixes)

    def twin_of(self, row: FileRow, column: str) -> Place | None:
        digest = getattr(row, column)
        first = self._groups[column].first(digest) if digest else None
        return None if first == Place(row.root, row.path) else first

    def is_signed(self, row: FileRow) -> bool:
        if not self._gate.signed.isdisjoint((row.sha256, row.model)):
            return True
        return self._notes.get(_SIGNATURE, Place(row.root, row.path)) is not None

    def finding(self, row: FileRow, condition: FindingCondition) -> str | None:
        return self._notes.get(self._keys[condition], Place(row.root, row.path))


_SIGNATURE: Final = 0


class _Checking:
    """Checks files by one rule."""

    def __init__(
        self, rule: Rule, exemptions: Sequence[Exemption], today: date, listed: int
    ) -> None:
        self.violations: list[Violation] = []
        self._rule = rule
        self._exemptions = exemptions
        self._today = today
        self._listed = listed
        self._violated = self._exempt = 0

    def check(self, row: FileRow, known: _Known) -> None:
        """Check a file."""
        rule = self._rule
        if not all(condition.holds(row, known) for condition in rule.where):
            return
        told = _wrong_with(rule, row, known)
        if told is None:
            return
        covering = [each for each in self._exemptions if each.covers(rule, row)]
        if any(each.until is None or self._today <= each.until for each in covering):
            self._exempt += 1
            return
        self._violated += 1
        if len(self.violations) < self._listed:
            ended = f"; its exemption ended on {covering[-1].until}" if covering else ""
            message = f"{rule.message}: {told}{ended}" if rule.message else f"{told}{ended}"
            place = Place(row.root, row.path)
            self.violations.append(Violation(rule.name, rule.severity, place, message, rule.hint))

    def result(self) -> RuleResult:
        """Return the counts of the rule."""
        rule = self._rule
        return RuleResult(rule.name, rule.severity, rule.message, self._violated, self._exempt)


def _wrong_with(rule: Rule, row: FileRow, known: _Known) -> str | None:
    """Tell how a file violates a rule; None where it does not."""
    if rule.deny:
        if not all(condition.holds(row, known) for condition in rule.deny):
            return None
        return ", ".join(condition.found(row, known) for condition in rule.deny)
    lacking = [condition for condition in rule.require if not condition.holds(row, known)]
    told = (f"{c.found(row, known)} (required: {c})" for c in lacking)
    return ", ".join(told) if lacking else None
