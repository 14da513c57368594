"""The definitions of a package: each class and function once, made when first asked for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function, InterfaceType
from tsarchive.ir.names import unmangled
from tsarchive.ir.types import EnumType, TupleType, Type, annotation
from tsarchive.run.passes.liveness import Effects
from tsarchive.run.passes.peephole import Identities

from .comments import Comments
from .constants import Constants
from .definitions import class_body, enum_body, function_body, named_tuple_body
from .growth import functions_that_wrap
from .layout import Definition, Module
from .naming import definition_name, module_path
from .references import References
from .survey import Survey

if TYPE_CHECKING:
    from tsarchive.run.classes import ArchiveModule

__all__ = ["Program"]


class Program:
    """The classes and functions of an archive as definitions of Python.

    Two that differ in nothing but the number in their qualified names are one definition.
    """

    def __init__(self, root: ArchiveModule, comments: Comments) -> None:
        survey = Survey(root)
        self.comments = comments
        self.references = References()
        self.effects = Effects()
        self.identities = Identities()
        self.assigned = survey.assigned
        self.wrapping = functions_that_wrap(survey.functions)
        self.constants = Constants(self)
        self.exceptions: dict[str, None] = {}
        self.untranslated: dict[str, None] = {}
        self.modules: dict[tuple[str, ...], Module] = {}
        self._numbers = 0
        self._definitions: dict[Type | Function, Definition] = {}
        self._by_content: dict[tuple[object, ...], Definition] = {}
        self._members: dict[EnumType, dict[str, str]] = {}

    def class_(self, type_: Type, references: References) -> ast.expr:
        """A reference to the class for a class, enum or named tuple."""
        return references.to_definition(self.definition(type_))

    def function(self, function: Function, references: References) -> ast.expr:
        found = self._definitions.get(function)
        if found is None:
            found = self._define(function, function.qualified_name)
            found.body = function_body(self, function, found)
            found = self._merged(function, found, "function")
        return references.to_definition(found)

    def definition(self, type_: Type) -> Definition:
        found = self._definitions.get(type_)
        if found is None:
            found = self._define(type_, _qualified_name(type_))
            match type_:
                case ClassType(is_native=False):
                    found.body = class_body(self, type_, found)
                case EnumType():
                    found.body = enum_body(self, type_, found)
                case TupleType(qualified_name=str()):
                    found.body = named_tuple_body(self, type_, found)
                case _:
                    raise UnsupportedError(f"{annotation(type_)} has no Python class")
            found = self._merged(type_, found, type(type_).__name__)
        return found

    def _define(self, key: Type | Function, qualified_name: str) -> Definition:
        self._numbers += 1
        name = definition_name(qualified_name.rpartition(".")[2])
        path = module_path(qualified_name)
        found = Definition(self._numbers, name, path, unmangled(qualified_name))
        self._definitions[key] = found
        return found

    def _merged(self, key: Type | Function, made: Definition, kind: str) -> Definition:
        """The definition with the same content that there is already, or this one."""
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


def _qualified_name(type_: Type) -> str:
    name = getattr(type_, "qualified_name", None)
    if not isinstance(name, str):
        raise UnsupportedError(f"{annotation(type_)} has no Python class")
    return name
