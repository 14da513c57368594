"""The literals in the text of a constant: each becomes a constant when the text is read back."""

from __future__ import annotations

import re

from .graph import CONSTANT, Node
from .ranges import TaggedText, byte_length
from .types import FunctionType
from .values import Device, EnumMember, GeneratorSeed, TableConstant

# Every mention of an enum member is a new object, equal to no other, and no nan equals another.
UNIQUE = ""
_TABLE = "CONSTANTS."

_LITERAL = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?(?:\d+\.?\d*(?:e[+-]?\d+)?j?|inf|nan))(?![\w.])
    |(?P<word>True|False|None)\b""",
    re.VERBOSE,
)


_TUPLE = re.compile(r"(?<!\w)\(")


def mark_literals(text: TaggedText, node: Node, *, folds: bool) -> TaggedText:
    """Mark the constant ``node``, or what it is made from, in its own text.

    Where constants are folded, what makes a tuple is gone as soon as it is read back.
    """
    shown = str(text)
    value = node.attributes["value"]
    if isinstance(node.output.type, FunctionType) or isinstance(value, Device | GeneratorSeed):
        return text
    if isinstance(value, EnumMember):
        text.mark(0, node, UNIQUE)
    elif isinstance(value, TableConstant) or shown.startswith(_TABLE):
        text.mark(0, node, shown)
    elif isinstance(value, list | dict) or (isinstance(value, tuple) and not folds):
        return _with_elements(shown, node, folds)
    else:
        is_folded = isinstance(value, tuple | complex)
        for match in _LITERAL.finditer(shown):
            _mark(text, shown, match, None if is_folded else node)
    return text


def _mark(text: TaggedText, shown: str, match: re.Match[str], node: Node | None) -> None:
    """What is folded leaves only its numbers, for they are kept for the whole function."""
    literal = UNIQUE if match[0] in ("nan", "-nan") else match[0]
    if node is not None or is_number(literal):
        # A number has its place behind the sign.
        start = match.start() + (match[0][0] == "-")
        text.mark(byte_length(shown[:start]), node, literal)


def _with_elements(shown: str, node: Node, folds: bool) -> TaggedText:
    """Read back, a container is made of its elements, each a constant of its own."""
    text = TaggedText()
    end = 0
    for match in _LITERAL.finditer(shown):
        element = None
        if not folds or not _is_in_tuple(shown[: match.start()]):
            element = Node(CONSTANT, attributes=node.attributes, place=node.place)
            text.write(shown[end : match.start()], node)
            text.write(match[0], element)
            end = match.end()
        _mark(text, shown, match, element)
    text.write(shown[end:], node)
    return text


def _is_in_tuple(before: str) -> bool:
    """Tuples of constants are folded."""
    opened = _TUPLE.search(before)
    return opened is not None and before.count("(", opened.start()) > before.count(
        ")", opened.start()
    )


def is_number(literal: str) -> bool:
    """Numbers become constants before everything else when a function is read back."""
    return literal.lstrip("-")[:1].isdigit()
