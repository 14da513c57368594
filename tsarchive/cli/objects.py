"""What the object pickle of an archive refers to: objects and storages, each once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsarchive.pickler import Memoised, Object, PersistentId, Reduce

NATIVE_PREFIX = "__torch__.torch.classes."


def objects_of(root: Object) -> Iterator[Object]:
    """Every module and script object below ``root``, itself first."""
    return (value for value in _reachable(root) if isinstance(value, Object))


def storages_of(root: Object) -> dict[str, str]:
    """The device of each storage, by the name of its record."""
    devices = {}
    for value in _reachable(root):
        match value:
            case PersistentId(value=("storage", _, str(key), str(device), *_)):
                devices[f"data/{key}"] = device
    return devices


def _reachable(root: Any) -> Iterator[Any]:
    """Values that hold values, depth first, each once however often it is referred to."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        value = pending.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            pending += [item for item in reversed(_inside(value)) if _holds_values(item)]


def _holds_values(value: Any) -> bool:
    return isinstance(value, (Object, Reduce, PersistentId, Memoised, list, tuple, dict))


def _inside(value: Any) -> list[Any]:
    match value:
        case Object():
            return [value.state]
        case Reduce():
            return [value.argument, value.items]
        case Memoised():
            return [value.value]
        case dict():
            return [*value.keys(), *value.values()]
        case list() | tuple():
            return list(value)
    return []
