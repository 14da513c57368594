"""Enforces the guard of an archive: which operators its code reaches, and what they may use up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tsarchive.errors import PolicyError, SourceError
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.policy import NO_LIMITS, Guard, Policy

from .direct import DirectCall, direct_call
from .operators import (
    Implementation,
    exportable,
    implementation,
    native_object,
    runs_here,
    traceable,
)

if TYPE_CHECKING:
    from tsarchive.ir.classes import ClassType, Function
    from tsarchive.ir.graph import Node
    from tsarchive.ir.schema import FunctionSchema
    from tsarchive.operators.risks import Row

    from .metering import Metering


class Dispatch(NamedTuple):
    """Calls of operators from generated code, and their cost where there are limits.

    ``direct_call`` is None where all operators are called by their overload.
    ``spend`` takes the cost of running nodes from the budget, ``bounded`` lets a function that
    runs later spend from it; both are None without limits. ``inlines`` tells whether operators may
    be written as Python syntax, which tracers do not see. ``opens_blocks`` tells whether branches
    and bodies of loops are functions, which an export can put into its program.
    """

    implementation: Callable[[FunctionSchema], Implementation] = implementation
    direct_call: Callable[[Node, Sequence[str]], DirectCall | None] | None = direct_call
    metered: Callable[[FunctionSchema, Implementation], Implementation] = lambda _, run: run
    spend: Callable[..., None] | None = None
    bounded: Callable[[Implementation], Implementation] | None = None
    inlines: bool = True
    opens_blocks: bool = False


class Enforcement:
    """Applies one guard to all code and objects of an archive.

    ``dispatch`` is for code that runs, ``traced`` for code that torch.compile and torch.export
    trace, ``exported`` for code that is called through the layers of an export. ``metering`` is
    None without limits.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.metering: Metering | None = None
        self.dispatch: Dispatch = Dispatch()
        self.traced: Dispatch = Dispatch(traceable, None, inlines=False)
        self.exported: Dispatch = Dispatch(exportable, None, inlines=False, opens_blocks=True)
        self._allowed: set[str] = set()
        self._asked: set[str] = set()
        if guard.limits == NO_LIMITS:
            return
        # Metering takes long to import, and few archives have limits.
        from .metering import metering_of

        metering = self.metering = metering_of(guard.limits)
        self.dispatch = Dispatch(
            metering.implementation, None, metering.metered, metering.budgets.spend,
            metering.bounded,
        )  # fmt: skip
        self.traced = self.traced._replace(spend=metering.spend_traced)
        self.exported = self.exported._replace(spend=metering.spend_traced)

    @contextmanager
    def asking(self) -> Iterator[set[str]]:
        """Collect the names that code asks for inside the block, which are allowed."""
        outside, self._asked = self._asked, set()
        try:
            yield self._asked
        finally:
            self._asked = outside

    def check_allowed(
        self, name: str, function: Function | None = None, node: Node | None = None
    ) -> None:
        """Raise PolicyError where the policy refuses an operator or a class bound from C++.

        ``node`` is what names it, in ``function``; both are None for an object of the archive.
        """
        self._asked.add(name)
        if name in self._allowed:
            return
        row = self.guard.policy.refusal(name)
        if row is not None:
            from tsarchive.operators.libraries import unregistered

            kind = name.partition(".")[0]
            is_missing = "::" in kind and not runs_here(kind)
            refused = _refused(self.guard.policy, name, row, function)
            raise _located(unregistered(kind) if is_missing else refused, node)
        self._allowed.add(name)

    def refuses(self, name: str) -> bool:
        """Return whether the policy refuses an operator."""
        return name not in self._allowed and self.guard.policy.refusal(name) is not None

    def native_object(self, type_: ClassType, state: Any) -> Any:
        """An object of a class bound from C++, made from its pickled state.

        Raises PolicyError where the policy refuses the class, UnsupportedError for a class that
        cannot be pickled.
        """
        self.check_allowed(type_.qualified_name)
        return native_object(type_, state)


def _refused(policy: Policy, name: str, row: Row, function: Function | None) -> PolicyError:
    """Return the error for an operator or a class that code names; without code, for an object."""
    kind = "operator" if "::" in name else "class"
    shown = name.removeprefix(NATIVE_PREFIX)
    owner = None if function is None else function.qualified_name
    who = "the archive holds an object of" if owner is None else f"{owner} names"
    return PolicyError(
        f"{who} the {kind} {shown}, which the policy refuses: {row.reason} ({row.risk.value})",
        operator=shown,
        function=owner,
        hint=_hint(policy, name.partition(".")[0] if "::" in name else name),
    )


def _located(error: SourceError | PolicyError, node: Node | None) -> SourceError | PolicyError:
    """Return the error with the place of the node that names what is refused."""
    place: Any = None if node is None else node.place
    if hasattr(place, "places"):  # in a code record
        error.record, error.line = place.places.record, place.line
        error.construct = place.text
        error.origin = str(place.origin or "") or None
    return error


def _hint(policy: Policy, name: str) -> str:
    """Return the hint that says how to allow what is named: of operators, all overloads."""
    if policy.forbids(name):
        return "Load the file with a policy that does not forbid it"
    allowing = policy.allow(name)
    return f"If you trust the file with that: policy={allowing!r}"
