"""The definitions of a package: each class and function once, made when first asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import closure, walk
from tsarchive.ir.names import unmangled
from tsarchive.ir.types import EnumType, Type, annotation
from tsarchive.ir.values import TableConstant
from tsarchive.run.conversion import type_of_class
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.passes.liveness import Effects
from tsarchive.run.passes.peephole import Identities

from . import references
from .layout import Comments, Definition, Module
from .naming import definition_name, module_path
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
        roots: list[Type | Function] = [module_type(module) for module in root.modules()]
        reached = closure(roots, _leads_to)
        functions = [item for item in reached if isinstance(item, Function)]
        functions.sort(key=lambda function: function.qualified_name)
        self.comments = comments
        self.effects = Effects()
        self.identities = Identities()
        self.assigned = frozenset(_assigned_attributes(functions))
        self.wrapping = functions_that_wrap(functions)
        self.constants: dict[str, Any] = {}
        self._constant_names: dict[int, str] = {}
        self.exceptions: dict[str, None] = {}
        self.untranslated: dict[str, None] = {}
        self.modules: dict[tuple[str, ...], Module] = {}
        self._numbers = count(1)
        self._definitions: dict[Type | Function, Definition] = {}
        self._by_content: dict[tuple[object, ...], Definition] = {}
        self.enum_members: dict[EnumType, dict[str, str]] = {}

    def reference(self, key: Type | Function) -> ast.expr:
        """Return a reference to the class for a class, enum or named tuple, or to a function."""
        return references.to_definition(self.definition(key))

    def constant(self, content: Any) -> ast.expr:
        """Return a reference to a constant of the table, an object, or a generator."""
        value = content.value if isinstance(content, TableConstant) else content
        name = self._constant_names.setdefault(id(value), f"c{len(self._constant_names)}")
        self.constants[name] = value
        return references.imported(CONSTANTS, name)

    def definition(self, key: Type | Function) -> Definition:
        """Return the definition of a class, enum, named tuple or function."""
        if key not in self._definitions:
            qualified_name = _qualified_name(key)
            name = definition_name(qualified_name.rpartition(".")[2])
            path, shown = module_path(qualified_name), unmangled(qualified_name)
            made = Definition(next(self._numbers), name, path, shown)
            self._definitions[key] = made
            made.body = self._body(self, key, made)
            kind = type(key).__name__
            content = (kind, made.qualified_name, *made.types, *map(ast.dump, made.body))
            found = self._definitions[key] = self._by_content.setdefault(content, made)
            if found is made:
                module = self.modules.setdefault(made.path, Module(made.path))
                made.rename(module.names.unique(made.name))
                module.definitions.append(made)
        return self._definitions[key]

    def enum_member(self, enum: EnumType, name: str) -> str:
        self.definition(enum)
        return self.enum_members[enum][name]


def _qualified_name(key: Type | Function) -> str:
    name = getattr(key, "qualified_name", None)
    if isinstance(name, str):
        return name
    assert not isinstance(key, Function)
    raise UnsupportedError(f"{annotation(key)} has no Python class")


def _leads_to(item: Type | Function) -> Iterator[Type | Function]:
    """Yield the types and functions that a type or a function can reach in one step."""
    match item:
        case Function():
            yield from (argument.type for argument in item.schema.arguments)
            for node in walk(item.graph.nodes):
                yield from (value.type for value in node.outputs)
                yield from node.attributes.get("types", ())
            return
        case FunctionType():
            yield item.function
        case ClassType(is_native=False):
            yield from (*item.methods.values(), *item.hooks())
    yield from item.parts()


def _assigned_attributes(functions: Iterable[Function]) -> Iterator[tuple[Type, str]]:
    """Yield the attributes that code sets, by their classes."""
    for function in functions:
        for node in walk(function.graph.nodes):
            if node.kind == "prim::SetAttr":
                yield node.inputs[0].type, node.name


def module_type(module: torch.nn.Module) -> ClassType:
    found = type_of_class(type(module))
    assert isinstance(found, ClassType)
    return found
