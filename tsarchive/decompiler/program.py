"""The definitions of a package: each class and function once, made when first asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function, InterfaceType
from tsarchive.ir.names import unmangled
from tsarchive.ir.types import EnumType, Type, annotation
from tsarchive.run.passes.liveness import Effects
from tsarchive.run.passes.peephole import Identities

from .comments import Comments
from .constants import Constants
from .layout import Definition, Module
from .naming import definition_name, module_path
from .overflow_analysis import functions_that_wrap
from .reachability import Reachability
from .references import References

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule


Body = Callable[["Program", Type | Function, Definition], list[ast.stmt]]


class Program:
    """The classes and functions of an archive as definitions of Python.

    Two that differ in nothing but the number in their qualified names are one definition.
    ``body`` writes the statements of a definition; it may ask for others, and for itself.
    """

    def __init__(self, root: ArchiveModule, comments: Comments, body: Body) -> None:
        self._body = body
        reached = Reachability(root)
        self.comments = comments
        self.references = References()
        self.effects = Effects()
        self.identities = Identities()
        self.assigned = reached.assigned
        self.wrapping = functions_that_wrap(reached.functions)
        self.constants = Constants()
        self.exceptions: dict[str, None] = {}
        self.untranslated: dict[str, None] = {}
        self.modules: dict[tuple[str, ...], Module] = {}
        self._numbers = 0
        self._definitions: dict[Type | Function, Definition] = {}
        self._by_content: dict[tuple[object, ...], Definition] = {}
        self._members: dict[EnumType, dict[str, str]] = {}

    def class_(self, type_: Type) -> ast.expr:
        """A reference to the class for a class, enum or named tuple."""
        return self.references.to_definition(self.definition(type_))

    def function(self, function: Function) -> ast.expr:
        """A reference to the function for one of the archive."""
        return self.references.to_definition(self.definition(function))

    def definition(self, key: Type | Function) -> Definition:
        """The definition of a class, enum, named tuple or function."""
        found = self._definitions.get(key)
        if found is None:
            found = self._define(key, _qualified_name(key))
            found.body = self._body(self, key, found)
            found = self._merged(key, found, type(key).__name__)
        return found

    def _define(self, key: Type | Function, qualified_name: str) -> Definition:
        self._numbers += 1
        name = definition_name(qualified_name.rpartition(".")[2])
        path = module_path(qualified_name)
        found = Definition(self._numbers, name, path, unmangled(qualified_name))
        self._definitions[key] = found
        return found

    def _merged(self, key: Type | Function, made: Definition, kind: str) -> Definition:
        """A known definition with the same content, or this one."""
        content = (kind, made.qualified_name, *made.types, *map(ast.dump, made.body))
        found = self._by_content.setdefault(content, made)
        self._definitions[key] = found
        if found is made:
            self._place(made)
        return found

    def _place(self, made: Definition) -> None:
        module = self.modules.get(made.path)
        if module is None:
            module = self.modules[made.path] = Module(made.path)
        made.rename(module.names.unique(made.name))
        module.definitions.append(made)

    def enum_member(self, enum: EnumType, name: str) -> str:
        self.definition(enum)
        return self._members[enum][name]

    def note_members(self, enum: EnumType, names: dict[str, str]) -> None:
        self._members[enum] = names

    def has_hooks(self, type_: Type) -> bool:
        """Whether a call must not go through ``__call__``, because the code runs hooks itself."""
        if isinstance(type_, InterfaceType):
            return False
        return isinstance(type_, ClassType) and bool(type_.forward_hooks or type_.forward_pre_hooks)

    def exception(self, name: str) -> str:
        """The class of the package for exceptions of a name that Python does not have."""
        self.exceptions.setdefault(name)
        return name


def _qualified_name(key: Type | Function) -> str:
    name = getattr(key, "qualified_name", None)
    if isinstance(name, str):
        return name
    assert not isinstance(key, Function)
    raise UnsupportedError(f"{annotation(key)} has no Python class")
