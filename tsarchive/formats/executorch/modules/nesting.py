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
_TOKEN: Final = re.compile(r"[TLD][0-9#]+\(|'[^']*':|-?[0-9]+:|[$,)]")
_NODE: Final = re.compile(r"([TLD])([0-9]{1,9})((?:#[0-9]{1,9})*)\(")
_KEY: Final = re.compile(r"(?:'([^']*)'|(-?[0-9]{1,18})):")


def nesting_of(text: str) -> Tree | None:
    """Parse a tree specification; None for an unknown form.

    Arguments can always be given flat, so nothing depends on such a text.
    """
    try:
        if text.startswith("["):
            return read_tree(text)
        tokens = _TOKEN.findall(text)  # of the older notation
        if "".join(tokens) != text:
            return None
        tokens.reverse()
        tree = _tree(tokens, 0)
        return None if tokens else tree
    except (FormatError, UnsupportedError, IndexError):
        return None


def _tree(tokens: list[str], depth: int) -> Tree:
    """Take a tree from the end of ``tokens``, which are in reverse order."""
    node = tokens.pop()
    if node == "$" and depth <= MAX_DEPTH:
        return LEAF
    match = _NODE.fullmatch(node)
    if match is None or depth > MAX_DEPTH:
        raise _malformed()
    kind = _KINDS[match[1]]
    keys: list[Key] = []
    children: list[Tree] = []
    while len(children) < int(match[2]):
        if children:
            _expect(tokens, ",")
        if kind is Kind.DICT:
            keys.append(_key(tokens.pop()))
        children.append(_tree(tokens, depth + 1))
    _expect(tokens, ")")
    if [str(child.leaves) for child in children] != match[3].split("#")[1:]:
        raise _malformed()
    return Tree(kind, tuple(children), tuple(keys))


def _key(token: str) -> Key:
    match = _KEY.fullmatch(token)
    if match is None:
        raise _malformed()
    return match[1] if match[2] is None else int(match[2])


def _expect(tokens: list[str], token: str) -> None:
    if tokens.pop() != token:
        raise _malformed()


def _malformed() -> FormatError:
    return FormatError("a nesting of values is malformed", record=RECORD)


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
