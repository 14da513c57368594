"""Finds the functions that objects of an archive reach, and the attributes that those set."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import Node, walk
from tsarchive.ir.types import Type
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.typecheck import type_of_class


class Reachability:
    """Walks the graphs of everything that ``root`` and its submodules can call."""

    def __init__(self, root: ArchiveModule) -> None:
        self.assigned: set[tuple[ClassType, str]] = set()
        self.functions: list[Function] = []
        self._seen: set[Type | Function] = set()
        for _, module in modules_with_paths(root):
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


def modules_with_paths(root: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Module]]:
    """Every module once, under the first path to it, parents before children."""
    modules: Iterable[tuple[str, torch.nn.Module]] = root.named_modules()
    return modules
