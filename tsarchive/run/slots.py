"""Where the attributes ("slots") of archive objects are kept in Python objects.

Parameters, buffers and submodules of a module stand in the tables of ``torch.nn.Module``, every
other slot in the instance dictionary under its own name. Archives may use any text as a name, and
``torch.nn.Module`` has members of its own. A slot whose name is no identifier or would hide a
member is kept under ``"slot:" + name``: reach it with ``get_slot``.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import torch

from tsarchive.printer.names import is_identifier
from tsarchive.printer.types import (
    NONE,
    TENSOR,
    Attribute,
    ClassType,
    InterfaceType,
    ListType,
    OptionalType,
    Type,
)

from .typecheck import type_of_class

__all__ = [
    "OWN_PREFIX",
    "SlotKind",
    "find_buffer",
    "find_list",
    "find_parameter",
    "get_slot",
    "hides_member",
    "holds_list",
    "is_dunder",
    "link_lists",
    "set_slot",
    "slot_key",
    "slot_kind",
]

_PREFIX: Final = "slot:"
OWN_PREFIX: Final = "tsarchive_"
"""Members of this library begin so: no text of an archive names them."""
_LINKS: Final = "links:"
# Members of torch.nn.Module that are slots of every module saved by TorchScript.
_SHARED = frozenset({"training", "_is_full_backward_hook"})
_MEMBERS_OF_MODULES = (
    frozenset(dir(torch.nn.Module)) | torch.nn.Module().__dict__.keys()
) - _SHARED
_MEMBERS_OF_OBJECTS = frozenset(dir(object))


class SlotKind(enum.Enum):
    """The table of a module that holds a slot; the value is the member's name."""

    PARAMETER = "_parameters"
    BUFFER = "_buffers"
    MODULE = "_modules"
    PLAIN = "__dict__"


def slot_kind(owner: ClassType, attribute: Attribute) -> SlotKind:
    if not owner.is_module:
        return SlotKind.PLAIN
    if _is_module_type(attribute.type):
        return SlotKind.MODULE
    if _holds_tensor(attribute.type):
        if attribute.is_parameter:
            return SlotKind.PARAMETER
        if attribute.is_buffer:
            return SlotKind.BUFFER
    return SlotKind.PLAIN


def _is_module_type(type_: Type) -> bool:
    return isinstance(type_, ClassType | InterfaceType) and type_.is_module


def _holds_tensor(type_: Type) -> bool:
    return type_ in (TENSOR, NONE, OptionalType(TENSOR))


def slot_key(owner: ClassType, name: str) -> str:
    """The key of a plain slot in the instance dictionary."""
    is_free = is_identifier(name) and not hides_member(name, is_module=owner.is_module)
    return name if is_free and name not in owner.methods else _PREFIX + name


def hides_member(name: str, *, is_module: bool) -> bool:
    """Whether Python, torch.nn.Module or this library keeps something else under that name."""
    members = _MEMBERS_OF_MODULES if is_module else _MEMBERS_OF_OBJECTS
    return is_dunder(name) or name.startswith(OWN_PREFIX) or name in members


def is_dunder(name: str) -> bool:
    """Whether a name is one of those that Python itself gives a meaning."""
    return name.startswith("__") and name.endswith("__")


def set_slot(target: Any, attribute: Attribute, value: Any) -> None:
    """Put ``value`` into a slot; tensors of parameter slots become ``torch.nn.Parameter``."""
    owner = _owner(target)
    kind = slot_kind(owner, attribute)
    if kind is SlotKind.PLAIN:
        target.__dict__[slot_key(owner, attribute.name)] = value
        return
    if kind is SlotKind.PARAMETER and value is not None:
        value = as_parameter(value)
    getattr(target, kind.value)[attribute.name] = value


def get_slot(target: Any, attribute: Attribute) -> Any:
    """The value in a slot. Raises KeyError when the slot was never set."""
    owner = _owner(target)
    kind = slot_kind(owner, attribute)
    if kind is not SlotKind.PLAIN:
        return getattr(target, kind.value)[attribute.name]
    key = slot_key(owner, attribute.name)
    return find_list(target, key) if holds_list(owner, attribute) else target.__dict__[key]


def find_parameter(module: torch.nn.Module, name: str) -> Any:
    """The parameter of a module, wherever Python code has put it.

    Parametrizations, weight norm, pruning and replicas take it out of its table and leave an
    attribute.
    """
    try:
        return module._parameters[name]
    except KeyError:
        return getattr(module, name)


def find_buffer(module: torch.nn.Module, name: str) -> Any:
    """Like ``find_parameter``, for a buffer."""
    try:
        return module._buffers[name]
    except KeyError:
        return getattr(module, name)


def holds_list(owner: ClassType, attribute: Attribute) -> bool:
    """Whether a slot is a list of tensors, which may hold parameters of its module as well."""
    return owner.is_module and attribute.type == ListType(TENSOR)


def link_lists(module: Any) -> None:
    """Note which items of lists are parameters of the same module, as those of ``nn.LSTM`` are.

    Such a list follows when Python code puts another parameter in the place of one, as it does
    in eager modules. To be called when all slots are set.
    """
    owner = _owner(module)
    names = {id(tensor): name for name, tensor in module._parameters.items() if tensor is not None}
    for attribute in owner.attributes.values():
        if holds_list(owner, attribute):
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
            found[index] = getattr(module, name, tensor)
    return found


def _owner(target: Any) -> ClassType:
    owner = type_of_class(type(target))
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
