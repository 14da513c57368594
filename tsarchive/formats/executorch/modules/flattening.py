"""Flattening of arguments and nesting of results, as the file describes them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tsarchive.formats.pt2.pytrees import MAPPINGS, Kind, Tree

_SEQUENCES: Final = {Kind.TUPLE: tuple, Kind.LIST: list, Kind.DEQUE: deque}
_DICTS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.DICT: dict,
    Kind.ORDERED_DICT: OrderedDict,
    Kind.DEFAULT_DICT: lambda pairs: defaultdict(None, pairs),
}
_CALL_PARTS: Final = 2


class Mismatch(Exception):
    """A value with another structure than the tree; the message says where."""


def arguments_of(tree: Tree | None) -> tuple[tuple[Tree, ...], Mapping[str, Tree]] | None:
    """Return the trees of positional and of keyword arguments; None where it is no call."""
    if tree is None or tree.kind is not Kind.TUPLE or len(tree.children) != _CALL_PARTS:
        return None
    positional, named = tree.children
    if positional.kind is not Kind.TUPLE or named.kind not in MAPPINGS:
        return None
    if not all(isinstance(key, str) for key in named.keys):  # is itself not a mapping
        return None
    return positional.children, dict(zip(map(str, named.keys), named.children, strict=True))


def flatten(tree: Tree, value: Any, place: str) -> Iterator[Any]:
    """Yield the leaves of a value. Raises Mismatch where it is not nested like the tree."""
    if tree.kind is Kind.LEAF:
        yield value
        return
    items = _items(tree, value, place)
    for (step, child), item in zip(tree.places(), items, strict=True):
        yield from flatten(child, item, place + step)


def _items(tree: Tree, value: Any, place: str) -> Sequence[Any]:
    if tree.kind in MAPPINGS:
        if not isinstance(value, dict) or set(value) != set(tree.keys):
            raise Mismatch(f"{place} is no dict with the keys {list(tree.keys)}")
        return [value[key] for key in tree.keys]
    class_: type = _SEQUENCES.get(tree.kind, tuple)
    is_one = tree.kind is not Kind.REGISTERED and isinstance(value, class_)
    if not is_one or len(value) != len(tree.children):
        raise Mismatch(f"{place} is not {tree.kind.value} of {len(tree.children)}")
    return list(value)


def nest(tree: Tree, leaves: Iterator[Any]) -> Any:
    """Build the value with these leaves. Named tuples and objects of classes become tuples."""
    if tree.kind is Kind.LEAF:
        return next(leaves)
    items = [nest(child, leaves) for child in tree.children]
    if tree.kind in MAPPINGS:
        pairs = zip(tree.keys, items, strict=True)
        return _DICTS[tree.kind](pairs)
    return _SEQUENCES.get(tree.kind, tuple)(items)
