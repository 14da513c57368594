"""Operators that files can run, and the findings that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tsarchive.findings import Finding, Nature, Severity
from tsarchive.operators.risks import Risk, row_of

from .report import OperatorUse, Place, When

COMPUTED: Final = "{...}"
"""The name of a file that code computes."""
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
    """An operator with what the table of risks says of it."""
    row = row_of(operator)
    return OperatorUse(operator, row.risk, row.reason, places, is_certain)


def ordered(uses: Iterable[OperatorUse]) -> tuple[OperatorUse, ...]:
    """The most dangerous first, then by name."""
    risks = list(Risk)[::-1]
    worst = sorted(risks, key=lambda risk: SEVERITIES[risk] or Severity.INFO, reverse=True)
    return tuple(sorted(uses, key=lambda use: (worst.index(use.risk), use.operator)))


def operator_findings(uses: Iterable[OperatorUse]) -> Iterator[Finding]:
    """One finding for each place of a dangerous operator, one for each other operator."""
    for use in uses:
        severity = SEVERITIES[use.risk]
        if severity is None or (severity is Severity.INFO and not use.is_certain):
            continue
        if severity is Severity.INFO:
            yield _summary(use)
        else:
            yield from (_at(use, place, severity) for place in use.places)


def _summary(use: OperatorUse) -> Finding:
    first, count = use.places[0], len(use.places)
    where = "in one place" if count == 1 else f"in {count:,} places"
    message = f"{use.operator} {where}: {use.reason}"
    rule = operator_rule(use.risk)
    return Finding(rule, Severity.INFO, Nature.ABILITY, message, first.record, line=first.line)


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
    """The rule for operators of a class of risk: ``operator-files``."""
    return f"operator-{risk.value.replace(' ', '-')}"
