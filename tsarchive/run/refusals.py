"""Errors for what the policy refuses, with the place in the code that names it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tsarchive.errors import PolicyError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Node, Placed
from tsarchive.ir.source_ranges import Location
from tsarchive.operators.risks import NATIVE_PREFIX, Row
from tsarchive.policy import Policy

__all__ = ["refused"]


class _Record(Protocol):
    record: str


@runtime_checkable
class _InCode(Placed, Protocol):
    """The place of a node in a code record."""

    @property
    def places(self) -> _Record: ...
    @property
    def line(self) -> int: ...
    @property
    def origin(self) -> Location | None: ...
    @property
    def text(self) -> str: ...


def refused(
    policy: Policy, name: str, row: Row, function: Function | None = None, node: Node | None = None
) -> PolicyError:
    """The error for an operator or a class that code names; without code, for an object."""
    kind = "operator" if "::" in name else "class"
    shown = name.removeprefix(NATIVE_PREFIX)
    who = (
        "the archive holds an object of" if function is None else f"{function.qualified_name} names"
    )
    error = PolicyError(
        f"{who} the {kind} {shown}, which the policy refuses: {row.reason} ({row.risk.value})",
        operator=shown,
        function=None if function is None else function.qualified_name,
        hint=_hint(policy, name.partition(".")[0] if "::" in name else name),
    )
    place = None if node is None else node.place
    if isinstance(place, _InCode):
        error.record, error.line = place.places.record, place.line
        error.construct = place.text
        error.origin = str(place.origin or "") or None
    return error


def _hint(policy: Policy, name: str) -> str:
    """How to allow what is named: an operator with all its overloads."""
    if policy.forbids(name):
        return "Load the file with a policy that does not forbid it"
    allowing = policy.allow(name)
    return f"If you trust the file with that: policy={allowing!r}"
