"""Whose attributes and methods code of an archive may reach: objects of its own classes.

``unchecked_cast`` says of any value that it is of any type, and lists may be known under two
types. So an object is looked at where code names a member of it: no text of an archive reaches a
member of anything else that Python knows, be it a tensor, a class or a part of this library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.printer.graph import Function, Value
from tsarchive.printer.types import ClassType, annotation

from .natives.faults import type_fault
from .typecheck import type_of_class

__all__ = ["checked", "foreign_method", "is_certain", "is_foreign_module", "refuse_receiver"]

_MEMBERS_OF_MODULES = frozenset(dir(torch.nn.Module))


def is_certain(value: Value, function: Function) -> bool:
    """Whether a value of a class is one of that class, whatever code there is: ``self``, made."""
    if value.node.kind == "prim::CreateObject":
        return True
    type_ = value.type
    params = function.graph.params
    if not isinstance(type_, ClassType) or not params or params[0] is not value:
        return False
    if type_.methods.get(function.name) is function:
        return True
    return any(hook is function for hook in type_.hooks())


def checked(value: Any, class_: type) -> Any:
    """``value``, if it is of ``class_``, or a module that Python code put in the place of one."""
    if isinstance(value, class_):
        return value
    if issubclass(class_, torch.nn.Module) and is_foreign_module(type(value)):
        return value
    raise refuse_receiver(value, type_of_class(class_))


def is_foreign_module(class_: type) -> bool:
    """Whether objects of a class are modules that no archive defines."""
    return issubclass(class_, torch.nn.Module) and type_of_class(class_) is None


def foreign_method(class_: type, name: str) -> Callable[..., Any]:
    """The method that an interface names, of a module that no archive defines.

    What every module inherits is out of reach, but for ``forward``.
    """
    is_own = name == "forward" or name not in _MEMBERS_OF_MODULES
    found: Callable[..., Any] | None = None
    if is_own and not name.startswith("__"):
        found = getattr(class_, name, None)
    if found is None or not is_foreign_module(class_):
        raise ScriptError(f"an object of {class_.__name__} has no method {name!r} to call")
    return found


def refuse_receiver(value: Any, wanted: Any) -> ScriptError:
    """The error for a value that is none of the class that the code says."""
    shown = "an interface" if wanted is None else annotation(wanted)
    return type_fault(f"expected an object of {shown}, but found a {type(value).__name__}")
