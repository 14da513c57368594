"""How generated code reaches the attributes and methods of archive objects.

Parameters, buffers and submodules keep their names, which state dicts show. Where such a name is
no identifier, or means something to ``torch.nn.Module``, the table that holds it is used instead.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Container, Iterable
from functools import cache
from typing import Any

import torch

from tsarchive.ir.classes import ClassType, Function, InterfaceType
from tsarchive.ir.names import is_identifier
from tsarchive.ir.types import BOOL, FLOAT, INT, STRING, DictType, ListType
from tsarchive.run.slots import SlotKind, slot_kind

from . import syntax
from .naming import identifier

_SHARED = frozenset({"training", "_is_full_backward_hook"})
_OF_MODULES = (frozenset(dir(torch.nn.Module)) | torch.nn.Module().__dict__.keys()) - _SHARED
_OF_OBJECTS = frozenset(dir(object))
OF_CONTAINERS = frozenset({"__len__", "__contains__"})
"""Methods that torch's containers of modules have themselves."""

_GETTER_END = "_getter"
_GETTER = re.compile(f"__(.+){_GETTER_END}")
_ACCESSOR = re.compile("__.+_(getter|setter)")
_STATE_METHODS = {"__getstate__": "archive_getstate", "__setstate__": "archive_setstate"}


def is_plain(name: str) -> bool:
    """Whether the name can stand behind a dot."""
    return is_identifier(name) and not keyword.iskeyword(name) and not _is_private(name)


def _is_private(name: str) -> bool:
    """Python changes such names inside of classes."""
    return name.startswith("__") and not name.endswith("__")


def is_accessor(name: str) -> bool:
    """Whether a method of an archive gets or sets a property."""
    return _ACCESSOR.fullmatch(name) is not None


class Members:
    """The names that the members of one class have in Python."""

    def __init__(self, class_: ClassType) -> None:
        self.class_ = class_
        self._inherited = _OF_MODULES if class_.is_module else _OF_OBJECTS
        self._methods: dict[str, str] = {}
        self._slots: dict[str, str] = {}
        hooks = [hook.name for hook in class_.hooks()]
        self._properties = _properties(class_, self._inherited)
        self._methods |= self._properties
        taken = {*class_.methods, *class_.attributes, *self._properties.values()}
        for name in (*class_.methods, *hooks):
            self._methods.setdefault(name, self._fitting(name, taken, is_method=True))
        for name in class_.attributes:
            self._slots[name] = self._fitting(name, taken, is_method=False)

    def _fitting(self, name: str, taken: set[str], *, is_method: bool) -> str:
        found = _STATE_METHODS.get(name, name) if is_method else name
        if is_method and self._is_syntax(found):
            return found
        hidden = self._inherited if found != "forward" else frozenset()
        if is_plain(found) and found not in hidden and (is_method or found not in self._methods):
            return found
        found = method_name(name, is_module=self.class_.is_module) if is_method else found
        found = identifier(found, private=False)
        while (found in taken and found != name) or found in self._inherited:
            found += "_"
        taken.add(found)
        return found

    def _is_syntax(self, name: str) -> bool:
        is_special = name.startswith("__") and name.endswith("__") and is_identifier(name)
        return is_special and (name not in _OF_MODULES or not self.class_.is_module)

    def constants(self) -> dict[str, Any]:
        """The constants that can be attributes, with their values."""
        return {
            name: constant.value
            for name, constant in self.class_.constants.items()
            if is_plain(name) and name not in self._names()
        }

    def _names(self) -> set[str]:
        return {*self._inherited, *self._slots, *self._methods, *self._properties.values()}

    def is_getter(self, name: str) -> bool:
        return name in self._properties and name.endswith(_GETTER_END)

    def is_setter(self, name: str) -> bool:
        return name in self._properties and not name.endswith(_GETTER_END)

    def method(self, name: str) -> str:
        return self._methods[name]

    def slot(self, name: str) -> str:
        return self._slots[name]

    def kind(self, name: str) -> SlotKind:
        return slot_kind(self.class_, self.class_.attributes[name])

    def is_direct(self, name: str) -> bool:
        """Whether a slot is an attribute of Python, not an entry of a table only."""
        return self.kind(name) is SlotKind.PLAIN or self._slots[name] == name

    def reach(self, base: ast.expr, name: str) -> ast.expr:
        """The expression for the slot ``name`` of the object ``base``."""
        kind = self.kind(name)
        if kind is SlotKind.MODULE and container_base(self.class_) is not None:
            return syntax.subscript(base, syntax.literal(int(name)))
        if self.is_direct(name):
            return syntax.attribute(base, self._slots[name])
        return syntax.subscript(syntax.attribute(base, kind.value), syntax.string(name))


def _properties(class_: ClassType, inherited: Container[str]) -> dict[str, str]:
    """The methods that get and set properties, by which an archive knows them, with their names.

    A module takes tensors that are assigned to it for parameters: there a setter of tensors, and
    its getter, stay methods.
    """
    found = {}
    for getter in class_.methods:
        match = _GETTER.fullmatch(getter)
        name = match[1] if match else ""
        if not is_plain(name) or name in inherited or name in class_.attributes:
            continue
        setter = class_.methods.get(f"__{name}_setter")
        if name in class_.methods or (setter and class_.is_module and _takes_tensor(setter)):
            continue
        found[getter] = name
        if setter:
            found[setter.name] = name
    return found


def _takes_tensor(setter: Function) -> bool:
    type_ = setter.schema.arguments[-1].type
    return type_ not in (INT, FLOAT, BOOL, STRING) and not isinstance(type_, ListType | DictType)


def method_name(name: str, *, is_module: bool) -> str:
    """The name of a method that torch.nn.Module has not, as all classes of an interface give it."""
    return f"{name}_" if is_module and name != "forward" and name in _OF_MODULES else name


@cache
def members_of(class_: ClassType) -> Members:
    return Members(class_)


@cache
def container_base(class_: ClassType) -> str | None:
    """``Sequential`` or ``ModuleList`` for a class of submodules that are only numbered."""
    names = _submodules(class_)
    if not names or names != [str(index) for index in range(len(names))]:
        return None
    if class_.forward_hooks or class_.forward_pre_hooks:
        return None
    others = set(class_.attributes) - set(names) - _SHARED
    if others or set(class_.methods) - OF_CONTAINERS - {"forward"}:
        return None
    return "Sequential" if "forward" in class_.methods else "ModuleList"


def _submodules(class_: ClassType) -> list[str]:
    slots: Iterable[str] = class_.attributes
    return [
        name
        for name in slots
        if slot_kind(class_, class_.attributes[name]) is SlotKind.MODULE
        and isinstance(class_.attributes[name].type, ClassType | InterfaceType)
    ]
