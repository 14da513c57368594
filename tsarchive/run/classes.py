"""The classes and functions of one archive, which share a compiler, objects and limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from tsarchive.errors import SaveError, UnknownClassError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.types import Type
from tsarchive.policy import FOR_STRANGERS, Guard

from .calls_from_python import restore_grad_mode, seen_by_callers
from .class_building import build_class
from .class_table import ClassTable, name_of
from .compiler import Compiler
from .copying import ClassReference, Origin
from .enforcement import Enforcement
from .lazy_functions import LazyFunction
from .linkage import Analyses
from .modules import ArchiveModule, ArchiveObject
from .objects import Objects, new_object, unset_object
from .slots import get_slot, link_lists, set_slot
from .typecheck import register_class

__all__ = [
    "ArchiveModule",
    "ArchiveObject",
    "Classes",
    "get_slot",
    "link_lists",
    "new_object",
    "set_slot",
    "unset_object",
]


class Classes:
    """The classes and functions of one archive, made when they are first needed.

    ``container`` is the archive they came from, of any form; ``origin`` can make them again in
    another process. ``guard`` says which operators its code may reach, and how far it may go.
    ``table`` holds the Python classes, ``compiler`` the functions, ``enforcement`` applies the
    guard.
    """

    def __init__(self, container: Any = None, guard: Guard = FOR_STRANGERS) -> None:
        self.container = container
        self.origin: Origin | None = None
        lock = threading.RLock()
        self.enforcement = Enforcement(guard)
        self.table = ClassTable(self._build, lock)
        self.objects = Objects(self.table, self.enforcement.native_object, self.call, lock)
        self.compiler = Compiler(
            self.table, self.objects, self.enforcement, Analyses(lock),
            self.enforcement.dispatch, lock,
        )  # fmt: skip

    def function(self, function: Function) -> LazyFunction:
        """The Python function that runs ``function``: arguments by position, no conversions."""
        return self.compiler.function(function)

    def call(self, function: Function, *arguments: Any) -> Any:
        """Run a function of the archive as its own code would."""
        run: Callable[..., Any] = self.compiler.function(function)
        if self.enforcement.metering is not None:
            run = self.enforcement.metering.bounded(run)
        with_grad = torch.is_grad_enabled()
        try:
            return run(*arguments)
        except Exception as error:
            raise seen_by_callers(error)  # noqa: B904  # it has no other cause
        finally:
            restore_grad_mode(with_grad)

    def python_class(self, type_: Type) -> Any:
        """The Python class for a class, enum or named tuple of the archive."""
        return self.table.python_class(type_)

    def _build(self, type_: Type) -> Any:
        made = build_class(type_, self.compiler)
        if isinstance(type_, ClassType):
            made.tsarchive_classes = self
        made.tsarchive_reference = ClassReference(made, self, name_of(type_))
        register_class(made, type_)
        return made

    def class_named(self, qualified_name: str) -> Any:
        """The Python class of that name. Raises UnknownClassError when there is none."""
        found = self.table.known_class(qualified_name)
        if found is not None:
            return found
        wanted = self.origin.find(qualified_name) if self.origin else None
        if wanted is None:
            raise UnknownClassError(f"the archive has no class {qualified_name}")
        return self.python_class(wanted)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise SaveError(
                "the classes of a module that was not loaded from an archive cannot be pickled"
            )
        return self.origin.reduce()
