"""Types as annotation text, and patterns over them such as ``Dict[str, T]``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\b([TU])\b")


def split(type_: str) -> tuple[str, tuple[str, ...]]:
    """Split ``Dict[str, List[int]]`` into ``("Dict", ("str", "List[int]"))``."""
    head, bracket, rest = type_.partition("[")
    return head, tuple(_arguments(rest[:-1])) if bracket else ()


def _arguments(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and not depth:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def match(pattern: str, type_: str) -> dict[str, str] | None:
    """Bind the type variables ``T`` and ``U`` of a pattern to parts of ``type_``.

    They are not bound to unions: an expression has one member of a union as its type.
    """
    if _VARIABLE.fullmatch(pattern):
        return None if type_.startswith("Union[") else {pattern: type_}
    (head, wanted), (found_head, found) = split(pattern), split(type_)
    if head != found_head or len(wanted) != len(found):
        return None
    bound: dict[str, str] = {}
    for one, other in zip(wanted, found, strict=True):
        inner = match(one, other)
        if inner is None:
            return None
        bound |= inner
    return bound


def substitute(text: str, bound: Mapping[str, str]) -> str:
    """Replace the type variables of ``text``."""
    return _VARIABLE.sub(lambda found: bound[found[1]], text)
