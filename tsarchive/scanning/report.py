"""The report of an audit, and the findings about the operators that a file can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tsarchive.describing.contents import GroupFacts, TensorTotals
from tsarchive.describing.text import plural
from tsarchive.findings import (
    COMPUTED,
    FINDING_COLUMNS,
    Finding,
    Nature,
    Severity,
    finding_rows,
    is_fine,
)
from tsarchive.operators.risks import Risk, row_of
from tsarchive.renaming import renamed_fields
from tsarchive.reports import Report


class When(Enum):
    """The moment when code of an archive runs."""

    LOAD = "load"
    """Loading the file: ``__setstate__`` of a class whose objects are pickled."""
    HOOK = "hook"
    """Calling a module that has a hook, whatever its ``forward`` says."""
    CALL = "call"
    """A call of ``forward`` or of any other method."""
    NEVER = "never"
    """Nothing: no object of the file leads to it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line (1-based) of a code record, and the function that it is in.

    ``line`` is None for bytecode. ``files`` are the file names that an operator on files is
    given: literal text, with ``{...}`` where a part is computed.
    """

    record: str
    line: int | None
    function: str
    when: tuple[When, ...]
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """An operator (``aten::save``) that the code names, with the places that do, a thousand of them
    at most.

    ``is_certain`` is False where it is known by the name of a method alone, and a method of a
    class of the archive may be meant.
    """

    operator: str
    risk: Risk
    reason: str
    places: tuple[Place, ...]
    is_certain: bool = True

    @property
    def when(self) -> tuple[When, ...]:
        """When it can run; only ``NEVER`` when nothing leads to it."""
        found = {when for place in self.places for when in place.when}
        return tuple(when for when in When if when in found)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A function that runs without being called by other code of the archive."""

    when: When
    function: str


@dataclass(frozen=True, slots=True)
class PickledName:
    """A global (``torch._utils._rebuild_tensor_v2``) that a pickle names.

    ``is_called`` tells whether the pickle also calls it; ``reason`` is why it is harmless, None
    when it is not among the names that are.
    """

    record: str | None
    name: str
    is_called: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Payload:
    """Native code or another program in the file; ``format`` says of which kind."""

    record: str | None
    format: str
    nbytes: int


@renamed_fields(size="nbytes")
@dataclass(frozen=True, slots=True, repr=False)
class AuditReport(Report):
    """The abilities of a file.

    ``kind`` is that of :attr:`tsarchive.Archive.kind` or, of files that are no zip archive,
    ``pickle``, ``torch.save (legacy)``, ``tar``, ``npy`` or ``unknown``. ``groups`` gives the
    sizes of records by what they hold; ``tensors`` counts what :attr:`tsarchive.Archive.tensors`
    lists, and is None where it lists none. ``classes`` are the torchbind classes that are named.

        >>> report = tsarchive.audit("net.pt")
        >>> report.ok, [use.operator for use in report.operators if "linear" in use.operator]
        (True, ['aten::linear'])
    """

    _COLUMNS = FINDING_COLUMNS

    kind: str
    nbytes: int
    findings: tuple[Finding, ...]
    operators: tuple[OperatorUse, ...] = ()
    entry_points: tuple[EntryPoint, ...] = ()
    pickled_names: tuple[PickledName, ...] = ()
    classes: tuple[str, ...] = ()
    payloads: tuple[Payload, ...] = ()
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    tensors: TensorTotals | None = None

    @property
    def ok(self) -> bool:
        """Return whether nothing was found above ``Severity.INFO``."""
        return is_fine(self.findings)

    def _headline(self) -> str:
        found = plural(len(self.findings), "finding")
        return f"{self.kind}, {plural(self.nbytes, 'byte')}, {found}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return finding_rows(self.findings)


# What the ability to run an operator of each class means for someone who did not write the file.
SEVERITIES: Final[Mapping[Risk, Severity | None]] = {
    Risk.COMPUTE: None,
    Risk.OUTPUT: Severity.INFO,
    Risk.RANDOMNESS: Severity.INFO,
    Risk.PROCESS_INFORMATION: Severity.INFO,
    # A library must be imported before code can reach its operators: that is the user's choice.
    Risk.FOREIGN: Severity.INFO,
    Risk.GLOBAL_STATE: Severity.WARNING,
    Risk.MEMORY: Severity.WARNING,
    Risk.UNKNOWN: Severity.WARNING,
    Risk.FILES: Severity.ERROR,
    Risk.PROCESSES: Severity.ERROR,
    Risk.NETWORK: Severity.ERROR,
    Risk.NATIVE_CODE: Severity.ERROR,
}
_MOMENTS: Final = {
    When.LOAD: "when the file is loaded",
    When.HOOK: "in a hook",
    When.CALL: "when a method is called",
    When.NEVER: "in code that nothing seems to lead to",
}
_LONGEST_SHOWN: Final = 200
_HINT: Final = "Load it only if you know why it does so; the default policy refuses it"


def use_of(operator: str, places: tuple[Place, ...], is_certain: bool = True) -> OperatorUse:
    """Return an operator with what the table of risks says of it."""
    row = row_of(operator)
    return OperatorUse(operator, row.risk, row.reason, places, is_certain)


def ordered(uses: Iterable[OperatorUse]) -> tuple[OperatorUse, ...]:
    """Sort operators: the most dangerous first, then by name."""
    risks = list(Risk)[::-1]
    worst = sorted(risks, key=lambda risk: SEVERITIES[risk] or Severity.INFO, reverse=True)
    return tuple(sorted(uses, key=lambda use: (worst.index(use.risk), use.operator)))


def operator_findings(uses: Iterable[OperatorUse]) -> Iterator[Finding]:
    """Yield one finding for each place of a dangerous operator, one for each other operator."""
    for use in uses:
        severity = SEVERITIES[use.risk]
        if severity is None or (severity is Severity.INFO and not use.is_certain):
            continue
        if severity is not Severity.INFO:
            yield from (_at(use, place, severity) for place in use.places)
            continue
        first, count = use.places[0], len(use.places)
        where = "in one place" if count == 1 else f"in {count:,} places"
        message = f"{use.operator} {where}: {use.reason}"
        rule = operator_rule(use.risk)
        yield Finding(rule, severity, Nature.ABILITY, message, first.record, line=first.line)


def _at(use: OperatorUse, place: Place, severity: Severity) -> Finding:
    named = use.operator if use.is_certain else f"something called like {use.operator}"
    if place.when == (When.NEVER,) or not use.is_certain:
        severity = min(severity, Severity.WARNING)
    files = f" with {' or '.join(map(_quoted, place.files))}" if place.files else ""
    moments = " and ".join(_MOMENTS[when] for when in place.when)
    message = f"{place.function[:_LONGEST_SHOWN]} runs {named}{files} {moments}: {use.reason}"
    return Finding(
        operator_rule(use.risk),
        severity,
        Nature.ABILITY,
        message,
        place.record,
        line=place.line,
        hint=_HINT,
    )


def _quoted(text: str) -> str:
    if text == COMPUTED:
        return "a computed name"
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]!r}..."


def operator_rule(risk: Risk) -> str:
    """Return the rule for operators of a class of risk: ``operator-files``."""
    return f"operator-{risk.value.replace(' ', '-')}"
