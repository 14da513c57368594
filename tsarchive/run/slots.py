"""The places in Python objects for the attributes ("slots") of archive objects.

Parameters, buffers and submodules of a module stand in the tables of ``torch.nn.Module``, every
other slot in the instance dictionary under its own name. Archives may use any text as a name, and
``torch.nn.Module`` has members of its own. A slot whose name is no identifier or would hide a
member is kept under ``"slot:" + name``: reach it with ``get_slot``.

The names are the archive's, so slots are items of these tables and never attributes: a table has
what was put into it, an attribute may be anything that Python knows.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import torch

from tsarchive.errors import ScriptError
from tsarchive.ir.classes import Attribute, ClassType, InterfaceType
from tsarchive.ir.names import is_identifier
from tsarchive.ir.types import NONE, TENSOR, ListType, OptionalType

from .conversion import type_of_class
from .natives.table import fault

_PREFIX: Final = "slot:"
OWN_PREFIX: Final = "tsarchive_"
"""Members of this library begin so: no text of an archive names them."""
_LINKS: Final = "links:"
SHARED_SLOTS = frozenset({"training", "_is_full_backward_hook"})
"""Members of torch.nn.Module that are slots of every module saved by TorchScript."""
INHERITED: Final = {
    True: (frozenset(dir(torch.nn.Module)) | torch.nn.Module().__dict__.keys()) - SHARED_SLOTS,
    False: frozenset(dir(object)),
}
"""Other members that modules have, and that objects have which are none."""


class SlotKind(enum.Enum):
    """The table of a module that holds a slot; the value is the member's name."""

    PARAMETER = "_parameters"
    BUFFER = "_buffers"
    MODULE = "_modules"
    PLAIN = "__dict__"


_MAY_HOLD_TENSORS: Final = (TENSOR, OptionalType(TENSOR), NONE)
_TENSOR_LIST: Final = ListType(TENSOR)
_LONG_NAME: Final = 64


def slot_kind(owner: ClassType, attribute: Attribute) -> SlotKind:
    if not owner.is_module:
        return SlotKind.PLAIN
    if isinstance(attribute.type, (ClassType, InterfaceType)) and attribute.type.is_module:
        return SlotKind.MODULE
    if (attribute.is_parameter or attribute.is_buffer) and attribute.type in _MAY_HOLD_TENSORS:
        return SlotKind.PARAMETER if attribute.is_parameter else SlotKind.BUFFER
    return SlotKind.PLAIN


def slot_key(owner: ClassType, name: str) -> str:
    """The key of a plain slot in the instance dictionary."""
    is_free = is_identifier(name) and not hides_member(name, is_module=owner.is_module)
    return name if is_free and name not in owner.methods else _PREFIX + name


def slot_place(owner: ClassType, attribute: Attribute) -> tuple[SlotKind, str]:
    """Return the table of a slot, and its key there."""
    kind = slot_kind(owner, attribute)
    return kind, slot_key(owner, attribute.name) if kind is SlotKind.PLAIN else attribute.name


def hides_member(name: str, *, is_module: bool) -> bool:
    """Return whether Python, torch.nn.Module or this library has a member of that name."""
    find = _hides_member if len(name) <= _LONG_NAME else _hides_member.__wrapped__
    return find(name, is_module)


# The same names occur in every class; long ones are not worth caching.
@lru_cache(maxsize=4096)
def _hides_member(name: str, is_module: bool) -> bool:
    if is_dunder(name) or is_special(name):
        return True
    return name.startswith(OWN_PREFIX) or name in INHERITED[is_module]


def is_dunder(name: str) -> bool:
    """Return whether Python itself gives a name its meaning."""
    return name.startswith("__") and name.endswith("__")


def is_special(name: str) -> bool:
    """Return whether tools may call what has this name, as notebooks do ``_repr_html_``."""
    return not is_dunder(name) and name.startswith("_") and name.endswith("_")


def set_slot(target: Any, attribute: Attribute, value: Any) -> None:
    """Put ``value`` into a slot; tensors of parameter slots become ``torch.nn.Parameter``."""
    put_into_slot(target, *slot_place(_owner(target), attribute), value)


def put_into_slot(target: Any, kind: SlotKind, key: str, value: Any) -> None:
    """Do what :func:`set_slot` does, for a slot whose place is known."""
    if kind is SlotKind.PARAMETER and value is not None:
        value = as_parameter(value)
    getattr(target, kind.value)[key] = value


class ClassSlots:
    """The slots of a class and their places, for all objects of it that a file has."""

    def __init__(self, owner: ClassType) -> None:
        attributes = owner.attributes.values()
        self.places = [(attribute, *slot_place(owner, attribute)) for attribute in attributes]
        self.has_lists = any(holds_list(owner, attribute) for attribute in attributes)


