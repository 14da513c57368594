"""Where the values of two pickles differ, found by Python's pickle and a walk of both."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any, ClassVar


class _Made:
    """What a class or function of an archive made: its name, arguments, and state."""

    name: str

    def __init__(self, *given: Any) -> None:
        self.given = given

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle._Unpickler):
    """Also reads members of enums, whose value stands where arguments should be in a tuple."""

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)

    def _reduce(self) -> None:
        given = self.stack.pop()
        made = self.stack[-1]
        self.stack[-1] = made(*given) if isinstance(given, tuple) else made(given)

    dispatch[pickle.REDUCE[0]] = _reduce

    def find_class(self, module: str, name: str) -> Any:
        return type("Made", (_Made,), {"name": f"{module}.{name}"})

    def persistent_load(self, pid: Any) -> Any:
        return pid


def differing(before: bytes, after: bytes) -> list[str]:
    """Return the paths of values that differ: of each tensor under each name, else of attributes.

    A tensor is one value, and so is a list, tuple or dict that holds no tensor that differs.
    """
    one, other = (_Reader(io.BytesIO(data)).load() for data in (before, after))
    return [*_walk(one, other, "", "")]


def _walk(one: Any, other: Any, path: str, slot: str) -> Iterator[str]:
    if isinstance(one, _Made):
        yield from _made(one, other, path, slot)
    elif isinstance(one, dict):
        for key, item in one.items():
            yield from _walk(item, other[key], _joined(path, key), slot)
    elif isinstance(one, list | tuple):
        for index, (own, its) in enumerate(zip(one, other, strict=True)):
            yield from _walk(own, its, _joined(path, index), slot)
    elif repr(one) != repr(other):
        yield slot


def _made(one: _Made, other: _Made, path: str, slot: str) -> Iterator[str]:
    if "rebuild" in one.name:
        if _plain(one) != _plain(other):
            yield path
    elif isinstance(getattr(one, "state", None), dict):
        for key, item in one.state.items():
            own = _joined(path, key)
            yield from _walk(item, other.state[key], own, own)
    elif hasattr(one, "state"):
        own = _joined(path, "__getstate__")
        yield from _walk(one.state, other.state, own, own)
    elif one.given:
        yield from _walk(one.given[0], other.given[0], path, slot)


def _plain(value: Any) -> Any:
    if isinstance(value, _Made):
        return value.name, _plain(value.given)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return getattr(value, "name", None) or repr(value)


def _joined(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
