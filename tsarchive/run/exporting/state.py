"""What a call assigns to the attributes of a module, which a traced program does not do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tsarchive.run.modules import ArchiveModule, ArchiveObject

_PLAIN: Final = (bool, int, float, str, type(None))


@contextmanager
def watching(module: nn.Module) -> Iterator[list[str]]:
    """Give a list that will hold the attributes that the last call has left with other values.

    Tensors that are written in place are the same values: programs have such writes.
    """
    changed: list[str] = []
    before: dict[str, Any] = {}

    def begin(*_: Any) -> None:
        before.clear()
        before.update(_attributes(module))

    def end(*_: Any) -> None:
        after = dict(_attributes(module))
        changed[:] = [
            name for name, value in after.items() if not _is_same(value, before.get(name, _ABSENT))
        ]

    hooks = [module.register_forward_pre_hook(begin), module.register_forward_hook(end)]
    try:
        yield changed
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def keeping_tensors(module: nn.Module) -> Iterator[None]:
    """Leave tensors that are attributes, not parameters or buffers, as they are: a tracer writes
    to them."""
    registered = chain(
        module.named_parameters(remove_duplicate=False),
        module.named_buffers(remove_duplicate=False),
    )
    state = {name for name, _ in registered}
    leaves = tree_leaves([value for name, value in _attributes(module) if name not in state])
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not leaf.is_inference()]
    kept = [(tensor, tensor._version, tensor.detach().clone()) for tensor in tensors]
    with_gradients = {id(tensor) for tensor in tensors if tensor.requires_grad}
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, version, before in kept:
                if tensor._version != version:
                    tensor.copy_(before)
                if tensor.requires_grad and id(tensor) not in with_gradients:
                    tensor.detach_()


@contextmanager
def keeping_attributes(module: nn.Module) -> Iterator[None]:
    """Leave attributes of modules and of objects in them, and items of lists and dicts, as they
    are: an export puts others in their place, and copies of lists and dicts."""
    tables = ((part._parameters, part._buffers) for part in module.modules())
    holders: list[Any] = [*chain.from_iterable(tables), *_holders(module)]
    kept = [(holder, _places(holder)) for holder in holders]
    try:
        yield
    finally:
        for holder, places in kept:
            _put_back(holder, places)


def _put_back(holder: Any, places: Sequence[tuple[Any, Any]]) -> None:
    """Let a list or dict have the items that it had."""
    if isinstance(holder, list):
        holder[:] = [value for _, value in places]
    elif [(key, id(value)) for key, value in holder.items()] != [(k, id(v)) for k, v in places]:
        holder.clear()
        holder.update(places)


@contextmanager
def following_state(module: nn.Module) -> Iterator[None]:
    """Let lists, dicts and attributes that hold a parameter or buffer, or a tuple with one, hold,
    during calls, what a tracer has put in its place, so that a program sees one tensor in both."""
    registered = {
        id(tensor): (part, name)
        for part in module.modules()
        for name, tensor in chain(part._parameters.items(), part._buffers.items())
        if tensor is not None
    }
    shared = [
        (holder, key, value)
        for holder in _holders(module)
        for key, value in _places(holder)
        if any(id(tensor) in registered for tensor in _tensors_of(value))
    ]
    originals: dict[int, Tensor] = {}

    def current(tensor: Tensor) -> Tensor:
        if id(tensor) not in registered:
            return tensor
        found: Tensor = getattr(*registered[id(tensor)])
        originals[id(found)] = tensor
        return found

    def begin(*_: Any) -> None:
        for holder, key, value in shared:
            holder[key] = _with_tensors(value, current)

    def end(*_: Any) -> None:
        for holder in [place[0] for place in shared]:
            for key, value in _places(holder):
                holder[key] = _with_tensors(value, lambda each: originals.get(id(each), each))
        originals.clear()

    hooks = [
        module.register_forward_pre_hook(begin),
        module.register_forward_hook(end, prepend=True, always_call=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tensors_of(value: Any) -> Iterator[Tensor]:
    """Yield a tensor, or those of a tuple and of tuples in it."""
    if isinstance(value, Tensor):
        yield value
    for item in value if isinstance(value, tuple) else ():
        yield from _tensors_of(item)


def _with_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a value with others in the place of its :func:`_tensors_of`."""
    if isinstance(value, Tensor):
        return change(value)
    if not any(change(tensor) is not tensor for tensor in _tensors_of(value)):
        return value
    items = [_with_tensors(item, change) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _holders(module: nn.Module) -> Iterator[Any]:
    """Yield what has the attributes of modules and of objects in them, and lists and dicts."""
    for part in module.modules():
        if isinstance(part, ArchiveModule):
            yield vars(part)
    for value in _holding(module.modules()):
        yield vars(value) if isinstance(value, ArchiveObject) else value


def _places(holder: Any) -> list[tuple[Any, Any]]:
    return [*(holder.items() if isinstance(holder, dict) else enumerate(holder))]


class Snapshot:
    """The attributes of a module, and the containers and objects among some values, as they are."""

    def __init__(self, module: nn.Module, values: Sequence[Any]) -> None:
        self._found = dict(_attributes(module))
        for value in values:
            if isinstance(value, (list, tuple, dict, ArchiveObject)):
                self._found.update(_values(f"a {type(value).__name__} {id(value)}", value))

    def changed(self, after: Snapshot) -> list[str]:
        """The names of what is another value later."""
        found = after._found
        names = (
            name for name, value in found.items()
            if not _is_same(value, self._found.get(name, _ABSENT))
        )  # fmt: skip
        return [*dict.fromkeys(_NUMBER.sub("", name) for name in names)]


_NUMBER: Final = re.compile(r" \d+(?=$|\.)")
_ABSENT: Final = object()


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of all attributes of archive modules, and of objects in them."""
    for path, part in module.named_modules():
        if isinstance(part, ArchiveModule):
            for name in part.tsarchive_class.attributes:
                dotted = f"{path}.{name}" if path else name
                yield from _values(dotted, getattr(part, name, _ABSENT))


def containers_in(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the lists and dicts in values, in other containers and in attributes, each time that
    they are met."""
    return (value for value in _holding(values) if isinstance(value, (list, dict)))


def _holding(values: Iterable[Any]) -> Iterator[Any]:
    """Yield lists, dicts and objects in values, in other containers and in attributes."""
    for value in values:
        if isinstance(value, (list, dict, ArchiveObject)):
            yield value
        yield from _holding(_items(value))


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    if not isinstance(value, ArchiveModule | ArchiveObject):
        return ()
    found = (getattr(value, name, None) for name in value.tsarchive_class.attributes)
    return [each for each in found if not isinstance(each, nn.Module)]


def _values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, nn.Module):
        return
    if isinstance(value, ArchiveObject):
        for inner in value.tsarchive_class.attributes:
            yield from _values(f"{name}.{inner}", getattr(value, inner, _ABSENT))
        return
    yield name, _kept(value)


def _kept(value: Any) -> Any:
    """The value, of containers their items now, and the attributes of objects in them."""
    if isinstance(value, dict):
        return [(_kept(key), _kept(item)) for key, item in value.items()]
    if isinstance(value, ArchiveObject):
        return [value, *map(_kept, _items(value))]
    return [_kept(item) for item in value] if isinstance(value, (list, tuple)) else value


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and type(one) in _PLAIN and bool(one == other)
