"""The definitions of a package: each class and function once, made when first asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import Node, walk
from tsarchive.ir.names import unmangled
from tsarchive.ir.types import EnumType, Type, annotation
from tsarchive.ir.values import TableConstant
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.passes.liveness import Effects
from tsarchive.run.passes.peephole import Identities
from tsarchive.run.typecheck import type_of_class

from .layout import Comments, Definition, Module
from .naming import References, definition_name, module_path
from .overflow_analysis import functions_that_wrap

CONSTANTS = "_constants"
"""The module of a package that holds the constants of code."""

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
        self.constants: dict[str, Any] = {}
        self._constant_names: dict[int, str] = {}
        self.exceptions: dict[str, None] = {}
        self.untranslated: dict[str, None] = {}
        self.modules: dict[tuple[str, ...], Module] = {}
        self._numbers = 0
        self._definitions: dict[Type | Function, Definition] = {}
        self._by_content: dict[tuple[object, ...], Definition] = {}
        self.enum_members: dict[EnumType, dict[str, str]] = {}

    def reference(self, key: Type | Function) -> ast.expr:
        """A reference to the class for a class, enum or named tuple, or to a function."""
        return self.references.to_definition(self.definition(key))

    def constant(self, content: Any) -> ast.expr:
        """A reference to a constant of the table, an object, or a generator."""
        value = content.value if isinstance(content, TableConstant) else content
        name = self._constant_names.setdefault(id(value), f"c{len(self._constant_names)}")
        self.constants[name] = value
        return self.references.imported(CONSTANTS, name)

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
        return self.enum_members[enum][name]

    def has_hooks(self, type_: Type) -> bool:
        """Whether a call must not go through ``__call__``, because the code runs hooks itself."""
        return isinstance(type_, ClassType) and bool(type_.forward_hooks or type_.forward_pre_hooks)


def _qualified_name(key: Type | Function) -> str:
    name = getattr(key, "qualified_name", None)
    if isinstance(name, str):
        return name
    assert not isinstance(key, Function)
    raise UnsupportedError(f"{annotation(key)} has no Python class")


class Reachability:
    """Walks the graphs of everything that ``root`` and its submodules can call."""

    def __init__(self, root: ArchiveModule) -> None:
        self.assigned: set[tuple[ClassType, str]] = set()
        self.functions: list[Function] = []
        self._seen: set[Type | Function] = set()
        for _, module in root.named_modules():
            self._type(module_type(module))

    def _type(self, type_: Type) -> None:
        if type_ in self._seen:
            return
        self._seen.add(type_)
        if isinstance(type_, FunctionType):
            self._function(type_.function)
        if isinstance(type_, ClassType) and not type_.is_native:
            for function in (*type_.methods.values(), *type_.hooks()):
                self._function(function)
        for part in type_.parts():
            self._type(part)

    def _function(self, function: Function) -> None:
        if function in self._seen:
            return
        self._seen.add(function)
        self.functions.append(function)
        for argument in function.schema.arguments:
            self._type(argument.type)
        for node in walk(function.graph.nodes):
            self._node(node)

    def _node(self, node: Node) -> None:
        for value in node.outputs:
            self._type(value.type)
        for type_ in node.attributes.get("types", ()):
            self._type(type_)
        if node.kind == "prim::SetAttr":
            owner = node.inputs[0].type
            assert isinstance(owner, ClassType)
            self.assigned.add((owner, node.name))


def module_type(module: torch.nn.Module) -> ClassType:
    found = type_of_class(type(module))
    assert isinstance(found, ClassType)
    return found
