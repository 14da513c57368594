"""Parsing of specifications of nested arguments: torch's JSON, or an older notation.

The older one is ``T2#2#0(T2#1#1($,$),D0())``: a letter for the kind, the number of children, the
number of leaves of each, and the children in parentheses; ``$`` is a leaf, ``'a':$`` an item of a
dict.
"""

from __future__ import annotations

import re
from typing import Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.executorch.program import RECORD
from tsarchive.formats.pt2.pytrees import LEAF, MAX_DEPTH, Key, Kind, Tree, read_tree

_KINDS: Final = {"T": Kind.TUPLE, "L": Kind.LIST, "D": Kind.DICT}
_NODE: Final = re.compile(r"([TLD])([0-9]{1,9})((?:#[0-9]{1,9})*)\(")
_KEY: Final = re.compile(r"(?:'([^']*)'|(-?[0-9]{1,18})):")


def nesting_of(text: str) -> Tree | None:
    """Parse a tree specification; None for an unknown form.

    Arguments can always be given flat, so nothing depends on such a text.
    """
    try:
        if text.startswith("["):
            return read_tree(text, RECORD)
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
