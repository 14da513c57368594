"""Archive code under torch.compile and torch.export: compiled ahead, with all that it calls.

Tracers read the functions that generated code names. Such a function must be there, and stay the
same, before they reach it, so nothing may be compiled when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import Function

from .compiler import LazyFunction
from .support import DynamicCall

if TYPE_CHECKING:
    from .classes import Classes

__all__ = ["TracedFunction", "called_by_tracers"]

F = TypeVar("F", bound=Callable[..., Any])


def called_by_tracers(function: F) -> F:
    """Let torch.compile call ``function`` itself; the result must be a bool or None."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


class TracedFunction:
    """The Python function that tracers see in the place of a function of the archive."""

    def __init__(self, function: Function, classes: Classes) -> None:
        self._function = function
        self.classes = classes
        self.function: Callable[..., Any]

    @called_by_tracers
    def is_ready(self) -> bool:
        """Compile ``function`` and what it calls; true when that is done."""
        if not hasattr(self, "function"):
            lazy = self.classes.for_tracing.function(self._function)
            _compile_ahead(lazy)
            self.function = lazy.compile()
        return True


def _compile_ahead(first: LazyFunction) -> None:
    """Compile everything within reach. What cannot be compiled fails if it is called."""
    found = {first}
    pending = [first]
    while pending:
        for callee in _callees(pending.pop()):
            if callee not in found:
                found.add(callee)
                pending.append(callee)


def _callees(function: LazyFunction) -> list[LazyFunction]:
    try:
        named = function.compile().__globals__.values()
    except ArchiveError:
        return []
    callees = [value for value in named if isinstance(value, LazyFunction)]
    for value in named:
        if isinstance(value, DynamicCall):
            callees += value.candidates()
    return callees
