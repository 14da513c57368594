"""The literals in the text of a constant: each becomes a constant when the text is read back."""

from __future__ import annotations

import re

from .graph import Node
from .ranges import TaggedText, byte_length
from .types import FunctionType
from .values import Device, EnumMember, TableConstant

_LITERAL = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?(?:\d+\.?\d*(?:e[+-]?\d+)?j?|inf|nan))(?![\w.])
    |(?P<word>True|False|None)\b""",
    re.VERBOSE,
)


def mark_literals(text: TaggedText, node: Node) -> None:
    """Mark the constant ``node``, or what it is folded from, in its own text."""
    shown = str(text)
    value = node.attributes["value"]
    if isinstance(node.output.type, FunctionType) or isinstance(value, Device):
        return
    if isinstance(value, EnumMember | TableConstant) or shown.startswith("CONSTANTS."):
        text.mark(0, node, shown)
        return
    is_folded = isinstance(value, tuple | list | dict | complex)
    for match in _LITERAL.finditer(shown):
        # A number has its place behind the sign.
        start = match.start() + (match[0][0] == "-")
        text.mark(byte_length(shown[:start]), None if is_folded else node, match[0])


def is_number(literal: str) -> bool:
    """Numbers become constants before everything else when a function is read back."""
    return literal.lstrip("-")[:1].isdigit()
