"""How often each value of a pickle is referenced, and whether any value contains itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from .values import (
    Global,
    MarkedTuple,
    Memo,
    Memoised,
    Object,
    PersistentId,
    Reduce,
    Value,
)

_LEAVES = frozenset({type(None), bool, int, float, complex, str, Global})


@dataclass(frozen=True, slots=True)
class References:
    """``shared`` holds the ids of the values that are referenced twice or more."""

    shared: frozenset[int]
    cyclic: bool


def count_references(root: Value) -> References:
    """Walk the graph below ``root`` as the writer does, without recursion.

    A value that is memoised is walked once; one that is written anew at each reference is walked
    at each. Stops at the first cycle, which no pickle of this format can hold.
    """
    met: set[int] = set()
    shared: set[int] = set()
    above: list[int] = []
    open_ids: set[int] = set()
    walks: list[Iterator[Value]] = [iter((root,))]
    while walks:
        for value in walks[-1]:
            if type(value) in _LEAVES:
                continue
            key = id(value)
            if key in open_ids:
                return References(frozenset(shared), cyclic=True)
            if key in met:
                shared.add(key)
                continue
            if not _is_rewritten(value):
                met.add(key)
            open_ids.add(key)
            above.append(key)
            walks.append(_children(value))
            break
        else:
            walks.pop()
            if above:
                open_ids.remove(above.pop())
    return References(frozenset(shared), cyclic=False)


def _is_rewritten(value: Value) -> bool:
    """Whether a further reference to the value is written in full again."""
    if isinstance(value, (Object, Reduce)):
        return value.memo is Memo.NEVER
    return type(value) is MarkedTuple


def _children(value: Value) -> Iterator[Value]:
    if isinstance(value, Object):
        return _owned(value.state) if type(value.state) is dict else iter((value.state,))
    if isinstance(value, Reduce):
        return _reduce_children(value)
    if isinstance(value, (PersistentId, Memoised)):
        return _owned(value.value)
    return _owned(value)


def _reduce_children(value: Reduce) -> Iterator[Value]:
    if isinstance(value.argument, tuple):
        for item in value.argument:
            yield from _owned(item) if type(item) in (list, dict) else (item,)
    else:
        yield value.argument
    yield from _owned(value.items)
    yield value.state


def _owned(value: Value) -> Iterator[Value]:
    """Items of a container without the container; nothing for what is no container."""
    if isinstance(value, dict):
        return chain.from_iterable(value.items())
    items: Iterable[Value] = value if isinstance(value, (list, tuple)) else ()
    return iter(items)
