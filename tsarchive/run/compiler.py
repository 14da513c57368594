"""Compiles the functions of an archive, and all that a function calls where it is traced.

Tracers read the functions that generated code names. Such a function must be there, and stay the
same, before they reach it, so nothing may be compiled when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

from tsarchive.errors import ArchiveError
from tsarchive.ir.classes import Function

from .class_table import ClassTable
from .dynamic_calls import DynamicCall
from .enforcement import Dispatch, Enforcement
from .lazy_functions import Bound, Call, LazyFunction
from .linkage import Analyses, Linkage
from .objects import Objects
from .passes.calls import Wanted
from .structural_sharing import Bodies
from .tracing import called_by_tracers


class Compiler:
    """The Python functions for the functions of an archive, for one way to call operators."""

    def __init__(
        self,
        table: ClassTable,
        objects: Objects,
        enforcement: Enforcement,
        analyses: Analyses,
        dispatch: Dispatch,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.lock = lock
        self.linkage = Linkage(table, objects, enforcement, analyses, dispatch, self.function)
        self._bodies = Bodies(self.linkage)
        self._functions: dict[Hashable, LazyFunction] = {}
        self._for_tracing: Compiler | None = None

    def function(
        self, function: Function, bound: Bound = (), wanted: Wanted = None
    ) -> LazyFunction:
        """The Python function that runs ``function``: arguments by position, no conversions.

        ``bound`` names parameters that are constant tensors at the calls in question, ``wanted``
        the part of the result that those calls use.
        """
        key = function, tuple((position, id(tensor)) for position, tensor in bound), wanted
        with self.lock:
            found = self._functions.get(key)
            if found is None:
                call = Call(function, bound, wanted)
                found = LazyFunction(call, self._bodies.source, self.lock)
                self._functions[key] = found
            return found

    @property
    def for_tracing(self) -> Compiler:
        """The same compiler, for functions that torch.compile and torch.export trace."""
        with self.lock:
            if self._for_tracing is None:
                link = self.linkage
                self._for_tracing = Compiler(
                    link.table, link.objects, link.enforcement, link.analyses,
                    link.enforcement.traced, self.lock,
                )  # fmt: skip
            return self._for_tracing


class TracedFunction:
    """The Python function that tracers see in the place of a function of the archive."""

    def __init__(self, function: Function, compiler: Compiler) -> None:
        self._function = function
        self._compiler = compiler
        self.function: Callable[..., Any]

    @called_by_tracers
    def is_ready(self) -> bool:
        """Compile ``function`` and what it calls; true when that is done."""
        if not hasattr(self, "function"):
            lazy = self._compiler.for_tracing.function(self._function)
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
