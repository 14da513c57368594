"""Links generated code with the rest of its archive, and with the operators that it calls."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tsarchive.ir.classes import Function

from .class_table import ClassTable
from .enforcement import Dispatch, Enforcement
from .lazy_functions import Bound, LazyFunction
from .objects import Objects
from .passes.calls import Wanted
from .passes.liveness import Effects
from .passes.object_identity import Comparisons
from .passes.peephole import Identities


class Analyses:
    """Facts about the functions of an archive, found when they are first asked for."""

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self.effects = Effects()
        self.identities = Identities()
        self.comparisons = Comparisons(lock)


class _FunctionSource(Protocol):
    def __call__(
        self, function: Function, bound: Bound = ..., wanted: Wanted = ..., /
    ) -> LazyFunction: ...


@dataclass(frozen=True, slots=True)
class Linkage:
    """All that generated code can refer to. ``function`` gives the functions that it calls."""

    table: ClassTable
    objects: Objects
    enforcement: Enforcement
    analyses: Analyses
    dispatch: Dispatch
    function: _FunctionSource
