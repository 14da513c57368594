"""The base classes of archive objects, and calls of submodules from archive code.

Code of an archive calls the ``forward`` of a submodule directly. When Python code registered a
hook on that submodule, or put another module in its place, the call goes through
``torch.nn.Module.__call__`` instead.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from typing import Any, ClassVar, SupportsIndex

import torch
from torch.nn.modules import module as torch_module

from tsarchive.errors import CallError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.types import annotation

from .conversion import Mismatch, admitted
from .copying import deep_copy, reduce_instance
from .receivers import is_foreign_module, refuse_receiver

# torch keeps these tables for good, and changes what is in them.
_ALL_PRE_HOOKS = torch_module._global_forward_pre_hooks
_ALL_HOOKS = torch_module._global_forward_hooks
_ALL_BACKWARD_PRE_HOOKS = torch_module._global_backward_pre_hooks
_ALL_BACKWARD_HOOKS = torch_module._global_backward_hooks


_OVERLOAD = re.compile("forward__[0-9]+")


class _InternalCall(threading.local):
    """The call of a submodule that archive code in this thread is making."""

    def __init__(self) -> None:
        self.module: Any = None
        self.arguments: tuple[Any, ...] = ()
        self.method = "forward"


_internal = _InternalCall()


class ArchiveObject:
    """An instance of a script class. Slots that were never set read as None."""

    tsarchive_class: ClassVar[Any]
    tsarchive_classes: ClassVar[Any]
    tsarchive_settable: ClassVar[frozenset[str]] = frozenset()
    slot_keys: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> ArchiveObject:
        made = super().__new__(cls)
        made.__dict__.update(dict.fromkeys(cls.slot_keys))
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).tsarchive_settable:
            value = _converted(self, name, value)
        super().__setattr__(name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return reduce_instance(self, int(protocol))


class ArchiveModule(torch.nn.Module):
    """A module of an archive.

    Attributes that its class declares are converted when they are set, and refuse values of
    other types with a CallError. ``tsarchive_methods`` lists what can be called.

    ``tsarchive_class`` is its class as the archive defines it, ``tsarchive_classes`` what all
    classes of the archive share, ``original_name`` the name of the class it was scripted from.
    """

    tsarchive_class: ClassVar[Any]
    tsarchive_classes: ClassVar[Any]
    tsarchive_settable: ClassVar[frozenset[str]] = frozenset()
    original_name: ClassVar[str]

    @classmethod
    def tsarchive_methods(cls) -> dict[str, inspect.Signature]:
        """The methods of the archive that Python code can call, with their signatures."""
        members = vars(cls)
        names = (name for name in cls.tsarchive_class.methods if name in members)
        return {name: inspect.signature(getattr(cls, name)) for name in names}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).tsarchive_settable:
            # It stays a plain attribute, even if a parameter is set.
            object.__setattr__(self, name, _converted(self, name, value))
        else:
            super().__setattr__(name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return reduce_instance(self, int(protocol))


class HookedArchiveModule(ArchiveModule):
    """A module whose archive class has hooks of its own.

    ``module(...)`` runs them around those registered in Python; ``module.forward(...)`` runs
    neither, as in torch.
    """

    archive_pre_hooks: ClassVar[tuple[Callable[..., Any], ...]] = ()
    archive_hooks: ClassVar[tuple[Callable[..., Any], ...]] = ()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        metering = type(self).tsarchive_classes.enforcement.metering
        if metering is None or torch.compiler.is_compiling():
            return self._call_hooked(*arguments, **keywords)
        return metering.bounded(self._call_hooked)(*arguments, **keywords)

    def _call_hooked(self, *arguments: Any, **keywords: Any) -> Any:
        for hook in type(self).archive_pre_hooks:
            changed = hook(self, arguments)
            if changed is not None:
                arguments = changed if isinstance(changed, tuple) else (changed,)
        result = super().__call__(*arguments, **keywords)
        for hook in type(self).archive_hooks:
            changed = hook(self, arguments, result)
            if changed is not None:
                result = changed
        return result


def _converted(owner: ArchiveModule | ArchiveObject, name: str, value: Any) -> Any:
    type_ = owner.tsarchive_class.attributes[name].type
    try:
        return owner.tsarchive_classes.table.converter(type_)(value)
    except (Mismatch, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise CallError(
            f"the attribute {name!r} of {type(owner).__name__} takes a value of type "
            f"{annotation(type_)!r}, not {type(value).__name__!r}"
        ) from error


def is_plain(module: Any, class_: type) -> bool:
    """Whether ``module`` is exactly of this class, and has no hooks."""
    if type(module) is not class_:
        return False
    members = module.__dict__
    # This runs before each call of a submodule, so it has no loop over the tables.
    return not (
        members["_forward_hooks"]
        or members["_forward_pre_hooks"]
        or members["_backward_hooks"]
        or members["_backward_pre_hooks"]
        or "forward" in members
        or _ALL_HOOKS
        or _ALL_PRE_HOOKS
        or _ALL_BACKWARD_HOOKS
        or _ALL_BACKWARD_PRE_HOOKS
    )


def call_module(module: Any, *arguments: Any, method: str = "forward") -> Any:
    """Call a submodule with its Python hooks; archive code calls the archive's hooks itself.

    ``method`` names the overload of ``forward``: torch numbers them.
    """
    if not isinstance(module, ArchiveModule):
        if not is_foreign_module(type(module)):
            raise refuse_receiver(module, None)
        return admitted(module(*arguments))
    around = _internal.module, _internal.arguments, _internal.method
    _internal.module, _internal.arguments, _internal.method = module, arguments, method
    try:
        return admitted(torch.nn.Module.__call__(module, *arguments))
    finally:
        _internal.module, _internal.arguments, _internal.method = around


def internal_method() -> str:
    """The overload of ``forward`` that archive code is calling."""
    return _internal.method


def is_internal_call(module: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether archive code calls ``forward`` with these very arguments, and no hook others.

    They need no conversion then, and lists are shared with the caller.
    """
    given = _internal.arguments
    if _internal.module is not module or len(arguments) != len(given):
        return False
    return all(one is other for one, other in zip(arguments, given, strict=True))


def forward_overloads(class_: ClassType) -> list[Function]:
    """The overloads of ``forward`` in a module class; none where it has the method itself."""
    if "forward" in class_.methods:
        return []
    return [method for name, method in class_.methods.items() if is_forward(class_, name)]


def is_forward(class_: ClassType, method: str) -> bool:
    """Whether hooks of Python code run around calls of this method."""
    is_overload = "forward" not in class_.methods and _OVERLOAD.fullmatch(method) is not None
    return class_.is_module and (method == "forward" or is_overload)
