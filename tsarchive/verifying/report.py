"""What verifying a file gives: its findings, and one word for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from tsarchive.errors import ArchiveError, SaveError
from tsarchive.findings import Finding, Nature, Severity, is_fine
from tsarchive.formats.torchscript.tensor_infos import TensorTotals

Step = Callable[[str], None]

Verdict = Literal["sound", "unusual", "another kind", "broken", "inconsistent", "hostile"]

# The rule of a finding that says: this is an archive of another kind.
OTHER_KIND = "file-kind"
# Rules that tell of parts which archives have as a matter of course.
_NOTES = frozenset({"record-extra", "record-inputs", "record-no-debug"})
# A file can break one rule at each of a million places; nobody reads that many.
MAX_PER_RULE = 100


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was looked at, and what was found.

    ``kind`` is that of :attr:`tsarchive.Archive.kind`, None where the file is no zip archive that
    can be opened; ``format_version`` is None where none can be read. ``bytes`` is the size of
    the file, 0 where it is not known. ``records`` and ``code_records`` count what was checked,
    ``tensors`` what :attr:`tsarchive.Archive.tensors` lists, and is None where it lists none:
    for archives of other kinds, and those that are too broken. ``findings`` stand in the order
    of severity, worst first, then of their place.
    """

    kind: str | None
    format_version: int | None
    bytes: int
    records: int
    tensors: TensorTotals | None
    code_records: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is above ``Severity.INFO``."""
        return is_fine(self.findings)

    @property
    def verdict(self) -> Verdict:
        """The gravest nature among the findings, in a word; notes are left aside.

        ``hostile``: only intent explains it; ``inconsistent``: it contradicts itself, so it is
        damaged or forged; ``broken``: an accident explains it; ``another kind``: a file of another
        kind, nothing wrong with it; ``unusual``: no writer of archives does so, and it does no
        harm; ``sound``: nothing but notes.
        """
        natures = [finding.nature for finding in self.findings if finding.rule not in _NOTES]
        if not natures:
            return "sound"
        return cast(Verdict, max(natures, key=lambda nature: nature.rank).value)


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
            else:
                self._keep_worst(finding)

    def excuse(self, in_doubt: frozenset[str]) -> None:
        """What is found from now on in these records may have come of damage."""
        self._in_doubt = in_doubt

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error."""
        return any(finding.severity is Severity.ERROR for finding in self._found)

    def damaged(self) -> frozenset[str]:
        """The records that errors have been found in."""
        errors = (finding for finding in self._found if finding.severity is Severity.ERROR)
        return frozenset(finding.record for finding in errors if finding.record is not None)

    def __iter__(self) -> Iterator[Finding]:
        """In the order in which they came; one more for each rule with too many."""
        yield from self._found
        yield from self._surplus()

    def ordered(self) -> tuple[Finding, ...]:
        """All of them, worst first, then by place."""
        return tuple(sorted(self, key=_place))

    def _keep_worst(self, finding: Finding) -> None:
        known = self._worst.get(finding.rule)
        if known is None or _weight(finding) > _weight(known):
            self._worst[finding.rule] = finding

    def _surplus(self) -> Iterator[Finding]:
        for rule, worst in self._worst.items():
            more = self._counts[rule] - MAX_PER_RULE
            message = f"and {more:,} more of this rule; the worst of them: {worst.message}"
            yield replace(worst, message=message)


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
    """The finding as it is told of what may be damaged."""
    is_hostile = finding.nature is Nature.HOSTILE
    return replace(finding, nature=Nature.INCONSISTENT) if is_hostile else finding


def fault(
    error: ArchiveError, rule: str, nature: Nature = Nature.BROKEN, record: str | None = None
) -> Finding:
    """The finding of an error, which is about ``record`` where it does not name one."""
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


def not_a_module() -> Finding:
    """The finding of a data.pkl whose value has no class of the archive."""
    message = "the root of the archive is not an object"
    return Finding("pickle-root", Severity.ERROR, Nature.BROKEN, message, "data.pkl")


def require_whole(findings: Iterable[Finding]) -> None:
    """Raise SaveError for a file that is broken: what is copied from it would be, too."""
    for finding in findings:
        if finding.nature is Nature.BROKEN and finding.severity is not Severity.INFO:
            raise SaveError(
                f"the file that was loaded is broken: {finding.message}",
                hint="Get the file again from where it came from, or copy it as it is",
            )
