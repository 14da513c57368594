"""Whose attributes and methods code of an archive may reach: objects of its own classes.

``unchecked_cast`` says of any value that it is of any type, and lists may be known under two
types. So an object is looked at where code names a member of it: no text of an archive reaches a
member of anything else that Python knows, be it a tensor, a class or a part of this library.

Modules that Python code put in the place of one of the archive are met as Python's own: by the
methods that their authors gave them, and by attributes of the declared types.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.ir.classes import Attribute, ClassType, Function
from tsarchive.ir.graph import Value
from tsarchive.ir.types import annotation

from .conversion import Mismatch, admitted
from .natives.table import type_fault
from .slots import (
    FINDERS,
    SlotKind,
    get_slot,
    hides_member,
    slot_kind,
)
from .typecheck import type_of_class


def is_certain(value: Value, function: Function) -> bool:
    """Whether no code can make a value be of another class: it is ``self``, or just created.

    Methods are called as such only, which looks at their ``self``. Hooks are functions to the code
    of an archive, which gives them what it likes.
    """
    if value.node.kind == "prim::CreateObject":
        return True
    type_ = value.type
    params = function.graph.params
    if not isinstance(type_, ClassType) or not params or params[0] is not value:
        return False
    return type_.methods.get(function.name) is function


def checked(value: Any, class_: type) -> Any:
    """``value``, if it is of ``class_``."""
    if isinstance(value, class_):
        return value
    raise refuse_receiver(value, type_of_class(class_))


def method_of(value: Any, class_: type, name: str, method: Callable[..., Any]) -> Any:
    """The function that runs for ``value.name(...)``: ``method``, if ``value`` is of ``class_``."""
    if isinstance(value, class_):
        return method
    if _stands_for(value, class_):
        return foreign_method(type(value), name)
    raise refuse_receiver(value, type_of_class(class_))


def read_slot(value: Any, class_: type, name: str) -> Any:
    """The slot ``name`` of ``value``, if it is of ``class_``."""
    owner = type_of_class(class_)
    assert isinstance(owner, ClassType)
    attribute = owner.attributes[name]
    if _stands_for(value, class_):
        return _foreign_slot(value, class_, attribute, slot_kind(owner, attribute))
    if not isinstance(value, class_):
        raise refuse_receiver(value, owner)
    find = FINDERS.get(slot_kind(owner, attribute))
    return get_slot(value, attribute) if find is None else find(value, name)


def is_foreign_module(class_: type) -> bool:
    """Whether objects of a class are modules that no archive defines."""
    return issubclass(class_, torch.nn.Module) and type_of_class(class_) is None


def _stands_for(value: Any, class_: type) -> bool:
    return issubclass(class_, torch.nn.Module) and is_foreign_module(type(value))


def _foreign_slot(
    module: torch.nn.Module, class_: Any, attribute: Attribute, kind: SlotKind
) -> Any:
    """The attribute of a foreign module with the name of a slot, as a value of its type."""
    name = attribute.name
    if kind in FINDERS:
        return FINDERS[kind](module, name)
    table = module._modules if kind is SlotKind.MODULE else module.__dict__
    if name not in table or hides_member(name, is_module=True):
        raise ScriptError(
            f"{type(module).__name__} has no attribute {name!r}",
            exception="builtins.AttributeError",
        )
    if kind is SlotKind.MODULE:
        return table[name]
    try:
        return class_.tsarchive_classes.table.converter(attribute.type)(table[name])
    except (Mismatch, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise type_fault(
            f"{name!r} of {type(module).__name__} is no {annotation(attribute.type)}"
        ) from error


def foreign_method(class_: type, name: str) -> Callable[..., Any]:
    """A method of a module that no archive defines.

    What torch itself defines is out of reach: a module of torch.jit, for one, can save itself.
    """
    owner = next((base for base in class_.__mro__ if name in vars(base)), object)
    found = vars(owner).get(name)
    is_free = not name.startswith("__") and owner.__module__.partition(".")[0] != "torch"
    if not (is_foreign_module(class_) and is_free and isinstance(found, FunctionType)):
        raise ScriptError(f"an object of {class_.__name__} has no method {name!r} to call")
    return lambda *arguments: admitted(found(*arguments))


def refuse_receiver(value: Any, wanted: Any) -> ScriptError:
    """The error for a value that is not of the class that the code expects."""
    shown = "an interface" if wanted is None else annotation(wanted)
    return type_fault(f"expected an object of {shown}, but found a {type(value).__name__}")
