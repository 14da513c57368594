"""Run-time values of what graphs and adopted modules hold: constants, objects, devices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Node
from tsarchive.ir.types import ListType, OptionalType, TupleType, Type
from tsarchive.ir.values import Device, EnumMember, GeneratorSeed, ObjectValue, TableConstant

from .class_table import ClassTable
from .slots import set_slot, unset_slots


def new_object(class_: type) -> Any:
    """An instance of a Python class of the archive, for slots to be set next."""
    return class_() if issubclass(class_, torch.nn.Module) else class_.__new__(class_)


def unset_object(class_: type) -> Any:
    """An instance for code of the archive, which may read slots before it sets them."""
    made = new_object(class_)
    if isinstance(made, torch.nn.Module):
        unset_slots(made)
    return made


class Objects:
    """Makes run-time values; each object, list and dict is made once.

    ``native_object`` makes an object of a class bound from C++ from its state, and ``call`` runs a
    function of the archive.
    """

    def __init__(
        self,
        table: ClassTable,
        native_object: Callable[[ClassType, Any], Any],
        call: Callable[..., Any],
        lock: AbstractContextManager[Any],
    ) -> None:
        self._table = table
        self._native_object = native_object
        self._call = call
        self._lock = lock
        self._constants: dict[Node, Any] = {}
        self._known: dict[ObjectValue, Any] = {}
        self._containers: dict[int, tuple[Any, Any]] = {}

    def constant(self, node: Node) -> Any:
        """The run-time value of a constant node, one for all calls."""
        with self._lock:
            if node not in self._constants:
                value = node.attributes["value"]
                self._constants[node] = self.typed(value, node.output.type)
            return self._constants[node]

    def value(self, value: Any) -> Any:
        """The run-time value of a value that a graph holds."""
        match value:
            case TableConstant(content):
                return self.value(content)
            case Device(text):
                return torch.device(text)
            case EnumMember(type_, name):
                return self._table.python_class(type_)[name]
            case GeneratorSeed(device, seed):
                return torch.Generator(device).manual_seed(seed)
            case ObjectValue():
                return self._object(value)
            case tuple():
                return tuple([self.value(item) for item in value])
            case list() | dict():
                return self._container(value)
        return value

    def typed(self, value: Any, type_: Type) -> Any:
        """Like ``value``; tuples of a named type become such."""
        match type_, value:
            case TupleType(elements, name), tuple():
                items = map(self.typed, value, elements)
                return self._table.python_class(type_)(*items) if name else tuple(items)
            case ListType(element), list():
                return [self.typed(item, element) for item in value]
            case OptionalType(element), _ if value is not None:
                return self.typed(value, element)
        return self.value(value)

    def _container(self, value: Any) -> Any:
        known = self._containers.get(id(value))
        if known is None:
            made = self._copied(value)
            # The original is kept alive, so that nothing else gets its id.
            known = self._containers[id(value)] = (value, made)
        return known[1]

    def _copied(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return {self.value(key): self.value(item) for key, item in value.items()}

    def _object(self, described: ObjectValue) -> Any:
        found = self._known.get(described)
        if found is None:
            type_ = described.type
            if type_.is_native:
                found = self._native_object(type_, self._state(described))
            else:
                class_ = self._table.python_class(type_)
                make = new_object if described.state is None else unset_object
                found = self._known[described] = make(class_)
                self._fill(found, described)
            self._known[described] = found
        return found

    def _fill(self, target: Any, described: ObjectValue) -> None:
        type_ = described.type
        if described.state is not None:
            self._call(type_.methods["__setstate__"], target, self._state(described))
            return
        for name, attribute in type_.attributes.items():
            set_slot(target, attribute, self.value(described.slots[name]))

    def _state(self, described: ObjectValue) -> Any:
        return None if described.state is None else self.value(described.state.value)
