"""Operators that one of two models uses and the other does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tsarchive.diffing.report import OperatorUse
from tsarchive.diffing.routines import base_name, source_of, walk
from tsarchive.formats.contents import Operation, Routine
from tsarchive.operators.risks import FORMS, Risk, row_of
from tsarchive.policy import Policy

_NO_OPERATORS: Final = "prim::"


class _Use(NamedTuple):
    operator: str
    where: str
    operation: Operation


def operators_of_one(
    routines: Mapping[str, Routine], others: Mapping[str, Routine]
) -> list[OperatorUse]:
    """Return the operators of functions, by their names, that no function of the others uses."""
    known = {base_name(use.operator) for use in _uses(others)}
    found: dict[str, _Use] = {}
    for use in _uses(routines):
        name = base_name(use.operator)
        if name not in known and (name not in found or _is_worse(use, found[name])):
            found[name] = use
    return [_described(name, use) for name, use in sorted(found.items())]


def _is_worse(use: _Use, known: _Use) -> bool:
    """Whether an overload is refused where the one that is known is not."""
    return row_of(use.operator).is_refused and not row_of(known.operator).is_refused


def _described(name: str, use: _Use) -> OperatorUse:
    row = row_of(use.operator)
    risk = "" if row.risk is Risk.COMPUTE else row.risk.value
    is_allowed = Policy.default().refusal(use.operator) is None
    return OperatorUse(name, use.where, risk, is_allowed, source_of(use.operation.place))


def _uses(routines: Mapping[str, Routine]) -> Iterator[_Use]:
    for where, routine in routines.items():
        for operation in walk(routine.body):
            name = operation.operator
            if "::" in name and (not name.startswith(_NO_OPERATORS) or name in FORMS):
                yield _Use(name, where, operation)
