"""Parsing code whose blocks are nested deeper than Python's tokenizer allows.

It refuses the hundredth level of indentation. A chain of ``elif`` is written as an ``if`` in the
``else`` of another, so a long one reaches that: its inner blocks are parsed on their own, and put
back into the tree. Lines and columns stay those of the whole text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tsarchive.ir.text_limits import parse_module

_TOO_DEEP = "too many levels of indentation"
_DEEPEST = 90


class _Cut(NamedTuple):
    """Lines of a block that is parsed on its own; ``first`` counts from 0, ``end`` is behind."""

    first: int
    end: int


def parse_blocks(source: str) -> ast.Module:
    """``ast.parse``, to any depth of blocks. Raises SyntaxError as that does."""
    try:
        return parse_module(source)
    except IndentationError as error:
        if error.msg != _TOO_DEEP:
            raise
    lines = source.split("\n")
    cuts = list(_deep_blocks(lines))
    tree = parse_module("\n".join(_without(lines, cuts)))
    bodies = {cut.first + 1: _body(lines, cut) for cut in cuts}
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and block and isinstance(block[0], ast.Pass):
                block[:] = bodies.get(block[0].lineno, block)
    return tree


def _deep_blocks(lines: list[str]) -> Iterator[_Cut]:
    """Return the outermost blocks that stand too deep."""
    columns = [0]
    first = -1
    for number, line in enumerate(lines):
        column = len(line) - len(line.lstrip(" "))
        if column == len(line):
            continue
        while column < columns[-1]:
            columns.pop()
        if first >= 0 and len(columns) <= _DEEPEST:
            yield _Cut(first, number)
            first = -1
        if column > columns[-1]:
            columns.append(column)
            if len(columns) == _DEEPEST + 1 and first < 0:
                first = number
    if first >= 0:
        yield _Cut(first, len(lines))


def _without(lines: list[str], cuts: list[_Cut]) -> list[str]:
    """Return the text with a statement that does nothing in the place of each block."""
    kept = list(lines)
    for first, end in cuts:
        column = len(lines[first]) - len(lines[first].lstrip(" "))
        kept[first] = " " * column + "pass"
        kept[first + 1 : end] = [""] * (end - first - 1)
    return kept


def _body(lines: list[str], cut: _Cut) -> list[ast.stmt]:
    """Return the statements of a block, which begins behind a header in the line before it."""
    text = "\n".join([*[""] * (cut.first - 1), "if 1:", *lines[cut.first : cut.end]])
    (header,) = parse_blocks(text).body
    assert isinstance(header, ast.If)
    return header.body
