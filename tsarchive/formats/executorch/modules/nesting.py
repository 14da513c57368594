"""Nested arguments and results: specifications, flattening, nesting.

A specification is torch's JSON, or an older notation, ``T2#2#0(T2#1#1($,$),D0())``: a letter for
the kind, the number of children, the number of leaves of each, and the children in parentheses;
``$`` is a leaf, ``'a':$`` an item of a dict.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.executorch.program import RECORD
from tsarchive.formats.pt2.pytrees import LEAF, MAPPINGS, MAX_DEPTH, Key, Kind, Tree, read_tree

_KINDS: Final = {"T": Kind.TUPLE, "L": Kind.LIST, "D": Kind.DICT}
_NODE: Final = re.compile(r"([TLD])([0-9]{1,9})((?:#[0-9]{1,9})*)\(")
_KEY: Final = re.compile(r"(?:'([^']*)'|(-?[0-9]{1,18})):")


def nesting_of(text: str) -> Tree | None:
    """Parse a tree specification; None for an unknown form.

    Arguments can always be given flat, so nothing depends on such a text.
    """
    try:
        if text.startswith("["):
            return read_tree(text)
        return _Reader(text).whole()
    except (FormatError, UnsupportedError):
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Tree:
        tree = self._tree(0)
        if self._at != len(self._text):
            raise self._error()
        return tree

    def _error(self) -> FormatError:
        return FormatError("a nesting of values is malformed", record=RECORD, offset=self._at)

    def _tree(self, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise self._error()
        if self._took("$"):
            return LEAF
        match = _NODE.match(self._text, self._at)
        if match is None:
            raise self._error()
        self._at = match.end()
        kind = _KINDS[match[1]]
        keys, children = self._children(int(match[2]), depth, has_keys=kind is Kind.DICT)
        if [str(child.leaves) for child in children] != match[3].split("#")[1:]:
            raise self._error()
        return Tree(kind, tuple(children), tuple(keys))

    def _children(self, count: int, depth: int, *, has_keys: bool) -> tuple[list[Key], list[Tree]]:
        keys: list[Key] = []
        children: list[Tree] = []
        while len(children) < count:
            if children:
                self._require(",")
            if has_keys:
                keys.append(self._key())
            children.append(self._tree(depth + 1))
        self._require(")")
        return keys, children

    def _key(self) -> Key:
        match = _KEY.match(self._text, self._at)
        if match is None:
            raise self._error()
        self._at = match.end()
        return match[1] if match[2] is None else int(match[2])

    def _took(self, text: str) -> bool:
        is_there = self._text.startswith(text, self._at)
        self._at += len(text) * is_there
        return is_there

    def _require(self, text: str) -> None:
        if not self._took(text):
            raise self._error()


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