def get_slot(target: Any, attribute: Attribute) -> Any:
    """The value in a slot. Raises KeyError when the slot was never set."""
    owner = _owner(target)
    kind, key = slot_place(owner, attribute)
    is_list = holds_list(owner, attribute)
    return find_list(target, key) if is_list else getattr(target, kind.value)[key]


def unset_slots(target: torch.nn.Module) -> None:
    """Let slots that are not set read as None, as in torch, until ``__setstate__`` sets them."""
    owner = _owner(target)
    for attribute in owner.attributes.values():
        kind, key = slot_place(owner, attribute)
        getattr(target, kind.value).setdefault(key, None)


def find_parameter(module: torch.nn.Module, name: str) -> Any:
    """The parameter of a module, wherever Python code has put it."""
    try:
        return module._parameters[name]
    except KeyError:
        return _find_elsewhere(module, name)


def find_buffer(module: torch.nn.Module, name: str) -> Any:
    """Like ``find_parameter``, for a buffer."""
    try:
        return module._buffers[name]
    except KeyError:
        return _find_elsewhere(module, name)


FINDERS: Final[dict[SlotKind, Callable[[Any, str], Any]]] = {
    SlotKind.PARAMETER: find_parameter,
    SlotKind.BUFFER: find_buffer,
}
"""The functions that find the tensor of a slot."""


def _find_elsewhere(module: torch.nn.Module, name: str) -> torch.Tensor:
    """A tensor that Python code has taken out of its table.

    Weight norm, pruning and replicas leave it among the attributes of the object, parametrizations
    behind a property of a class that they derive.
    """
    found = module.__dict__.get(name)
    for class_ in type(module).__mro__:
        if isinstance(found, torch.Tensor) or "tsarchive_class" in class_.__dict__:
            break
        member = class_.__dict__.get(name)
        found = member.fget(module) if isinstance(member, property) and member.fget else None
    if not isinstance(found, torch.Tensor):
        raise fault(AttributeError, f"{type(module).__name__} has no tensor {name!r}")
    return found


def as_tensor(value: Any) -> torch.Tensor | None:
    """``value``, which goes into a table of tensors."""
    if value is None or isinstance(value, torch.Tensor):
        return value
    raise fault(TypeError, f"expected a Tensor, but found a {type(value).__name__}")


def as_submodule(value: Any) -> torch.nn.Module | None:
    """``value``, which goes into the table of submodules."""
    if value is None or isinstance(value, torch.nn.Module):
        return value
    raise fault(TypeError, f"expected a module, but found a {type(value).__name__}")


def holds_list(owner: ClassType, attribute: Attribute) -> bool:
    """Return whether a slot is a list of tensors, which may hold parameters of its module."""
    return owner.is_module and attribute.type == _TENSOR_LIST


def link_lists(module: Any) -> None:
    """Note which items of lists are parameters of the same module, as those of ``nn.LSTM`` are.

    Such a list follows when Python code replaces a parameter, as in eager modules. To be called
    when all slots are set.
    """
    owner = _owner(module)
    lists = [attribute for attribute in owner.attributes.values() if holds_list(owner, attribute)]
    if lists:
        names = {id(t): name for name, t in module._parameters.items() if t is not None}
        for attribute in lists:
            key = slot_key(owner, attribute.name)
            items = enumerate(module.__dict__.get(key) or ())
            links = [(i, names[id(item)], item) for i, item in items if id(item) in names]
            if links:
                module.__dict__[_LINKS + key] = links


def find_list(module: torch.nn.Module, key: str) -> Any:
    """A list of tensors, with the present parameters of the module in it."""
    items = module.__dict__[key]
    links = module.__dict__.get(_LINKS + key, ())
    if all(module._parameters.get(name) is tensor for _, name, tensor in links):
        return items
    found = list(items)
    for index, name, tensor in links:
        if index < len(found) and found[index] is tensor:
            found[index] = _present(module, name, tensor)
    return found


def _present(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> Any:
    """The parameter that has replaced ``tensor``; ``tensor`` itself if it was removed."""
    try:
        return find_parameter(module, name)
    except ScriptError:
        return tensor


def _owner(target: Any) -> ClassType:
    owner = type_of_class(target.__class__)  # that of the object behind a weak reference
    assert isinstance(owner, ClassType)
    return owner


def as_parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    """``tensor`` itself, turned into a parameter.

    It stays the same object, because other slots and lists may hold it too and have to follow
    when an optimizer or ``module.to`` changes it.
    """
    if isinstance(tensor, torch.nn.Parameter):
        return tensor
    if type(tensor) is torch.Tensor and tensor.is_leaf:
        tensor.__class__ = torch.nn.Parameter
        return tensor  # type: ignore[return-value]  # the line above made it one
    return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
