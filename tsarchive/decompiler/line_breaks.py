"""Long lines of generated code, broken inside of brackets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_WIDTH: Final = 96
_INDENT: Final = 4
_OPEN: Final = "([{"
_CLOSE: Final = ")]}"


def wrapped(line: str) -> str:
    """The line, broken where it is too long: what a bracket holds stands between its two lines.

    Several items stand on a line of their own each. A line without brackets stays long.
    """
    if len(line) <= _WIDTH:
        return line
    pair = _outer_pair(line)
    if pair is None:
        return line
    begin, end = pair
    indent = " " * (len(line) - len(line.lstrip(" ")) + _INDENT)
    head, body, tail = line[: begin + 1], line[begin + 1 : end], line[end:]
    whole = indent + body.strip()
    items = [whole] if len(whole) <= _WIDTH else [indent + item for item in _items(body)]
    closing = indent[_INDENT:] + tail
    return "\n".join([_head(head), *map(wrapped, items), wrapped(closing)])


def _head(head: str) -> str:
    """The text before the bracket, itself broken where it is too long."""
    return wrapped(head) if _outer_pair(head) is not None else head


def _brackets(line: str) -> Iterator[tuple[int, str, int]]:
    """Brackets and commas outside of strings: position, character, depth around it."""
    depth, position = 0, 0
    while position < len(line):
        character = line[position]
        if character in "'\"":
            position = _end_of_string(line, position)
        elif character in _CLOSE:
            depth -= 1
            yield position, character, depth
        elif character in _OPEN:
            yield position, character, depth
            depth += 1
        elif character == ",":
            yield position, character, depth
        position += 1


def _end_of_string(line: str, start: int) -> int:
    quote, position = line[start], start + 1
    while position < len(line) and line[position] != quote:
        position += 2 if line[position] == "\\" else 1
    return position


def _outer_pair(line: str) -> tuple[int, int] | None:
    """The brackets that hold most and stand in no others; the first ones of a ``def``."""
    found, begin, longest = None, 0, 0
    is_definition = line.lstrip(" ").startswith("def ")
    for position, character, depth in _brackets(line):
        if depth == 0 and character in _OPEN:
            begin = position
        elif depth == 0 and character in _CLOSE and position - begin > max(longest, 1):
            found, longest = (begin, position), position - begin
            if is_definition:
                break
    return found


def _items(body: str) -> list[str]:
    """The items between commas; each keeps its own comma."""
    found, begin = [], 0
    for position, character, depth in _brackets(body):
        if character == "," and depth == 0:
            found.append(body[begin : position + 1].strip())
            begin = position + 1
    rest = body[begin:].strip()
    return [*found, rest] if rest else found
