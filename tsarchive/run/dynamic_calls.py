"""Functions and contexts that generated source calls beside operators.

torch.jit knows the class of ``with torch.autocast(...)`` by its name, whose own ``__enter__`` and
``__exit__`` do nothing, and inserts the casts in a pass. Here the dispatcher makes them, as it does
in eager code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import Type

from .linkage import LazyFunction, Linkage
from .modules import call_module, foreign_method, is_foreign_module, is_plain, refuse_receiver
from .natives.conversions import to_dtype
from .packed import call_method
from .slots import get_slot
from .typecheck import type_of_class

_CLASSES = frozenset(
    f"__torch__.torch.{part}amp.autocast_mode.autocast" for part in ("", "cpu.", "cuda.")
)
_DEVICE, _DTYPE, _ENABLED = "device", "fast_dtype", "_enabled"


def is_autocast(type_: Type) -> bool:
    """Return whether objects of this type switch casts on and off; copies of the class do not."""
    return (
        isinstance(type_, ClassType)
        and type_.qualified_name in _CLASSES
        and {_DEVICE, _DTYPE, _ENABLED} <= type_.attributes.keys()
    )


def autocast(manager: Any) -> torch.autocast:
    """The context that ``manager``, an object of such a class, stands for."""
    type_ = type_of_class(type(manager))
    assert isinstance(type_, ClassType)
    device, dtype, enabled = (
        get_slot(manager, type_.attributes[name]) for name in (_DEVICE, _DTYPE, _ENABLED)
    )
    # Without CUDA there is nothing that casts for it could change; torch would warn each time.
    is_usable = device != "cuda" or torch.cuda.is_available()
    return torch.autocast(device, dtype=to_dtype(dtype), enabled=enabled and is_usable)


def unpack_list(values: list[Any], count: int) -> list[Any]:
    """``values``, which must have ``count`` items."""
    if len(values) != count:
        raise ScriptError(f"Expected {count} elements in a list but found {len(values)}")
    return values


@dataclass(eq=False)
class NativeCall:
    """Calls a method of an object of a class bound from C++."""

    type: ClassType
    name: str

    def __call__(self, receiver: Any, *arguments: Any) -> Any:
        is_native = isinstance(receiver, torch.ScriptObject)
        if not is_native or receiver._type().annotation_str != self.type.qualified_name:
            raise refuse_receiver(receiver, self.type)
        return call_method(self.type.qualified_name, self.name, receiver, arguments)


class DynamicCall:
    """Calls a method of an interface: the class of the object decides which function runs."""

    def __init__(self, name: str, linkage: Linkage) -> None:
        self.name = name
        self._linkage = linkage
        self._known: dict[type, Callable[..., Any]] = {}

    def __call__(self, receiver: Any, *arguments: Any) -> Any:
        class_ = receiver.__class__
        function = self._known.get(class_)
        if function is None:
            function = self._known[class_] = self._find(class_)
        is_module = issubclass(class_, torch.nn.Module)
        if is_module and self.name == "forward" and not is_plain(receiver, class_):
            function = call_module
        return function(receiver, *arguments)

    def candidates(self) -> list[LazyFunction]:
        """The methods of this name of all classes that there are; calls find them from now on."""
        found = {
            class_: self._linkage.function(type_.methods[self.name])
            for class_, type_ in self._linkage.table.module_classes()
            if self.name in type_.methods
        }
        self._known.update(found)
        return list(found.values())

    def _find(self, class_: type) -> Callable[..., Any]:
        type_ = type_of_class(class_)
        if isinstance(type_, ClassType) and self.name in type_.methods:
            return self._linkage.function(type_.methods[self.name])
        # A module that Python code put in the place of one of the archive.
        if self.name == "forward" and is_foreign_module(class_):
            return call_module
        return foreign_method(class_, self.name)
