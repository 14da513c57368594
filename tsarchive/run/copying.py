"""Copies and pickles of what an archive's classes make: modules, objects, members, named tuples.

Instances are copied by their state, as Python's are. Their classes cannot be imported by name, so
a pickle holds the code of the archive, once, and the names of classes in it.

Tensors copy themselves, with exceptions: parameters leave a storage that they share, conjugated
and negated views become plain, and some sparse layouts cannot be copied. ``deep_copy`` copies those
so that they stay what they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, SupportsIndex

import torch

from tsarchive.errors import SaveError
from tsarchive.ir.types import Type

Reduced = tuple[Any, ...]


class NamedClasses(Protocol):
    """The classes of an archive by name; copies of an object share it, pickles hold its origin."""

    def class_named(self, qualified_name: str) -> Any: ...


class Origin(Protocol):
    """The source of the classes of an archive, from which another process can make them."""

    def find(self, qualified_name: str) -> Type | None:
        """The class, enum or named tuple of that name."""

    def reduce(self) -> tuple[Callable[..., NamedClasses], tuple[Any, ...]]:
        """A function of a module that gives the classes again, and its arguments."""


class ClassReference:
    """Stands for a Python class of an archive in copies and pickles; unpickles as the class."""

    def __init__(self, class_: type, classes: NamedClasses, name: str) -> None:
        self.class_ = class_
        self._classes = classes
        self._name = name

    def __deepcopy__(self, memo: dict[int, Any]) -> type:
        return self.class_

    def __reduce__(self) -> Reduced:
        return _class_named, (self._classes, self._name)


def _class_named(classes: NamedClasses, qualified_name: str) -> Any:
    return classes.class_named(qualified_name)


def _class(given: ClassReference | type) -> Any:
    return given.class_ if isinstance(given, ClassReference) else given


def _new_instance(class_: ClassReference | type, *arguments: Any) -> Any:
    made = _class(class_)
    return made.__new__(made, *arguments)


def _member(class_: ClassReference | type, name: str) -> Any:
    return _class(class_)[name]


def reduce_instance(value: Any, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
    """The result of ``__reduce_ex__`` of an instance: its own state, and a way to its class.

    Raises SaveError for tensors that oneDNN packed, whose order is that of one processor.
    """
    if any(tensor.is_mkldnn for tensor in _tensors(vars(value))):
        raise SaveError(
            "oneDNN packed the weights of this module for this processor: they are not pickled",
            hint="Use tsarchive.save and tsarchive.load, which packs them again",
        )
    reduced = object.__reduce_ex__(value, max(int(protocol), 2))
    reference = vars(type(value)).get("tsarchive_reference")
    if not isinstance(reference, ClassReference) or isinstance(reduced, str):
        return reduced  # a class that was derived in Python
    _, (_, *arguments), *rest = reduced
    return (_new_instance, (reference, *arguments), *rest)


def reduce_member(member: Any, _protocol: int) -> Reduced:
    """The same for a member of an enum."""
    return _member, (type(member).tsarchive_reference, member.name)


def reduce_named_tuple(value: Any, _protocol: int) -> Reduced:
    """The same for a named tuple."""
    return _new_instance, (type(value).tsarchive_reference, *value)


def deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy of an object that is its attributes."""
    made = value.__class__.__new__(value.__class__)
    memo[id(value)] = made
    for tensor in _tensors(vars(value)):
        if id(tensor) not in memo and _needs_care(tensor):
            memo[id(tensor)] = _copied(tensor, memo)
    vars(made).update(copy.deepcopy(vars(value), memo))
    return made


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(item)


def _needs_care(tensor: torch.Tensor) -> bool:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.is_leaf:
        return False
    if tensor.is_meta or tensor.is_quantized:
        return False
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return is_parameter or tensor.is_conj() or tensor.is_neg() or tensor.layout != torch.strided


@torch.no_grad()
def _copied(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    if tensor.layout != torch.strided or not torch._C._has_storage(tensor):
        made = tensor.detach().clone()
        vars(made).update(copy.deepcopy(vars(tensor), memo))  # what a weight was packed for
    else:
        storage = copy.deepcopy(tensor.untyped_storage(), memo)
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        torch._C._set_conj(made, tensor.is_conj())
        torch._C._set_neg(made, tensor.is_neg())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)
